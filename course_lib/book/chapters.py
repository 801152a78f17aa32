"""Read chapters/NN_stem.md: MyST Markdown with code cells, split into parts.

A line ``+++ {"part": "lecture"}`` or ``+++ {"part": "exercises"}`` starts a part; what precedes the first one is
lecture. A chapter of several lectures names each: ``+++ {"part": "lecture", "stem": "07b_tensor_core_ladder"}``.

May import: errors, regions, exercises.
"""

import json
import re
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from string import ascii_lowercase

import jupytext

from ..errors import CourseError
from . import exercises
from .regions import expand_includes

PARTS = ("lecture", "exercises")
ROOT = Path(__file__).resolve().parents[2]
_PART = re.compile(r"\+\+\+ (\{.*\"part\".*\})\s*$")
_FENCE = re.compile(r"(`{3,}|~{3,}|:{3,})")


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

    @property
    def number(self):
        return self.stem[:2]

    @property
    def cells(self):
        return (*chain.from_iterable(lecture.cells for lecture in self.lectures), *self.exercises)

    def part(self, name):
        return [cell for cell in self.cells if cell.part == name]


def chapter_files(root=ROOT):
    """The chapters in order, as paths."""
    return sorted((Path(root) / "chapters").glob("[0-9][0-9]_*.md"))


def read_chapter(path, root=ROOT):
    """One chapter as data.

    Raises
    ------
    CourseError  an unknown part, a missing include, an exercise cell without its id, no title, or a lecture whose stem
        is missing or out of order
    """
    path = Path(path)
    try:
        return chapter_from(path.stem, path.read_text(), root)
    except CourseError as error:
        raise CourseError(f"{path.name}: {error}") from error


def chapter_from(stem, text, root=ROOT):
    """A chapter's text as data; `stem` is its file's name without the suffix."""
    header, segments = _split_parts(exercises.expand(text, stem[:2], root))
    _check_stems(stem, [named for part, named, _ in segments if part == "lecture"])
    lectures, exercise_cells = {}, []
    for part, named, body in segments:
        notebook = jupytext.reads(header + body, fmt="md:myst")
        cells = [_cell(raw, part, root) for raw in notebook.cells if raw.source.strip()]
        (exercise_cells if part == "exercises" else lectures.setdefault(named or stem, [])).extend(cells)
    read = tuple(_lecture(name, tuple(cells)) for name, cells in lectures.items())
    return Chapter(stem, read, tuple(exercise_cells))


def _check_stems(stem, named):
    """Refuse a chapter that names some lectures only, or whose names are not NNa_…, NNb_… in order."""
    for letter, name in zip(ascii_lowercase, named if any(named) else (), strict=False):
        if not re.fullmatch(rf"{stem[:2]}{letter}_[a-z0-9_]+", name or ""):
            found = f"is called {name!r}" if name else "has no stem, and others have one"
            expected = f'{{"part": "lecture", "stem": "{stem[:2]}{letter}_…"}}'
            raise CourseError(f"lecture {letter} {found}; expected a line +++ {expected}")


def _lecture(stem, cells):
    """A lecture; its title begins with its label."""
    headings = (line for cell in cells if cell.kind == "markdown" for line in cell.source.splitlines())
    title = next((line[2:].strip() for line in headings if line.startswith("# ")), "")
    lecture = Lecture(stem, title, cells)
    if title.partition(" ")[0] != lecture.label:
        found = f"is {title!r}" if title else "is missing"
        raise CourseError(f"the title of {stem} {found}; expected a first heading '# {lecture.label} …'")
    return lecture


def _cell(raw, part, root):
    if raw.cell_type not in ("markdown", "code"):
        raise CourseError(f"a {raw.cell_type} cell; a chapter holds Markdown and code cells only")
    cell = Cell(raw.cell_type, expand_includes(raw.source, root), part, dict(raw.metadata))
    if "exercise" in cell.tags and not cell.exercise:
        raise CourseError('an exercise cell without its id; expected :exercise: "NN.k" beside its tags')
    return cell


def _split_parts(text):
    """(YAML header, [(part, stem or None, text), …]); markers inside a fence are text."""
    lines = text.splitlines()
    if lines[:1] != ["---"] or "---" not in lines[1:]:
        raise CourseError("expected a YAML header between two lines '---' at the top")
    end = lines.index("---", 1) + 1
    segments, fence = [("lecture", None, [])], None
    for line in lines[end:]:
        opened = _FENCE.match(line)
        if opened and fence is None:
            fence = opened[1]
        elif opened and line.strip() == fence:
            fence = None
        marker = _PART.match(line) if fence is None else None
        if marker:
            words = json.loads(marker[1])
            if words["part"] not in PARTS:
                raise CourseError(f"unknown part {words['part']!r}; expected one of {', '.join(PARTS)}")
            segments.append((words["part"], words.get("stem"), []))
        else:
            segments[-1][2].append(line)
    header = "\n".join(lines[:end]) + "\n\n"
    filled = [segment for segment in segments if any(map(str.strip, segment[2]))]
    return header, [(part, stem, "\n".join(body) + "\n") for part, stem, body in filled]
