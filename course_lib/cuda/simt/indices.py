"""Findings about an index outside a declared array: which array it is, read from the source.

The compiler's check (runtime/undefined.cpp) knows index, type and place of the expression, not the array's name.

May import: simt.source.
"""

import re
from pathlib import Path

from .source import AUTHOR

_NAME = re.compile(r"[A-Za-z_]\w*$")
_MEMBER = re.compile(r"(?:[A-Za-z_]\w*(?:\.|->))*([A-Za-z_]\w*)")


def index_text(raw, source, first_line):
    """Return the end of a finding's sentence, or None for an array in shared memory, whose accesses are checked anyway.

    Parameters
    ----------
    raw : dict, a finding of the runtime with the detail "index|INDEX|TYPE|LINE|COLUMN|FILE"
    source : str, the author's text
    first_line : int, of that text
    """
    _, index, array, line, column, file = raw["detail"].split("|", 5)
    text = _line(file, int(line), source, first_line)
    expression = indexed_expression(text[: int(column)]) or _begun_at(text[int(column) - 1 :], array)
    name = re.match(r"\w*", expression)[0]
    if name and re.search(rf"__shared__[^;]*\b{name}\b", source):
        return None
    size = re.search(r"\[(\d+)\]", array)
    count = f"{int(size[1]):,}" if size else "fewer"
    return f"uses index {int(index)} of {expression or 'an array'}, which has {count} elements"


def indexed_expression(text):
    """Return `acc[1]` of a text that ends with `acc[1][i]`, "" when it ends with something else."""
    end = len(text)
    brackets = []
    while end and text[end - 1] == "]":
        start = _opening(text, end)
        brackets.insert(0, text[start:end])
        end = start
    name = _NAME.search(text[:end])
    return name[0] + "".join(brackets[:-1]) if name and brackets else ""


def _begun_at(text, array):
    """Return the same of a text that begins with it, which is where clang++ points: g++ points at its last bracket.

    array : str, the type of what is indexed; its dimensions are those whose index is not part of it
    """
    name, brackets = _MEMBER.match(text), []
    if name is None:
        return ""
    start = name.end()
    while (end := _closing(text, start)) is not None:
        brackets.append(text[start:end])
        start = end
    return name[1] + "".join(brackets[: max(0, len(brackets) - array.count("["))])


def _closing(text, start):
    """Return the position after the bracket that text[start] opens; None when it opens none that ends on this line."""
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] == "[") - (text[position] == "]")
        if depth == 0:
            return position + 1 if position > start else None
    return None


def _opening(text, end):
    """Return the position of the bracket that text[end - 1] closes; 0 when it is on another line."""
    depth = 0
    for position in range(end - 1, -1, -1):
        depth += (text[position] == "]") - (text[position] == "[")
        if depth == 0:
            return position
    return 0


def _line(file, number, source, first_line):
    text = source if file == AUTHOR else Path(file).read_text("utf-8") if Path(file).is_file() else ""
    lines = text.splitlines()
    index = number - (first_line if file == AUTHOR else 1)
    return lines[index] if 0 <= index < len(lines) else ""
