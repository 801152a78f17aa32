"""Answers that test the judge: known-wrong ones with the diagnosis each must get, and right ones that look different.

They are in wrong.py and right.py of an exercise's folder, mostly as exact edits of the solution, so that nothing
drifts: an edit whose text is missing from the solution is an error.

May import: errors, registry.
"""

from dataclasses import dataclass

from ...errors import CourseError
from . import registry


@dataclass(frozen=True)
class Wrong:
    """An answer that must FAIL with diagnosis `diagnosis`, in a sentence that holds `says`."""

    name: str
    edits: tuple[tuple[str, str], ...]
    diagnosis: str
    says: str = ""


@dataclass(frozen=True)
class Right:
    """An answer that must PASS; with `remark`, a remark must hold that text."""

    name: str
    edits: tuple[tuple[str, str], ...] = ()
    text: str = ""  # a whole answer, in place of edits
    remark: str = ""


def one(find, *replacements):
    """Return the edits of an answer that change some words of one line.

    Parameters
    ----------
    find : str, the line as it is in the solution
    replacements : pairs (old, new), applied to the line one after the other
    """
    text = find
    for old, new in replacements:
        text = text.replace(old, new)
    return ((find, text),)


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
    text = getattr(submission, "text", "") or solution
    for find, replace in submission.edits:
        count = text.count(find)
        if count != 1:
            raise CourseError(f"{submission.name}: {find!r} is {count} times in the solution; expected exactly once")
        text = text.replace(find, replace)
    return text


def load(kind, exercise_id):
    """The list ANSWERS of an exercise's "wrong" or "right" submissions."""
    return list(registry.module(registry.folder_of(exercise_id), kind).ANSWERS)
