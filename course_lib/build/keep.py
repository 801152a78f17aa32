"""Building never costs a learner anything: changed cells are kept, and a copy goes to work/ before a file is written.

May import: notebooks.
"""

import os
import shutil
import time
from pathlib import Path

import nbformat

from .notebooks import fingerprint


def changed(cell):
    """Whether the learner changed this exercise or prediction cell since it was built."""
    starter = cell.metadata.get("starter")
    return starter is not None and fingerprint(cell.source) != starter


def merge(built, existing):
    """`built` with the learner's changed cells and own cells of `existing` in their places.

    An answer is matched by its exercise id, everything else by cell id; a cell that the learner added follows the cell
    that it followed before. An answer whose exercise is gone is kept at the end.
    """
    prefix = built.cells[0].id.partition("-")[0] + "-"
    cells = {_key(cell): cell for cell in built.cells}
    followers, orphans, anchor = {}, [], None
    for cell in existing.cells:
        key = _key(cell)
        if key in cells:
            anchor = key
            if changed(cell):
                cells[key].source = cell.source
        elif changed(cell):
            orphans.append(cell)
        elif not cell.id.startswith(prefix) and cell.source.strip():
            followers.setdefault(anchor, []).append(cell)
    merged = list(followers.pop(None, []))
    for key, cell in cells.items():
        merged += [cell, *followers.pop(key, [])]
    notebook = nbformat.from_dict(built)
    notebook.cells = merged + orphans
    return notebook


def _key(cell):
    exercise = cell.metadata.get("exercise")
    return ("answer", exercise) if exercise and "exercise" in cell.metadata.get("tags", ()) else ("cell", cell.id)


def touched(existing):
    """Whether anything in this exercises notebook is the learner's: a changed cell, or a cell of their own."""
    prefixes = {cell.id.partition("-")[0] for cell in existing.cells if cell.metadata.get("starter")}
    return any(changed(cell) or cell.id.partition("-")[0] not in prefixes for cell in existing.cells)


def back_up(path, work):
    """Copy `path` to work/kept with the time in its name; returns the copy's path."""
    folder = Path(work) / "kept"
    folder.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number = 1
    while (target := folder / f"{path.stem}-{stamp}-{number}{path.suffix}").exists():
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
