"""`course cohort`: a class graded at once, whatever a learner hands in, with the same bytes every time."""

import csv
import json

import pytest

from course_lib import checklist, cli
from course_lib.grading.exercise import registry

FIRST, SECOND = "03.1", "03.7"  # two exercises in Python that are judged in milliseconds


@pytest.fixture(scope="module")
def solutions():
    return {name: checklist.solution_text(registry.get(name)) for name in (FIRST, SECOND)}


def notebook(*cells):
    """The text of a notebook; a cell is a source, or (exercise id, source)."""

    def made(number, cell):
        exercise, source = cell if isinstance(cell, tuple) else (None, cell)
        metadata = {"tags": ["exercise"], "exercise": exercise} if exercise else {}
        return {"cell_type": "code", "id": f"x{number}", "metadata": metadata, "source": source.splitlines(True)}

    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": [made(*pair) for pair in enumerate(cells)]})


def hand_in(folder, files):
    """Write {path below the folder: text}."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def grade(folder, out, *words):
    """(exit status, rows by learner) of a run without a sandbox, which would take a second an answer."""
    status = cli.main(["cohort", str(folder), "--out", str(out), "--trust", "--jobs", "1", *words])
    return status, {row["learner"]: row for row in csv.DictReader(out.open())} if out.exists() else {}


def states(rows, exercise=FIRST):
    return {learner: row[f"{exercise} verdict"] for learner, row in rows.items()}


def test_three_layouts_become_one_gradebook(tmp_path, solutions):
    one, other = solutions[FIRST], solutions[SECOND]
    starter = checklist.starter_text(registry.get(FIRST))
    folder = hand_in(
        tmp_path / "in",
        {
            f"anna/work/answers/{FIRST}/2026-01-31T09-15-02.py": one,
            f"anna/work/drafts/{SECOND}/2026-01-31T09-15-02.py": other,  # what `course reset` took out
            "ben/hw1/03_exercises.ipynb": notebook("import torch\n%matplotlib inline", (FIRST, one), (SECOND, other)),
            "carl_03_exercises (1).ipynb": notebook((FIRST, starter)),
            "dora/03_exercises.ipynb": '{"cells": [',
        },
    )
    status, rows = grade(folder, tmp_path / "grades.csv", "--points", f"{SECOND}=2.5")
    assert status == 0 and list(rows) == ["anna", "ben", "carl", "dora"]
    assert states(rows) == {"anna": "PASS", "ben": "PASS", "carl": "NOT STARTED", "dora": "NOT HANDED IN"}
    assert [rows[name]["points"] for name in rows] == ["1", "3.5", "0", "0"]
    nbgrader = (tmp_path / "in").rename(tmp_path / "submitted")
    assert grade(tmp_path, tmp_path / "again.csv", "--points", f"{SECOND}=2.5")[1] == rows
    assert nbgrader.is_dir()
