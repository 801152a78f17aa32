"""wrong.md: answers that must fail, each a small diff of the solution with the diagnosis that it must get.

    # Wrong answers to 02.2

    Text, which only people read.

    ## Lanes                                   optional; text may follow

    ### first step missing

    `merge_incomplete`: "lanes 16 to 31"       or the code alone, if its sentence may say anything

    ```diff
    -    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {
    +    for (int offset = WARP_SIZE / 4; offset > 0; offset /= 2) {
    @@
         if (lane == 0) {
    +        sum += 0.0f;
    ```

The old side of a hunk, its context and `-` lines, is in the solution exactly once, as whole lines; so a hunk that only
adds has context. No line of a diff begins with `#` or a fence: headings and fences are found without reading it.

May import: errors, document.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ...errors import CourseError
from . import document

_SECTION = re.compile(r"## \S.*")
_NAME = re.compile(r"### (\S.*)")
_DIAGNOSIS = re.compile(r'`([a-z0-9_]+)`(?:: "(.+)")?')


@dataclass(frozen=True)
class Hunk:
    """Lines of the solution, once in it, and the lines that replace them; `line` is where wrong.md says so."""

    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class Wrong:
    """An answer that must FAIL with diagnosis `diagnosis`, in a sentence that holds `says`; `path` is its wrong.md."""

    name: str
    diagnosis: str
    says: str
    hunks: tuple[Hunk, ...]
    path: Path


def read(path):
    """The wrong answers of a wrong.md, in order.

    Parameters
    ----------
    path : Path, in the exercise's folder

    Raises
    ------
    CourseError  no such file, or a line that is not what this format expects there; the message names it
    """
    if not path.is_file():
        raise CourseError(f"{path} is missing; it holds the wrong answers that the judge must refuse")
    lines = path.read_text(encoding="utf-8").split("\n")
    title = f"# Wrong answers to {document.exercise_id(path.parent)}"
    if lines[:1] != [title]:
        raise _error(path, 1, f"expected {title!r}", lines[0])
    headings = [index for index, line in enumerate(lines) if line.startswith("#")]
    answers = []
    for start, end in pairwise([*headings, len(lines)]):
        heading, body = lines[start], list(enumerate(lines[start + 1 : end], start + 2))
        if start == 0 or _SECTION.fullmatch(heading):
            _require_text(path, body)
        elif named := _NAME.fullmatch(heading):
            answers.append(_answer(path, start + 1, named[1], body))
        else:
            raise _error(path, start + 1, "expected '## SECTION' or '### NAME of a wrong answer'", heading)
    return answers


def applied(solution, wrong):
    """The text of a wrong answer.

    Parameters
    ----------
    solution : str, the solved answer
    wrong : Wrong

    Raises
    ------
    CourseError  the old side of a hunk is not once in the solution, or the hunks are not in its order
    """
    lines, text, end = solution.split("\n"), [], 0
    for number, hunk in enumerate(wrong.hunks, 1):
        size = len(hunk.old)
        found = [at for at in range(len(lines) - size + 1) if tuple(lines[at : at + size]) == hunk.old]
        place = f"{wrong.path}, line {hunk.line}: hunk {number} of {wrong.name!r}"
        if len(found) != 1:
            remedy = "add a neighbouring line as context" if found else "copy its context and '-' lines from there"
            raise CourseError(f"{place} is {len(found)} times in the solution; expected exactly once: {remedy}")
        if found[0] < end:
            raise CourseError(f"{place} begins before the end of the one above it; put hunks in the solution's order")
        text += [*lines[end : found[0]], *hunk.new]
        end = found[0] + size
    return "\n".join([*text, *lines[end:]])


def _require_text(path, body):
    for number, line in body:
        if line.startswith("```"):
            raise _error(path, number, "expected text; a diff stands under its '### NAME'", line)


def _answer(path, heading, name, body):
    """The Wrong under the heading of line `heading`; `body` holds the pairs (line number, line) below it."""
    stated = [*(pair for pair in body if pair[1].strip()), (heading, ""), (heading, "")]
    number, line = stated[0]
    diagnosis = _DIAGNOSIS.fullmatch(line)
    if not diagnosis:
        raise _error(path, number, f"""expected the diagnosis of {name!r}, `code` or `code`: "its words\"""", line)
    opening, line = stated[1]
    if line != "```diff":
        raise _error(path, opening, f"expected a line ```diff, which begins the diff of {name!r}", line)
    closing = next((number for number, line in body if number > opening and line == "```"), None)
    if closing is None:
        raise CourseError(f"{path}, line {opening}: the diff of {name!r} does not end; close it with a line ```")
    for number, line in body:
        if number > closing and line.strip():
            raise _error(path, number, f"expected nothing after the one diff of {name!r}", line)
    hunks = _hunks(path, name, [(opening, "@@"), *(pair for pair in body if opening < pair[0] < closing)])
    return Wrong(name, diagnosis[1], diagnosis[2] or "", hunks, path)


def _hunks(path, name, diff):
    """The Hunks of a diff, whose pairs (line number, line) begin with a line `@@`."""
    hunks = []
    for number, line in diff:
        if line == "@@":
            hunks.append((number + 1, [], []))
            continue
        if line[:1] not in ("-", "+", " ", ""):
            raise _error(path, number, f"expected '-', '+', a blank or '@@' at the start of a line of {name!r}", line)
        _, old, new = hunks[-1]
        if line[:1] != "+":
            old.append(line[1:])
        if line[:1] != "-":
            new.append(line[1:])
    for number, old, new in hunks:
        if old == new:
            raise CourseError(f"{path}, line {number}: this hunk of {name!r} changes nothing")
        if not old:
            raise CourseError(f"{path}, line {number}: this hunk of {name!r} only adds; give it a line of context")
    return tuple(Hunk(number, tuple(old), tuple(new)) for number, old, new in hunks)


def _error(path, number, expected, found):
    return CourseError(f"{path}, line {number}: {expected}; found {found!r}")
