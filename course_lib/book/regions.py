"""Text that a chapter borrows from the sources: regions, includes, and what a learner sees of a solution.

A region is between ``// region: NAME`` and ``// endregion`` in .cu and .cuh files, ``# region: NAME`` and
``# endregion`` in Python. A solution is between ``### BEGIN SOLUTION`` and ``### END SOLUTION`` in Python,
``// BEGIN SOLUTION`` and ``// END SOLUTION`` in CUDA. One that begins with ``// BEGIN SOLUTION unmarked`` leaves no
TODO: the learner finds what is missing. A line ``// GIVEN: code`` (Python: ``# GIVEN: code``) in
a solution is code to mend: it appears in the starter, below the TODO, and nowhere else.

May import: errors.
"""

import ast
import re
import textwrap
from pathlib import Path

from ..errors import CourseError

_REGION = re.compile(r"\s*(?://|#) region: (\S+)\s*$")
_ENDREGION = re.compile(r"\s*(?://|#) endregion\b.*$")
_INCLUDE = re.compile(r"\s*@include (\S.*?)\s*$")
_EXCERPT = re.compile(r"^```c\+\+\n.*?^```$", re.MULTILINE | re.DOTALL)
_UNROLL = re.compile(r"\s*#pragma unroll\s*$")
_BEGIN = re.compile(r"(\s*)(?:###|//) BEGIN SOLUTION( unmarked)?\s*$")
_END = re.compile(r"\s*(?:###|//) END SOLUTION\s*$")
_GIVEN = re.compile(r"(\s*)(?://|#) GIVEN: (.*)$")


def region(text, name, *, filename="<text>"):
    """The lines of region `name` in `text`, dedented and without markers.

    Raises
    ------
    CourseError  no such region, the region opens twice, or it is never closed
    """
    body, inside, depth, count = [], False, 0, 0
    for line in text.splitlines():
        opened = _REGION.match(line)
        if opened and not inside and opened[1] == name:
            inside, count = True, count + 1
        elif inside and opened:
            depth += 1
        elif inside and _ENDREGION.match(line):
            inside, depth = depth > 0, max(depth - 1, 0)
        elif inside:
            body.append(line)
    if count != 1 or inside:
        problem = {0: "does not exist", 1: "is never closed"}.get(count, f"opens {count} times")
        raise CourseError(f"{filename}: region {name!r} {problem}; expected exactly one 'region: {name}' … 'endregion'")
    return textwrap.dedent("\n".join(_directives_indented(body))).strip("\n")


def _directives_indented(lines):
    """`lines`; a directive at column 0, as `#pragma unroll`, moves to the column of the statement that it precedes."""
    moved, indent = [], ""
    for line in reversed(lines):
        if line.startswith("#") and indent:
            line = indent + line
        elif line.strip():
            indent = line[: len(line) - len(line.lstrip())]
        moved.append(line)
    return moved[::-1]


def function(text, name, *, filename="<text>"):
    """The source of the top-level function or class `name` of a Python text, decorators included.

    Raises
    ------
    CourseError  no such function
    """
    return without_region_marks(_function_text(text, name, filename))


def _function_text(text, name, filename):
    """The same with its region marks."""
    for node in ast.parse(text, filename).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines, end = text.splitlines(), node.end_lineno
            while end < len(lines) and (not lines[end].strip() or lines[end][0].isspace()):
                end += 1  # comments that close the body (END SOLUTION) belong to it
            return "\n".join(lines[first - 1 : end])
    raise CourseError(f"{filename}: no region and no function {name!r}")


def without_region_marks(text):
    """`text` without its region and endregion lines: a notebook has no use for them."""
    kept = [line for line in text.splitlines() if not _REGION.match(line) and not _ENDREGION.match(line)]
    return "\n".join(kept).strip("\n").rstrip()


