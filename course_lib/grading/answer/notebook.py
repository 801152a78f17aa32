"""Answers in a notebook's file, found by the exercise's id in the cell's metadata; no cell is run.

A CUDA answer is its cell. A Python or Triton answer is the function and, as `check` takes them along in the notebook,
the imports, helpers and constants of other cells that it uses (gather.py), here found in their text.

May import: errors, gather, loading, text.
"""

import ast
import contextlib
import functools
import json
import re
from dataclasses import dataclass

from ...errors import CourseError
from . import gather
from .loading import mark
from .text import Answer, plain

_BUILT_ID = re.compile(r"c\d\d-answer-(\d\d)-(\d+)")  # of an answer's cell as it was built, whatever its metadata say
_EXERCISE_ID = re.compile(r"\d\d\.\d+")
_MAGIC_LINE = re.compile(r"^[ \t]*[%!?].*$", re.MULTILINE)
_MOST_CELLS, _MOST_CODE, _MOST_PARSED = 1000, 1 << 19, 1 << 16  # characters; Python takes minutes for a hostile text
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Cell:
    """A code cell: `name` as its learner knows it, `exercise` the id it says, `built` whether the course made it."""

    name: str
    source: str
    exercise: str | None = None
    built: bool = False


def read_cells(path):
    """The code cells of a notebook's file, in order.

    Raises
    ------
    CourseError  it is no notebook that can be read; the message says why
    """
    try:
        cells = json.loads(path.read_bytes().decode("utf-8"))["cells"]
        found = [_cell(number, plain) for number, plain in enumerate(cells, 1) if plain["cell_type"] == "code"]
        "".join(cell.source for cell in found).encode("utf-8")  # JSON can hold half of a character
    except OSError as error:
        raise CourseError(f"it cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise CourseError(f"it is damaged: its JSON ends or breaks at line {error.lineno}") from None
    except (UnicodeError, ValueError, RecursionError):
        raise CourseError("it is damaged: it is no text in UTF-8 or nests too deep") from None
    except (KeyError, TypeError, AttributeError):
        raise CourseError(
            "it is no notebook of format 4: cells with a type, metadata and a source are expected"
        ) from None
    if len(found) > _MOST_CELLS or sum(len(cell.source) for cell in found) > _MOST_CODE:
        raise CourseError(f"it has more than {_MOST_CELLS:,} cells or {_MOST_CODE:,} characters of code")
    return found


def _cell(number, plain):
    source, metadata = plain["source"], plain.get("metadata") or {}
    source = source if isinstance(source, str) else "".join(source)
    count, built = plain.get("execution_count"), _BUILT_ID.fullmatch(str(plain.get("id", "")))
    exercise = metadata.get("exercise") if "exercise" in (metadata.get("tags") or ()) else None
    if exercise is None and built:
        exercise = f"{built[1]}.{built[2]}"
    if not isinstance(exercise, str) or not _EXERCISE_ID.fullmatch(exercise):
        exercise = None
    ran = type(count) is int and 0 < count < 10**6
    return Cell(f"In [{count}]" if ran else f"cell {number}", source, exercise, bool(built))


def answer(cells, cell, language, entry):
    """The Answer in a cell.

    Parameters
    ----------
    cells : list of Cell, the whole notebook
    cell : Cell, the one that holds the answer
    language : "cuda", "triton" or "python"
    entry : str, the function that the exercise asks for; a cell without it is taken as it is
    """
    if language == "cuda":
        return Answer(plain(cell.source), cell.name)
    number = cells.index(cell)
    found = _definitions(cells, number)
    if entry in found and found[entry].cell == number:
        with contextlib.suppress(SyntaxError):  # of a function that parses and does not compile: the judge says it
            return Answer(_gathered(found, entry), "<cell>", 1, entry)
    return Answer(_without_magic(cell.source), cell.name)


@dataclass(frozen=True)
class _Definition:
    cell: int
    line: int
    name: str  # of the cell
    text: str


def _definitions(cells, answer_at):
    """{name: _Definition} when the answer's cell has run; of the cells below it only what is defined nowhere else."""
    found = {}
    for number, cell in enumerate(cells):
        source = _without_magic(cell.source)
        for node in _statements(source):
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            piece = _Definition(number, first, cell.name, "\n".join(source.splitlines()[first - 1 : node.end_lineno]))
            for name in _bound(node):
                if number <= answer_at or name not in found:
                    found[name] = piece
    return found


def _without_magic(source):
    """A cell's text as Python: lines for IPython are left empty, so that the others keep their numbers."""
    return source if _statements(source) else _MAGIC_LINE.sub("", source)


@functools.lru_cache(maxsize=2048)  # a notebook is read once for each of its answers
def _statements(source):
    if len(source) > _MOST_PARSED:
        return []
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _bound(node):
    """Names that a statement of a cell binds; nothing for a statement that does more than define."""
    if isinstance(node, _DEFINITIONS):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def _gathered(found, entry):
    """The definition of `entry` and of all that it uses, in the notebook's order, each under a mark with its line."""
    taken, remaining = {}, [entry]
    while remaining:
        name = remaining.pop()
        if name in found and name not in taken:
            taken[name] = found[name]
            remaining += gather.outside_names(found[name].text)
    pieces = sorted(set(taken.values()), key=lambda piece: (piece.cell, piece.line))
    return "\n\n".join(f"{mark(piece.line, piece.name)}\n{piece.text}" for piece in pieces) + "\n"
