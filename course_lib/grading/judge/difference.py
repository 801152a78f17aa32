"""The difference between a passing answer and the reference answer, as a unified diff of the lines that matter.

May import: nothing of the course.
"""

import ast
import difflib
import re
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
_MARK_LINE = re.compile(
    r"^\s*(?:###|//)\s*(?:BEGIN|END) SOLUTION(?: unmarked)?\s*$|^\s*(?:#|//) (?:region: |endregion|GIVEN: )|^# %% line "
)


def to_solution(exercise, text):
    """How the reference answer differs from a passing one.

    Parameters
    ----------
    exercise : Exercise; its `solution` is a path from the repository's root, with "#name" for one function of a module
    text : str, the answer

    Returns
    -------
    str, a unified diff; a sentence when the two are alike; "" when the reference is not there
    """
    reference = solution_text(exercise.solution)
    if reference is None:
        return ""
    parts = [_without_comments(part, exercise.language) for part in (text, reference)]
    mine, theirs = map(_lines, parts if exercise.language == "cuda" else _in_order(*parts))
    if mine == theirs:
        return "Line for line the reference answer, but for comments."
    return "\n".join(difflib.unified_diff(mine, theirs, "your answer", "reference", lineterm="", n=2))


def solution_text(where):
    """The text of the reference answer, or None when there is no such file."""
    path, _, name = where.partition("#")
    try:
        text = (_ROOT / path).read_text(encoding="utf-8")
    except OSError:
        return None
    return _function(text, name) if name else text


def _function(text, name):
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return "\n".join(lines[first - 1 : node.end_lineno])
    return None


def _in_order(mine, theirs):
    """Two Python texts with their imports first and sorted, the definitions of the first in the order of the second."""
    try:
        statements = [_statements(text) for text in (mine, theirs)]
    except SyntaxError:
        return mine, theirs
    order = {name: number for number, (name, _) in enumerate(statements[1])}

    def place(statement):
        name, source = statement
        return (0, 0, source) if not name else (1, order.get(name, len(order)), "")

    return [
        "\n".join(source if name else source.strip() for name, source in sorted(one, key=place)) for one in statements
    ]


def _statements(text):
    """[(name, lines)] of each statement of a module with a blank line before; the name of an import is empty."""
    lines, found = text.splitlines(), []
    for node in ast.parse(text).body:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        source = "\n" + "\n".join(lines[first - 1 : node.end_lineno])
        name = "" if isinstance(node, ast.Import | ast.ImportFrom) else getattr(node, "name", source)
        found.append((name, source))
    return found


def _lines(text):
    """Lines without the builder's marks, trailing blanks and blank lines at both ends; blank lines in a row are one."""
    kept = "\n".join(line.rstrip() for line in text.splitlines() if not _MARK_LINE.match(line)).strip("\n")
    return re.sub(r"\n{3,}", "\n\n", kept).split("\n")


def _without_comments(text, language):
    """The text without the lines that hold a comment and nothing else."""
    if language != "cuda":
        return "\n".join(line for line in text.splitlines() if not re.match(r"\s*#(?! %%)", line))
    plain = re.sub(r"^[ \t]*/\*.*?\*/[ \t]*$\n?", "", text, flags=re.DOTALL | re.MULTILINE)
    return "\n".join(line for line in plain.splitlines() if not re.match(r"\s*//", line))