def included(reference, root):
    """The text that ``@include reference`` includes: ``PATH``, ``PATH#REGION`` or, for Python, ``PATH#function_name``.

    ``PATH#function_name/REGION`` is a region inside a Python function; others may use its name too.
    """
    path, _, name = reference.partition("#")
    file = Path(root) / path
    if not file.is_file():
        raise CourseError(f"@include {reference}: there is no file {path} in the course")
    text = file.read_text("utf-8")
    outer, _, inner = name.partition("/")
    if inner:
        return region(_function_text(text, outer, path), inner, filename=f"{path}#{outer}")
    if not name:
        return without_region_marks(text)
    if file.suffix == ".py" and not re.search(rf"^\s*# region: {re.escape(name)}\s*$", text, re.MULTILINE):
        return function(text, name, filename=path)
    return region(text, name, filename=path)


def expand_includes(source, root):
    """`source` with every ``@include`` line replaced by the text that it names."""
    lines = []
    for line in source.splitlines():
        match = _INCLUDE.match(line)
        lines.append(included(match[1], root) if match else line)
    return "\n".join(lines)


def pragmas_folded(markdown):
    """`markdown` whose C++ excerpts have at most one line ``#pragma unroll``; with more, their loops say "unrolled"."""
    return _EXCERPT.sub(lambda excerpt: _fold(excerpt[0]), markdown)


def _fold(excerpt):
    """One excerpt with a comment at each unrolled loop in place of the line above it."""
    lines, unrolled = [], False
    if sum(map(bool, map(_UNROLL.match, excerpt.splitlines()))) < 2:
        return excerpt
    for line in excerpt.splitlines():
        if _UNROLL.match(line):
            unrolled = True
            continue
        lines.append(f"{line}{'; ' if '//' in line else '  // '}unrolled" if unrolled else line)
        unrolled = False
    return "\n".join(lines)


def _split_solutions(text):
    """Yield (indent, lines, unmarked): indent is None outside a solution region and its indentation inside one."""
    outside, inside, indent, unmarked = [], [], None, False
    for number, line in enumerate(text.splitlines(), start=1):
        begin = _BEGIN.match(line)
        if begin and indent is None:
            yield None, outside, False
            outside, inside, indent, unmarked = [], [], begin[1], begin[2] is not None
        elif _END.match(line) and indent is not None:
            yield indent, inside, unmarked
            indent = None
        elif begin or _END.match(line):
            raise CourseError(f"line {number}: BEGIN SOLUTION and END SOLUTION must alternate")
        else:
            (outside if indent is None else inside).append(line)
    if indent is not None:
        raise CourseError("BEGIN SOLUTION without END SOLUTION")
    yield None, outside, False


def starter(text, exercise_id, language):
    """What the learner begins with: every solution region of `text` replaced by a stub.

    Parameters
    ----------
    language : "cuda", "triton" or "python"; the stub is a TODO comment in CUDA, so that the starter compiles, and
        raises NotImplementedError otherwise

    Raises
    ------
    CourseError  no solution region, or its marks do not alternate
    """
    if language == "cuda":
        stub = f"// TODO {exercise_id}: your code here, in place of this line"
        mend = f"// TODO {exercise_id}: mend what follows, and delete this line"
    else:
        stub = mend = f'raise NotImplementedError("{exercise_id}")'
    lines, regions = [], 0
    for indent, block, unmarked in _split_solutions(text):
        regions += indent is not None and not unmarked
        given = [match[1] + match[2] for line in block if (match := _GIVEN.match(line))]
        head = [] if unmarked else [indent + (mend if given else stub)] if indent is not None else []
        lines += block if indent is None else head + given
    if not regions:
        raise CourseError(f"exercise {exercise_id}: its source has no BEGIN SOLUTION … END SOLUTION region")
    return "\n".join(lines)


def solved(text):
    """`text` with its solutions in place; the marks and the lines given to mend are gone."""
    return "\n".join(line for _, block, _ in _split_solutions(text) for line in block if not _GIVEN.match(line))
