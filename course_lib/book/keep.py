"""Building never costs a learner anything: answers are kept, and a copy goes to work/ before a file is written.

Every built cell knows the text it was built with: an answer or a prediction in its metadata (``built``), any other
cell in its id. So a learner's edit differs from a text that is merely old.

May import: notebooks.
"""

import os
import re
import shutil
import time
from pathlib import Path

import nbformat

from .notebooks import fingerprint

_BUILT_ID = re.compile(r"c\d\d-([0-9a-f]{12}|answer-\d\d-\d+)(-\d+)?")


def own(cell):
    """Whether the learner added this cell."""
    return not _BUILT_ID.fullmatch(cell.id)


def changed(cell):
    """Whether the learner changed this built cell since it was built."""
    match = _BUILT_ID.fullmatch(cell.id)
    return bool(match) and fingerprint(cell.source) != cell.metadata.get("built", match[1])


def touched(existing):
    """Whether anything in this notebook is the learner's: a changed cell, or a cell of their own."""
    return any(changed(cell) or (own(cell) and cell.source.strip()) for cell in existing.cells)


def merge(built, existing):
    """`built` with the learner's answers, predictions and own cells of `existing` in their cells.

    An answer is matched by its exercise id, everything else by cell id; a cell that the learner added follows the cell
    that it followed before. An answer whose exercise is gone is kept at the end.
    """
    notebook = nbformat.from_dict(built)
    cells = {_key(cell): cell for cell in notebook.cells}
    followers, orphans, anchor = {}, [], None
    for cell in existing.cells:
        key = _key(cell)
        answered = "built" in cell.metadata and changed(cell)
        if key in cells:
            anchor = key
            if answered:
                cells[key].source = cell.source
        elif answered:
            orphans.append(cell)
        elif own(cell) and cell.source.strip():
            followers.setdefault(anchor, []).append(cell)
    merged = followers.pop(None, [])
    for key, cell in cells.items():
        merged += [cell, *followers.pop(key, [])]
    notebook.cells = merged + orphans
    return notebook


def _key(cell):
    exercise = cell.metadata.get("exercise")
    return ("answer", exercise) if exercise and "exercise" in cell.metadata.get("tags", ()) else ("cell", cell.id)


def back_up(path, work):
    """Copy `path` to work/kept with folder and time in its name; returns the copy's path."""
    folder = Path(work) / "kept"
    folder.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    number = 1
    while (target := folder / f"{path.parent.name}-{path.stem}-{stamp}-{number}{path.suffix}").exists():
        number += 1
    shutil.copy2(path, target)
    return target


def write_atomic(path, text):
    """Write `text` to `path` so that a reader, or a crash, never sees half of it; returns whether anything changed."""
    path = Path(path)
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        scratch.write_text(text)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
    return True
