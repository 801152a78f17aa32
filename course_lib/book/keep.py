"""Building never costs a learner anything: answers are kept, and a copy goes to work/ before a file is written.

Every built cell knows the text it was built with: an answer or a prediction in its metadata (``built``), any other
cell in its id. So a learner's edit differs from a text that is merely old.

May import: notebooks.
"""

import os
import re
import shutil
import time
import uuid
from pathlib import Path

import nbformat
from nbformat.v4 import new_markdown_cell

from .notebooks import fingerprint

WAIVED = "waived_guesses"  # a notebook's metadata: the guesses that JupyterLab's extension no longer waits for
_BUILT_ID = re.compile(r"c\d\d-([0-9a-f]{12}|answer-\d\d-\d+)(-\d+)?")


def own(cell):
    """Whether the learner added this cell. One that was split, or cut and pasted, has a new id and counts as added."""
    return not _BUILT_ID.fullmatch(cell.get("id", ""))


def changed(cell):
    """Whether the learner changed this built cell since it was built."""
    match = _BUILT_ID.fullmatch(cell.get("id", ""))
    built = cell.metadata.get("built", match and match[1])
    return built is not None and fingerprint(cell.source) != built


def touched(existing):
    """Whether anything in this notebook is the learner's: a changed cell, or a cell of their own."""
    return any(changed(cell) or (own(cell) and cell.source.strip()) for cell in existing.cells)


def merge(built, existing, shipped=None):
    """`built` with the learner's answers, predictions, notes and own cells of `existing` in their places.

    An answer is matched by its exercise id, everything else by cell id; a cell that the learner added follows the cell
    that it followed before, and so does a note: the lines that were written into a Markdown cell of the course. An
    answer whose exercise is gone is kept at the end. `shipped`, if known, is `existing` before the learner worked in
    it: it tells a note from a text that the course has changed since.
    """
    notebook = nbformat.from_dict(built)
    if WAIVED in existing.metadata:
        notebook.metadata[WAIVED] = existing.metadata[WAIVED]
    cells = {_key(cell): cell for cell in notebook.cells}
    originals = {_key(cell): cell for cell in shipped.cells} if shipped else {}
    texts = {cell.source: cell.id for cell in notebook.cells}
    for cell in existing.cells:  # an editor that knows only nbformat 4.4 saves no ids
        cell.setdefault("id", texts.get(cell.source) or uuid.uuid4().hex[:8])
    followers, orphans, anchor = {}, [], None
    for cell, key, mine in _with_keys(existing.cells):
        anchor = key if key in cells else anchor
        if mine and cell.source.strip():
            followers.setdefault(anchor, []).append(cell)
        elif mine or not changed(cell):
            continue
        elif "built" in cell.metadata and key in cells:
            _answer(cells[key], cell)
        elif "built" in cell.metadata:
            orphans.append(cell)
        elif cell.cell_type == "markdown" and (note := _note(cell, originals.get(key) or cells.get(key))).source:
            followers.setdefault(anchor, []).append(note)
    merged = followers.pop(None, [])
    for key, cell in cells.items():
        merged += [cell, *followers.pop(key, [])]
    notebook.cells = merged + orphans
    return notebook


def divided(existing, built):
    """`existing` in as many notebooks as `built` has, each with the cells that continue in that one.

    A cell that is in none of `built`, the learner's own or one that is gone, stays with the cell that it followed.
    """
    homes = {_key(cell): number for number, notebook in reversed([*enumerate(built)]) for cell in notebook.cells}
    parts = [nbformat.from_dict({**existing, "cells": []}) for _ in built]
    home = 0
    for cell in existing.cells:
        home = homes.get(_key(cell), home)
        parts[home].cells.append(cell)
    return parts


def _with_keys(cells):
    """(cell, key, whether it is an addition) of each cell.

    The first cell with an exercise's metadata is its answer if the one with the built id is gone.
    """
    answers = {_key(cell) for cell in cells if not own(cell)}
    for cell in cells:
        key = _key(cell)
        mine = own(cell) and (key[0] == "cell" or key in answers)
        answers.add(key)
        yield cell, key, mine


def _answer(target, cell):
    """Put the learner's text, with its outputs, into the cell `target`."""
    target.source = cell.source
    if target.cell_type == cell.cell_type == "code":
        target.outputs, target.execution_count = cell.outputs, cell.execution_count


def _note(cell, original):
    """A cell with the lines that the learner wrote into `cell`; all of it if the course's text is not known."""
    known = set(original.source.splitlines()) if original else ()
    text = "\n".join(line for line in cell.source.splitlines() if line not in known)
    kept = {"attachments": cell.attachments} if "attachments" in cell else {}
    return new_markdown_cell(text.strip("\n"), **kept)


def _key(cell):
    exercise = cell.metadata.get("exercise")
    return (
        ("answer", exercise) if exercise and "exercise" in cell.metadata.get("tags", ()) else ("cell", cell.get("id"))
    )


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
    if path.exists() and path.read_text("utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        scratch.write_text(text, "utf-8")
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
    return True
