"""Finds the answers of many learners in a folder, in any of three layouts; what is wrong with one stops no other.

    SUBMISSIONS/anna/…                     a folder a learner: their work/ folder, answer files, notebooks, in any depth
    SUBMISSIONS/anna_03_exercises.ipynb    notebooks as a learning platform collects them
    submitted/anna/ASSIGNMENT/…            nbgrader's layout; the folder above `submitted` will do

Nothing of a learner is run here, no link is followed, and no file is written.

May import: errors, grade_all, grading.
"""

import re
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from ...errors import CourseError
from ...grading.answer import notebook
from ...grading.answer.text import Answer, from_file
from ...grading.exercise import registry
from ...grading.processes.wire import plain_text
from .. import grade_all

_HANDED_IN = re.compile(r"(.*?)[ _.-]*\d\d[ _-]exercises(?![a-z]).*", re.IGNORECASE)  # anna_03_exercises (2).ipynb
_OF_CHAPTER = re.compile(r"(?:.*\D)?(\d\d)[ _-]exercises(?![a-z])", re.IGNORECASE)
_OF_TOOLS = {".git", ".ipynb_checkpoints"}
_MOST_NOTEBOOK_BYTES, _MOST_NOTEBOOKS, _MOST_COPIES = 64 << 20, 50, 10


@dataclass(frozen=True)
class Found:
    """An answer and where it lay: "work/answers/03.1", "03_exercises.ipynb, In [4]"."""

    answer: Answer
    where: str


@dataclass
class Learner:
    """What one learner handed in: an answer an exercise, and sentences about what could not be used."""

    name: str
    answers: dict[str, Found] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def collect(folder):
    """Every learner of a folder, in order of their names, and sentences about what belongs to none.

    Raises
    ------
    CourseError  there is no such folder, no learner in it, or it is the folder of a single learner
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CourseError(f"there is no folder {folder}")
    if (folder / "answers").is_dir() and (folder / "progress.json").is_file():
        raise CourseError(f"{folder} is one learner's work/; give the folder that holds a folder for each learner")
    if (folder / "submitted").is_dir():
        folder = folder / "submitted"  # nbgrader's
    files, stray = {}, []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            if path.is_dir() and path.name not in _OF_TOOLS:
                stray.append(f"{path.name} is hidden and was not looked into")
            continue
        if path.is_symlink() or not (path.is_dir() or path.suffix == ".ipynb"):
            stray.append(f"{path.name} belongs to no learner: a folder or a notebook of theirs was expected")
        elif path.is_dir():
            files.setdefault(path.name, []).append(path)
        elif (named := _HANDED_IN.fullmatch(path.stem)) and named[1]:
            files.setdefault(named[1], []).append(path)
        else:
            stray.append(f"{path.name} names no learner; call it NAME_03_exercises.ipynb, or put it into a folder NAME")
    if not files:
        raise CourseError(f"{folder} holds no learner: a folder a learner, or notebooks NAME_03_exercises.ipynb")
    learners = {}
    for name in sorted(files):
        same = [shown for shown in learners if re.fullmatch(re.escape(legible(name)) + r"( \(\d+\))?", shown)]
        shown = legible(name) + (f" ({len(same) + 1})" if same else "")  # two that differ in what no page can show
        learners[shown] = _learner(shown, files[name])
    return [learners[name] for name in sorted(learners)], [legible(sentence, 400) for sentence in stray]


def legible(text, most=100):
    """A name or sentence from outside as one line of UTF-8 without control characters."""
    return " ".join(plain_text(text.encode("utf-8", "replace").decode(), most).split()) or "(no name)"


def _learner(name, paths):
    learner, candidates, documents = Learner(name), {}, registry.documents()
    for path in paths:
        try:
            if path.is_dir():
                _from_folder(path, learner, candidates, documents)
            else:
                _from_notebook(path, path.name, learner, candidates, documents)
        except Exception as error:  # whatever it is, the others are graded
            learner.problems.append(f"{path.name} cannot be read: {type(error).__name__}: {error}")
    for exercise, found in sorted(candidates.items()):
        learner.answers[exercise] = _chosen(documents[exercise], found, learner.problems)
    if not candidates and not learner.problems:
        learner.problems.append("nothing was handed in: no file or folder named as 03.1, no notebook with answers")
    learner.problems = [legible(sentence, 400) for sentence in learner.problems]
    return learner


def _from_folder(folder, learner, candidates, documents):
    """Files first: work/answers/ holds what has passed."""
    skipped = learner.problems.append
    for one in grade_all.answer_files(folder, skipped):
        try:
            answer = from_file(one.path)
            found = Found(replace(answer, filename=legible(answer.filename)), legible(one.name, 400))
            candidates.setdefault(one.exercise, []).append(found)
        except CourseError as error:
            learner.problems.append(str(error).replace(str(one.path), one.name))
    notebooks = grade_all.plain_files(folder, (".ipynb",), _MOST_NOTEBOOK_BYTES, skipped)
    for path in islice(notebooks, _MOST_NOTEBOOKS):
        if not path.stem.endswith("_solutions"):
            _from_notebook(path, str(path.relative_to(folder)), learner, candidates, documents)


def _from_notebook(path, shown, learner, candidates, documents):
    try:
        cells = notebook.read_cells(path)
    except CourseError as error:
        learner.problems.append(f"{shown} is not graded: {error}")
        return
    answers = sorted((cell for cell in cells if cell.exercise), key=lambda cell: not cell.built)
    for cell in answers:
        if cell.exercise not in documents:
            learner.problems.append(
                f"{shown}, {cell.name} says exercise {cell.exercise}, which the course does not have"
            )
            continue
        found = candidates.setdefault(cell.exercise, [])
        if len(found) == _MOST_COPIES:
            learner.problems.append(
                f"{shown}, {cell.name}: no more than {_MOST_COPIES} answers to {cell.exercise} are read"
            )
            break
        task = documents[cell.exercise]
        answer = notebook.answer(cells, cell, task.language, task.entry)
        found.append(Found(answer, legible(f"{shown}, {cell.name}", 400)))
    if chapter := _OF_CHAPTER.match(path.stem):
        missing = {exercise for exercise in documents if exercise.startswith(f"{chapter[1]}.")}
        missing -= {cell.exercise for cell in answers}
        if missing:
            learner.problems.append(
                f"{shown} has no cell of {', '.join(sorted(missing))}; an answer is known by its cell's metadata, "
                "which some editors drop"
            )


def _chosen(task, found, problems):
    """The first answer that is no starter; a sentence where there is a choice between several."""
    from ...grading.judge.judge import not_started

    written = [one for one in found if not not_started(task, one.answer.text)] or found[:1]
    others = [one.where for one in written[1:] if one.answer.text != written[0].answer.text]
    if others:
        problems.append(
            f"{task.id} is there {len(others) + 1} times: {written[0].where} is graded, {', '.join(others)} not"
        )
    return written[0]
