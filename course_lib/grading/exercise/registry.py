"""Finds exercises: one folder each, `NN_k_slug`, in solutions/ and in the folders that COURSE_EXERCISES names.

A folder holds task.md (what the learner reads), task.py (what the judge runs), the answer, wrong.md and right.py. Its
modules are loaded by path, when one of them is asked for, and import each other as `from .diagnostics import …`.

May import: errors, document, exercises.
"""

import functools
import os
import re
import sys
import types
import zlib
from importlib import import_module
from pathlib import Path

from ...errors import CourseError
from . import document
from .document import ROOT

VARIABLE = "COURSE_EXERCISES"  # folders of exercises outside the repository, separated as in PATH


def folders(root=ROOT):
    """The folder of every exercise, by id, in order: ``{"03.1": Path, …}``.

    Raises
    ------
    CourseError  two folders give the same id, or a folder of COURSE_EXERCISES holds no exercise
    """
    known = {}
    for place in [Path(root) / "solutions", *outside()]:
        inside = _exercises_in(place)
        if not inside and place != Path(root) / "solutions":
            raise CourseError(f"{place} holds no exercise; expected folders called NN_k_name, with task.md and task.py")
        for folder in inside:
            exercise_id = document.exercise_id(folder)
            if exercise_id in known:
                raise CourseError(
                    f"two exercises have the id {exercise_id}: {known[exercise_id]} and {folder}; "
                    "rename one, for example to 91_1_…"
                )
            known[exercise_id] = folder
    return dict(sorted(known.items(), key=lambda item: _order(item[0])))


def outside():
    """The folders that COURSE_EXERCISES names, as absolute paths."""
    return [Path(part).expanduser().resolve() for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]


def ids():
    """The id of every exercise, in order."""
    return list(folders())


def documents(root=ROOT):
    """The Document of every exercise, by id, in order."""
    return {exercise_id: read(folder) for exercise_id, folder in folders(root).items()}


def get_document(exercise_id):
    """The Document of one exercise; task.py is not loaded."""
    return read(folder_of(exercise_id))


def folder_of(exercise_id):
    """The folder of one exercise.

    Raises
    ------
    CourseError  there is no such exercise; the message names the one that was probably meant, or those of the chapter
    """
    known = folders()
    if exercise_id in known:
        return known[exercise_id]
    meant = _meant(str(exercise_id), known)
    if meant is not None:
        raise CourseError(f"there is no exercise {exercise_id!r}; did you mean {meant}?")
    chapter = str(exercise_id).split(".")[0]
    near = [name for name in known if name.startswith(chapter + ".")] or list(known)
    raise CourseError(f"there is no exercise {exercise_id!r}; there are {', '.join(near)}")


def _meant(words, known):
    """The id that differs from `words` only in how its numbers are written: "9.4", "9_4", "ex 09.4"; or None."""
    numbers = [int(digits) for digits in re.findall(r"\d+", words)]
    name = f"{numbers[0]:02}.{numbers[1]}" if len(numbers) == 2 else None
    return name if name in known else None


def get(exercise_id):
    """The exercise with this id, e.g. ``get("03.2")``; no other one is loaded.

    Raises
    ------
    CourseError  there is no such exercise, or its task.py has no EXERCISE
    """
    folder = folder_of(exercise_id)
    exercise = getattr(module(folder, "task"), "EXERCISE", None)
    if exercise is None:
        raise CourseError(f"{folder / 'task.py'} defines no EXERCISE")
    return exercise


def all():  # noqa: A001  (registry.all() reads as it is meant)
    """Every exercise, by id, in order: ``{"03.1": Exercise, …}``."""
    return {exercise_id: get(exercise_id) for exercise_id in folders()}


def module(folder, stem):
    """The module `stem`.py of an exercise's folder, loaded again only when a file of the folder has changed.

    The folder becomes a package of its own name, so that the modules of two exercises never meet and each can import
    its neighbours relatively.
    """
    folder = Path(folder).resolve()
    if not (folder / f"{stem}.py").is_file():
        raise CourseError(f"{folder / f'{stem}.py'} is missing")
    stamps = [path.stat().st_mtime_ns for path in sorted([*folder.glob("*.py"), *folder.glob("task.md")])]
    name = f"exercise_{folder.name}_{zlib.crc32(repr((str(folder), stamps)).encode()):08x}"
    if name not in sys.modules:
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    return import_module(f"{name}.{stem}")


def read(folder):
    """The Document in `folder`, read again only when task.md has changed."""
    path = Path(folder) / "task.md"
    stamp = path.stat().st_mtime_ns if path.is_file() else 0
    return _read(Path(folder), stamp)


@functools.lru_cache(maxsize=256)
def _read(folder, _stamp):
    return document.read(folder)


def _exercises_in(place):
    if document.exercise_id(place) and (place / "task.md").is_file():
        return [place]
    return sorted(path for path in place.glob("[0-9][0-9]_*_*") if path.is_dir() and document.exercise_id(path))


def _order(exercise_id):
    chapter, _, number = exercise_id.partition(".")
    return chapter, int(number)
