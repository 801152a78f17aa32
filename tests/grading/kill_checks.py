"""What test_kill_table.py and test_kill_table_later.py ask of every exercise: the judge against every answer.

Starters, solutions, wrong answers, and right ones that look different: each must get its verdict, and the stored table
must be the table of today.
"""

import csv
import functools
from dataclasses import replace
from pathlib import Path

from course_lib import checklist
from course_lib.grading.exercise import registry
from course_lib.grading.judge.judge import judge
from course_lib.grading.subjects.softmax.cases import ALL_SCHEDULES

ROOT = Path(__file__).resolve().parents[2]
SEED = 20
LARGE = 4000  # elements; larger cases keep to one order
KEYS = ("exercise", "kind", "name", "expected", "got")
EARLY = [exercise_id for exercise_id in registry.ids() if exercise_id < "08"]  # of test_kill_table.py
LATER = [exercise_id for exercise_id in registry.ids() if exercise_id >= "08"]  # of test_kill_table_later.py


@functools.cache
def rows(exercise_id):
    """Every answer of an exercise with its verdict, judged when first asked for."""
    return tuple(checklist.judge_all(registry.get(exercise_id), seed=SEED))


def stored():
    """The rows of benchmarks/results/cpu/kill_table.csv; `python -m benchmarks.grader.kill_table --write` writes."""
    with open(ROOT / "benchmarks" / "results" / "cpu" / "kill_table.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def require_verdicts(exercise_id):
    """Every answer of the exercise gets the verdict that it must get."""
    wrong = [
        f"{row.kind} {row.name}: expected {row.expected}, got {row.got}: {row.sentence}"
        for row in rows(exercise_id)
        if not row.as_expected
    ]
    assert not wrong, "\n".join(wrong)


def require_stored(exercise_id):
    """What is stored of the exercise is what was judged now."""
    today = {tuple(getattr(row, key) for key in KEYS) for row in rows(exercise_id)}
    before = {tuple(row[key] for key in KEYS) for row in stored() if row["exercise"] == exercise_id}
    assert today == before, f"python -m benchmarks.grader.kill_table {exercise_id} --write stores the new table"


def require_solution(exercise_id):
    """The solution passes on other seeds, every small case under every schedule that its engine knows."""
    exercise = _with_all_schedules(registry.get(exercise_id))
    text = checklist.solution_text(exercise)
    for seed in (1, 2**40 + 7):
        verdict = judge(exercise, text, seed=seed)
        assert verdict.passed, f"seed {seed}: {verdict.diagnosis}"


def _with_all_schedules(exercise):
    known = {"cuda": ALL_SCHEDULES, "triton": ("forward", "reverse", "random"), "python": ()}[exercise.language]
    small = [case for case in exercise.cases if case.schedules or _size(case) <= LARGE]
    return replace(exercise, cases=tuple(replace(c, schedules=known) if c in small else c for c in exercise.cases))


def _size(case):
    product = 1
    for size in case.sizes.values():
        product *= size
    return product
