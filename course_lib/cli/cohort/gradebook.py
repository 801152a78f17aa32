"""What a class got: a CSV for a gradebook, JSON with every verdict. Sorted, without times: equal runs, equal bytes.

May import: as_json, grading.report.
"""

import csv
import io
import json
from dataclasses import dataclass

from ...grading.report.states import PASS
from ..as_json import finite

NOT_HANDED_IN, NOT_GRADED = "NOT HANDED IN", "NOT GRADED"


@dataclass(frozen=True)
class Entry:
    """One learner's exercise: where the answer lay, and its verdict as data, or a sentence why there is none."""

    where: str = ""
    verdict: dict | None = None
    error: str = ""

    @property
    def state(self):
        if self.verdict is not None:
            return self.verdict["verdict"]
        return NOT_GRADED if self.error else NOT_HANDED_IN

    @property
    def diagnosis(self):
        """The diagnosis as data, or None."""
        return self.verdict["diagnosis"] if self.verdict else None


@dataclass(frozen=True)
class Grades:
    """The whole class.

    Attributes
    ----------
    exercises : list of str, the columns
    points : dict, exercise -> points of a pass
    entries : dict, learner -> {exercise: Entry}, every exercise for every learner
    problems : dict, learner -> sentences about what could not be used
    stray : sentences about what belongs to no learner
    """

    exercises: list[str]
    points: dict[str, float]
    entries: dict[str, dict[str, Entry]]
    problems: dict[str, list[str]]
    stray: list[str]

    def earned(self, learner):
        """Points of one learner."""
        return sum(self.points[name] for name, entry in self.entries[learner].items() if entry.state == PASS)

    def passed(self, exercise):
        """How many learners pass an exercise."""
        return sum(entries[exercise].state == PASS for entries in self.entries.values())


def as_csv(grades):
    """The gradebook: a line a learner, points and state an exercise, then totals."""
    head = [column for name in grades.exercises for column in (f"{name} points", f"{name} verdict")]
    made = io.StringIO(newline="")
    table = csv.writer(made, lineterminator="\n")
    table.writerow(["learner", *head, "passed", "points", "possible", "remarks"])
    for learner, entries in grades.entries.items():
        row = [cell for name in grades.exercises for cell in _cells(grades, name, entries[name])]
        passed = sum(entry.state == PASS for entry in entries.values())
        totals = [passed, number(grades.earned(learner)), number(sum(grades.points.values()))]
        table.writerow([_not_a_formula(learner), *row, *totals, len(grades.problems[learner])])
    return made.getvalue()


def as_json(grades):
    """Every verdict, where its answer lay, and what could not be used."""
    learners = {
        learner: {
            "problems": grades.problems[learner],
            "points": grades.earned(learner),
            "exercises": {
                name: {"state": entry.state, "from": entry.where, "verdict": entry.verdict, "error": entry.error}
                for name, entry in entries.items()
            },
        }
        for learner, entries in grades.entries.items()
    }
    data = {"exercises": grades.exercises, "points": grades.points, "learners": learners, "stray": grades.stray}
    return json.dumps(finite(data), indent=1) + "\n"


def _cells(grades, name, entry):
    return number(grades.points[name] if entry.state == PASS else 0), entry.state


def number(points):
    """Points as people write them: "2", "0.5"."""
    return f"{points:g}"


def _not_a_formula(text):
    """A text that no spreadsheet computes: one that begins as a formula gets an apostrophe before it."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
