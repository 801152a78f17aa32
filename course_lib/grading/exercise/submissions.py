"""Answers that test the judge: known-wrong ones with the diagnosis each must get, and right ones that look different.

They stand in solutions/wrong/ and solutions/right/, one file an exercise, mostly as exact edits of the solution, so
that nothing drifts: an edit whose text is no longer there is an error.

May import: errors.
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from ...errors import CourseError


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


def edited(solution, contestant):
    """The contestant's text.

    Parameters
    ----------
    solution : str, the solved answer
    contestant : Wrong or Right

    Raises
    ------
    CourseError  a text to find is not there exactly once
    """
    text = getattr(contestant, "text", "") or solution
    for find, replace in contestant.edits:
        count = text.count(find)
        if count != 1:
            raise CourseError(f"{contestant.name}: {find!r} stands {count} times in the solution; it must stand once")
        text = text.replace(find, replace)
    return text


def load(folder, exercise_id):
    """The contestants of an exercise: the list ANSWERS of `folder`/NN_k.py, empty without such a file."""
    path = Path(folder) / f"{exercise_id.replace('.', '_')}.py"
    if not path.is_file():
        return []
    spec = importlib.util.spec_from_file_location(f"contestants_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.ANSWERS)
