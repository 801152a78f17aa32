"""The table of promises: what each exercise's contract says, how the judge checks it, and what it refuses for it.

May import: errors, grading.exercise, book.chapters.
"""

from dataclasses import dataclass

from ...errors import CourseError
from ...grading.exercise import registry, submissions

SECTION = "What is checked"
HEADER = ("Promise", "How it is checked", "Refused")
NOTHING = "-"  # in the third column: no answer can break this promise


@dataclass(frozen=True)
class Promise:
    """One row: what the contract says, how that is judged, and wrong answers, by name, that break it."""

    promise: str
    check: str
    refused: tuple[str, ...]


def promises(exercise_id):
    """The promises of one exercise, in the order of its task.md; none without the section.

    Raises
    ------
    CourseError  a table with other columns, or a name that the exercise's wrong.md does not have
    """
    section = registry.documents()[exercise_id].sections.get(SECTION, "")
    rows = [tuple(cell.strip() for cell in line.strip().strip("|").split("|")) for line in section.splitlines() if line]
    if not rows:
        return ()
    if rows[0] != HEADER or any(len(row) != len(HEADER) for row in rows):
        raise CourseError(f"{exercise_id}: '{SECTION}' is a table with the columns {', '.join(HEADER)}.")
    found = tuple(Promise(promise, check, _names(refused)) for promise, check, refused in rows[2:])
    known = {wrong.name for wrong in submissions.load("wrong", exercise_id)}
    unknown = sorted({name for row in found for name in row.refused} - known)
    if unknown:
        raise CourseError(f"{exercise_id}: '{SECTION}' names {', '.join(unknown)}, which wrong.md does not have.")
    return found


def _names(cell):
    return () if cell == NOTHING else tuple(name.strip() for name in cell.split(";"))


def promises_table(_root):
    """A section for each exercise that says how its promises are checked."""
    parts = []
    for exercise_id, document in registry.documents().items():
        rows = promises(exercise_id)
        if rows:
            lines = [f"| {row.promise} | {row.check} | {'; '.join(row.refused) or NOTHING} |" for row in rows]
            parts.append(
                "\n".join([f"## {exercise_id} {document.title}", "", _line(HEADER), "| --- | --- | --- |", *lines])
            )
    return "\n\n".join(parts)


def _line(cells):
    return f"| {' | '.join(cells)} |"
