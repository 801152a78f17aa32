"""Chapters to notebooks: lecture, starter and solved exercises; running a lecture and keeping its outputs small.

May import: errors, regions, outline, navigation, chapters, guesses.
"""

import base64
import hashlib
import os
import re
import tempfile
from collections import Counter
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ..errors import CourseError
from . import guesses, regions
from .chapters import Cell
from .navigation import TAG
from .outline import ROOT, exercises_name, lecture_name, solutions_name

MAX_PNG_BYTES = 120_000  # one picture
MAX_PLAYER_BYTES = 100_000  # all frames of a player, and its still picture
MAX_OUTPUT_BYTES = 1_000_000  # one notebook
CELL_SECONDS = 300
_ENVIRONMENT = {"COURSE_ENGINE": "cpu", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_IMAGE = re.compile(r"<img\b[^>]*>")
_WIDGET = "application/vnd.jupyter.widget-view+json"
_SAVED_METADATA = {
    "course": "attention-kernel-by-kernel",  # course_lib/labextension looks for it
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {
        "name": "python",
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "pygments_lexer": "ipython3",
    },
}


@dataclass(frozen=True)
class Built:
    """The notebooks of one chapter; exercises and solutions are None when the chapter has no exercises yet."""

    number: str  # of the chapter
    lectures: dict[str, nbformat.NotebookNode]  # by stem
    exercises: nbformat.NotebookNode | None
    solutions: nbformat.NotebookNode | None

    def files(self):
        """Name from the root -> notebook, of all that exist: one for each lecture, one of exercises, one solved."""
        files = {lecture_name(stem): notebook for stem, notebook in self.lectures.items()}
        files[exercises_name(self.number)] = self.exercises
        files[solutions_name(self.number)] = self.solutions
        return {name: notebook for name, notebook in files.items() if notebook is not None}


def build(chapter):
    """The notebooks of `chapter`, without outputs; each begins and ends with its line of links.

    Raises
    ------
    CourseError  an exercise cell whose text has no solution region, or an answer to a prediction that is not asked for
    """
    for part in (*(lecture.cells for lecture in chapter.lectures), chapter.exercises):
        guesses.check(part)
    lectures = {
        lecture.stem: _notebook(chapter, lecture_name(lecture.stem), [(cell, cell.source) for cell in lecture.cells])
        for lecture in chapter.lectures
    }
    number, exercises = chapter.number, chapter.exercises
    if not exercises:
        return Built(number, lectures, None, None)
    starter = _notebook(chapter, exercises_name(number), [(cell, _starter_text(cell)) for cell in exercises])
    solved = _notebook(chapter, solutions_name(number), [(cell, regions.solved(cell.source)) for cell in exercises])
    return Built(number, lectures, starter, solved)


def fingerprint(text):
    """A short hash of a cell's text; tells a learner's edit from an older starter."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _starter_text(cell):
    if cell.exercise is None:
        return regions.solved(cell.source)
    return regions.starter(cell.source, cell.exercise, cell.language)


def _notebook(chapter, name, sources):
    if line := chapter.navigation.get(name):
        links = (Cell("markdown", line, TAG, {"tags": [TAG]}), line)
        sources = [links, *sources, links]
    seen, cells = Counter(), []
    for cell, text in sources:
        metadata = dict(cell.metadata)
        if "hide-input" in cell.tags:
            metadata["jupyter"] = {"source_hidden": True}
        if cell.kind == "code":
            metadata = guesses.fold_outputs(metadata)
        else:
            text = guesses.fold_text(text, metadata)
        if cell.exercise or "predict" in cell.tags:
            metadata["built"] = fingerprint(text)
        name = f"answer-{cell.exercise}".replace(".", "-") if cell.exercise else fingerprint(text)
        seen[name] += 1
        suffix = "" if seen[name] == 1 else f"-{seen[name]}"
        make = new_code_cell if cell.kind == "code" else new_markdown_cell
        cells.append(make(text, metadata=metadata, id=f"c{chapter.number}-{name}{suffix}"))
    return new_notebook(cells=cells, metadata=dict(_SAVED_METADATA))


def execute(notebook, *, folder=ROOT / "notebooks", seconds=CELL_SECONDS, strict=True):
    """A copy of `notebook` with the outputs of a run on the CPU engine, from top to bottom.

    Parameters
    ----------
    folder : path, the working directory of the run; JupyterLab runs a notebook in its own folder
    seconds : int, the longest that one cell may take
    strict : bool; with it a `check` that is not passed and a %%cuda cell that does not compile raise

    Raises
    ------
    CourseError  a cell raised; the message holds the cell and its traceback
    """
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.from_dict(notebook)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **_ENVIRONMENT, "COURSE_STRICT": str(int(strict))}
    try:
        with tempfile.TemporaryDirectory() as work:  # a build predicts and passes nothing in the learner's name
            _client(notebook, folder, seconds).execute(env={**environment, "COURSE_WORK_DIR": work})
    except CellExecutionError as error:
        raise CourseError(f"a cell of the notebook raised:\n{_ANSI.sub('', str(error))}") from None
    notebook.metadata = dict(_SAVED_METADATA)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [_static(output) for output in cell.outputs]
    return notebook


def _client(notebook, folder, seconds):
    from nbclient import NotebookClient

    return NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=seconds,
        resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--log-level=ERROR"],  # no warning on every start about a local, unencrypted port
        record_timing=False,
        store_widget_state=False,
    )


def _static(output):
    """An output as a page can show it: a widget needs a running kernel, so a sentence replaces it."""
    data = output.get("data", {})
    if _WIDGET in data:
        del data[_WIDGET]
        if set(data) <= {"text/plain"}:
            data["text/plain"] = "Interactive: run this cell to use it."
    return output


def check_outputs(notebook, name):
    """Refuse outputs that would swell the repository or shut a reader out.

    Raises
    ------
    CourseError  a picture above MAX_PNG_BYTES or without alt text, a player above MAX_PLAYER_BYTES, or outputs above
                 MAX_OUTPUT_BYTES in sum
    """
    total = 0
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text": output.get("text", "")})
            total += sum(len(str(value)) for value in data.values())
            _check_pictures(data, f"{name}, cell {number}")
    if total > MAX_OUTPUT_BYTES:
        raise CourseError(f"{name}: outputs of {total:,} bytes, at most {MAX_OUTPUT_BYTES:,} are kept")


def pictures(data):
    """[(bytes of the picture, alt text)] of each <img> in the HTML of an output's MIME bundle."""
    found = []
    for image in _IMAGE.findall(data.get("text/html", "")):
        encoded, alt = (re.search(pattern, image) for pattern in (r'base64,([^"]*)"', r'alt="([^"]*)"'))
        found.append((base64.b64decode(encoded[1] if encoded else ""), unescape(alt[1]) if alt else ""))
    return found


def _check_pictures(data, where):
    """One output's pictures and player."""
    bare = [(base64.b64decode(data["image/png"]), "")] if "image/png" in data else []
    for png, alt in [*pictures(data), *bare]:
        if len(png) > MAX_PNG_BYTES:
            raise CourseError(
                f"{where}: a picture of {len(png):,} bytes, at most {MAX_PNG_BYTES:,} are kept; "
                "draw it smaller or with fewer points"
            )
        if not alt:
            raise CourseError(f"{where}: a picture without alt text; the pictures of course_lib.viz bring theirs")
    size = len(data.get("text/html", ""))
    if "data-frames=" in data.get("text/html", "") and size > MAX_PLAYER_BYTES:
        raise CourseError(
            f"{where}: a player of {size:,} bytes, at most {MAX_PLAYER_BYTES:,} are kept; play fewer frames"
        )
