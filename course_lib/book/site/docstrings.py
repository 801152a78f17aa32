"""Docstrings of the course as reStructuredText: prose, items of Parameters, Returns, Raises and Notes, pictures of 0/1.

The house's format is close to numpydoc and read in editors and terminals, so nothing in it is marked up for Sphinx:
characters that reStructuredText would interpret are escaped here.

May import: the standard library.
"""

import re
from itertools import groupby, zip_longest

_CODE = re.compile(r"``(.+?)``|`([^`]+)`")
_SPECIAL = re.compile(r"([*|\\]|_(?!\w))")
_ITEM = re.compile(r"(\S.*?)(?: : |\s{2,})(\S.*)")  # "q : tensor", "ShapeError  what is wrong"
_PICTURE = re.compile(r"\s*[01.](\s+[01.])+\s*")
SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Notes", "Examples")


def to_rst(lines):
    """The lines of one docstring, dedented, as lines of reStructuredText."""
    made = []
    for title, body in _sections(lines):
        if title is None:
            made += _prose(body)
        else:
            made += [f".. rubric:: {title}", "", *_items(body)]
    return made


def inline(text):
    """One line of prose: code spans as literals, everything else escaped."""
    made, end = [], 0
    for span in _CODE.finditer(text):
        made.append(_SPECIAL.sub(r"\\\1", text[end : span.start()]))
        glue = "\\ " if text[span.end() : span.end() + 1].isalnum() else ""
        made.append(f"``{(span[1] or span[2]).strip()}``{glue}")
        end = span.end()
    return "".join([*made, _SPECIAL.sub(r"\\\1", text[end:])])


def _sections(lines):
    """[(title or None, lines)]: a title of SECTIONS with its line of dashes starts a section."""
    sections = [(None, [])]
    skip = False
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        if skip:
            skip = False
        elif line.strip() in SECTIONS and re.fullmatch(r"-{3,}", following.strip()):
            sections.append((line.strip(), []))
            skip = True
        else:
            sections[-1][1].append(line)
    return sections


def _prose(lines):
    """Paragraphs; an indented one is code, and so is a doctest."""
    made = []
    for paragraph in _paragraphs(lines):
        if paragraph[0].startswith(">>>"):
            made += paragraph
        elif paragraph[0].startswith(" "):
            made += ["::", "", *(f"    {line}" for line in paragraph)]
        elif any(line.startswith(" ") for line in paragraph):
            made += [f"| {inline(line)}" for line in paragraph]
        else:
            made += map(inline, paragraph)
        made.append("")
    return made


def _paragraphs(lines):
    groups = groupby(lines, key=lambda line: bool(line.strip()))
    return [list(group) for filled, group in groups if filled]


def _items(lines):
    """A definition list: each line without indentation starts an item, and what is indented belongs to it."""
    made, item = [], []
    for line in [*(line for line in lines if line.strip()), None]:
        if item and (line is None or not line.startswith(" ")):
            made += _item(item)
            item = []
        if line is not None:
            item.append(line)
    return made


def _item(lines):
    head, rest = lines[0], lines[1:]
    match = _ITEM.fullmatch(head)
    if not match:
        return [*map(inline, (line.strip() for line in lines)), ""]
    indents = {len(line) - len(line.lstrip()) for line in rest}
    kept = len(indents) > 1 or any(map(_PICTURE.fullmatch, rest))  # line breaks mean something
    body = [match[2], *rest]
    base = min(indents, default=0)
    shown = [line[base:] if number else line for number, line in enumerate(body)]
    text = [f"    | {inline(line)}" if kept else f"    {inline(line.strip())}" for line in shown]
    return [f"``{match[1].strip('`')}``", *text, ""]
