"""Answers that test the judge: known-wrong ones with the diagnosis each must get, and right ones that look different.

They are in wrong.md and right.py of an exercise's folder, mostly as exact edits of the solution, so that nothing
drifts: an edit whose text is missing from the solution is an error.

May import: errors, registry, wrong_answers.
"""

from dataclasses import dataclass

from ...errors import CourseError
from . import registry, wrong_answers


@dataclass(frozen=True)
class Right:
    """An answer that must PASS; with `remark`, a remark must hold that text."""

    name: str
    edits: tuple[tuple[str, str], ...] = ()
    text: str = ""  # a whole answer, in place of edits
    remark: str = ""


def edited(solution, submission):
    """The submission's text.

    Parameters
    ----------
    solution : str, the solved answer
    submission : Wrong or Right

    Raises
    ------
    CourseError  a text to find is not in the solution exactly once
    """
    if isinstance(submission, wrong_answers.Wrong):
        return wrong_answers.applied(solution, submission)
    text = submission.text or solution
    for find, replace in submission.edits:
        count = text.count(find)
        if count != 1:
            raise CourseError(f"{submission.name}: {find!r} is {count} times in the solution; expected exactly once")
        text = text.replace(find, replace)
    return text


def load(kind, exercise_id):
    """An exercise's "wrong" submissions, from its wrong.md, or its "right" ones, the list ANSWERS of its right.py."""
    folder = registry.folder_of(exercise_id)
    if kind == "wrong":
        return wrong_answers.read(folder / "wrong.md")
    return list(registry.module(folder, "right").ANSWERS)
