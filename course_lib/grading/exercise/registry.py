"""Finds exercises by their id. A chapter's exercises are loaded when one of them is asked for.

May import: exercises, errors.
"""

import functools
import pkgutil
from importlib import import_module

from ...errors import CourseError
from .. import exercises


@functools.cache
def all():  # noqa: A001  (registry.all() reads as it is meant)
    """Every exercise, by id, in order: ``{"03.1": Exercise, …}``.

    Raises
    ------
    CourseError  two exercises carry the same id
    """
    found = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(exercises.__path__) if info.name.startswith("ch")):
        for exercise in import_module(f"{exercises.__name__}.{module}").EXERCISES:
            if exercise.id in found:
                raise CourseError(
                    f"two exercises carry the id {exercise.id}; the second stands in exercises/{module}.py"
                )
            found[exercise.id] = exercise
    return dict(sorted(found.items()))


def get(exercise_id):
    """The exercise with this id, e.g. ``get("03.2")``.

    Raises
    ------
    CourseError  there is no such exercise; the message names those of the same chapter
    """
    known = all()
    if exercise_id in known:
        return known[exercise_id]
    chapter = str(exercise_id).split(".")[0]
    near = [name for name in known if name.startswith(chapter + ".")] or list(known)
    raise CourseError(f"there is no exercise {exercise_id!r}; there are {', '.join(near)}")
