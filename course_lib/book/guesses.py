"""Guess first: what gives the answer to a prediction away is folded until the guess is made.

A cell of a chapter says so with ``after_guess: "03.bytes"``, the key of an earlier `predict` of its lecture; several
keys are separated by spaces. The outputs of a code cell are then collapsed, and a text becomes a <details>. Both open
on a click everywhere; in JupyterLab the course's extension opens them when the guess is made (labextension/).

May import: errors.
"""

import re

from ..errors import CourseError

_PREDICT = re.compile(r"^predict\(\s*\"([^\"]+)\"", re.MULTILINE)
_SUMMARY = "Make your guess first: this is the answer"
_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)


def keys(metadata):
    """The predictions that a cell answers."""
    return metadata.get("after_guess", "").split()


def fold_text(text, metadata):
    """The text of a Markdown cell, folded if it answers a prediction."""
    if not keys(metadata):
        return text
    return f'<details class="after-guess"><summary>{_SUMMARY}</summary>\n\n{text}\n\n</details>'


def fold_outputs(metadata):
    """The metadata of a code cell, with its outputs collapsed if it answers a prediction."""
    if not keys(metadata):
        return metadata
    return metadata | {"collapsed": True, "jupyter": metadata.get("jupyter", {}) | {"outputs_hidden": True}}


def fold_on_page(cell):
    """Mark a cell of a built notebook for myst-nb, which then folds its outputs on the site; returns the cell."""
    if keys(cell.metadata) and cell.cell_type == "code":
        cell.metadata["tags"] = [*cell.metadata.get("tags", ()), "hide-output"]
        cell.metadata["mystnb"] = {"code_prompt_show": _SUMMARY, "code_prompt_hide": "Fold the answer"}
    return cell


def check(cells):
    """Refuse a cell that answers a prediction which no earlier cell asks for, or that folds a heading away.

    Parameters
    ----------
    cells : the cells of one lecture, or of the exercises, in order

    Raises
    ------
    CourseError  with the key, or the heading
    """
    asked = set()
    for cell in cells:
        if cell.kind == "code" and "predict" in cell.tags:
            asked.update(_PREDICT.findall(cell.source))
        for key in keys(cell.metadata):
            if key not in asked:
                raise CourseError(
                    f'after_guess: "{key}", but no earlier cell of this lecture holds predict("{key}", …)'
                )
        if keys(cell.metadata) and cell.kind == "markdown" and (heading := _HEADING.search(cell.source)):
            line = cell.source[heading.start() :].splitlines()[0]
            raise CourseError(f"after_guess folds the heading {line!r} away; put a line '+++' after the heading")
