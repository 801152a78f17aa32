"""Read chapters/NN_stem.md: MyST Markdown with code cells, split into parts.

A line ``+++ {"part": "lecture"}`` or ``+++ {"part": "exercises"}`` starts a part; what precedes the first one is
lecture. A chapter of several lectures names each: ``+++ {"part": "lecture", "stem": "07b_tensor_core_ladder"}``.

May import: errors, regions, exercises, outline, navigation, reading.
"""

from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import jupytext

from ..errors import CourseError
from . import exercises, navigation, reading
from .outline import ROOT, lecture_titles, split_parts
from .regions import expand_includes, pragmas_folded


@dataclass(frozen=True)
class Cell:
    kind: str  # "markdown" | "code"
    source: str  # includes expanded, solution marks kept
    part: str
    metadata: dict = field(default_factory=dict)

    @property
    def tags(self):
        return tuple(self.metadata.get("tags", ()))

    @property
    def exercise(self):
        """The id of the exercise that this cell answers, or None."""
        return self.metadata.get("exercise") if "exercise" in self.tags else None

    @property
    def language(self):
        """ "cuda" for a ``%%cuda`` cell, "triton" when it decorates with @triton.jit, otherwise "python"."""
        if self.source.lstrip().startswith("%%cuda"):
            return "cuda"
        return "triton" if "@triton.jit" in self.source else "python"


@dataclass(frozen=True)
class Lecture:
    stem: str  # the chapter's, or "07b_tensor_core_ladder" where a chapter has several
    title: str  # the text of its first heading: "07b The ladder"
    cells: tuple[Cell, ...]

    @property
    def label(self):
        """ "03", or "07b" where a chapter has several lectures."""
        return self.stem.partition("_")[0]


@dataclass(frozen=True)
class Chapter:
    stem: str  # "03_online_softmax"
    lectures: tuple[Lecture, ...]
    exercises: tuple[Cell, ...]
    navigation: dict = field(default_factory=dict)  # name of a notebook -> its line of links

    @property
    def number(self):
        return self.stem[:2]

    @property
    def cells(self):
        return (*chain.from_iterable(lecture.cells for lecture in self.lectures), *self.exercises)

    def part(self, name):
        return [cell for cell in self.cells if cell.part == name]


def read_chapter(path, root=ROOT):
    """One chapter as data.

    Raises
    ------
    CourseError  an unknown part, a missing include, an exercise cell without its id, no title, or a lecture whose stem
        is missing or out of order
    """
    path = Path(path)
    try:
        chapter = chapter_from(path.stem, path.read_text("utf-8"), root)
        lines = navigation.lines(chapter.number, bool(chapter.exercises), navigation.stops(root))
    except CourseError as error:
        raise CourseError(f"{path.name}: {error}") from error
    return replace(chapter, navigation=lines)


def chapter_from(stem, text, root=ROOT):
    """A chapter's text as data, without links to its neighbours; `stem` is its file's name without the suffix."""
    header, parts = split_parts(exercises.expand(text, stem[:2], root))
    titles = lecture_titles(stem, parts)
    lectures, exercise_cells = {name: [] for name in titles}, []
    for part, named, body in parts:
        notebook = jupytext.reads(header + body, fmt="md:myst")
        cells = [_cell(raw, part, root) for raw in notebook.cells if raw.source.strip()]
        (exercise_cells if part == "exercises" else lectures[named or stem]).extend(cells)
    read = tuple(
        Lecture(name, titles[name], tuple(reading.with_time(cells, stem[:2], root))) for name, cells in lectures.items()
    )
    return Chapter(stem, read, tuple(exercise_cells))


def _cell(raw, part, root):
    if raw.cell_type not in ("markdown", "code"):
        raise CourseError(f"a {raw.cell_type} cell; a chapter holds Markdown and code cells only")
    source = expand_includes(raw.source, root)
    source = pragmas_folded(source) if raw.cell_type == "markdown" else source
    cell = Cell(raw.cell_type, source, part, dict(raw.metadata))
    if "exercise" in cell.tags and not cell.exercise:
        raise CourseError('an exercise cell without its id; expected :exercise: "NN.k" beside its tags')
    return cell
