"""The judge against every answer of the repository: starters, solutions, wrong ones, right ones that look different.

The table itself is benchmarks/results/cpu/kill_table.csv; `python benchmarks/kill_table.py --write` makes it.
"""

import csv
import importlib.util
from dataclasses import replace

import pytest

from course_lib.grading import registry
from course_lib.grading.exercises.softmax_cases import ALL_SCHEDULES
from course_lib.grading.judge import judge

IDS = list(registry.all())
# chapter -> at least so many wrong answers, right ones, and different diagnoses
ATTACKS = {"00": (30, 9, 20), "01": (60, 15, 30), "02": (100, 20, 30), "03": (100, 25, 40),
           "05": (75, 10, 35), "06": (80, 12, 30), "07": (220, 25, 75)}  # fmt: skip
SEED = 20
LARGE = 4000  # elements; larger cases stay on the fast build


@pytest.fixture(scope="module")
def kill_table(root):
    """benchmarks/kill_table.py as a module."""
    spec = importlib.util.spec_from_file_location("kill_table", root / "benchmarks" / "kill_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(kill_table):
    """exercise id -> its rows, judged when first asked for."""
    judged = {}

    def of(exercise_id):
        if exercise_id not in judged:
            judged[exercise_id] = list(kill_table.judge_all(registry.get(exercise_id), seed=SEED))
        return judged[exercise_id]

    return of


@pytest.mark.parametrize("exercise_id", IDS)
def test_every_answer_gets_its_verdict(rows, exercise_id):
    wrong = [
        f"{row.kind} {row.name}: expected {row.expected}, got {row.got}: {row.sentence}"
        for row in rows(exercise_id)
        if not row.as_expected
    ]
    assert not wrong, "\n".join(wrong)


def with_all_schedules(exercise):
    """The exercise with every small case under every schedule that its engine knows."""
    known = {"cuda": ALL_SCHEDULES, "triton": ("forward", "reverse", "random"), "python": ()}[exercise.language]
    small = [case for case in exercise.cases if case.schedules or _size(case) <= LARGE]
    return replace(exercise, cases=tuple(replace(c, schedules=known) if c in small else c for c in exercise.cases))


def _size(case):
    product = 1
    for size in case.sizes.values():
        product *= size
    return product


@pytest.mark.parametrize("exercise_id", IDS)
def test_the_solution_passes_on_other_seeds_and_under_all_schedules(kill_table, exercise_id):
    exercise = with_all_schedules(registry.get(exercise_id))
    text = kill_table.solution_text(exercise)
    for seed in (1, 2**40 + 7):
        verdict = judge(exercise, text, seed=seed)
        assert verdict.passed, f"seed {seed}: {verdict.diagnosis}"


@pytest.mark.parametrize("chapter", ATTACKS)
def test_the_chapter_is_attacked_from_many_sides(rows, chapter):
    everything = [row for exercise_id in IDS if exercise_id.startswith(chapter) for row in rows(exercise_id)]
    wrong, right, diagnoses = ATTACKS[chapter]
    assert sum(row.kind == "wrong" for row in everything) >= wrong
    assert sum(row.kind == "right" for row in everything) >= right
    assert len({row.expected for row in everything if row.kind == "wrong"}) >= diagnoses


def test_the_stored_table_is_the_table_of_today(rows, kill_table, root, capsys):
    everything = [row for exercise_id in IDS for row in rows(exercise_id)]
    with capsys.disabled():
        print("\n" + kill_table.score(everything))
    with open(root / "benchmarks" / "results" / "cpu" / "kill_table.csv", newline="") as file:
        stored = list(csv.DictReader(line for line in file if not line.startswith("#")))
    keys = ("exercise", "kind", "name", "expected", "got")
    today = {tuple(getattr(row, key) for key in keys) for row in everything}
    before = {tuple(row[key] for key in keys) for row in stored if row["exercise"] in IDS}
    assert today == before, "python benchmarks/kill_table.py --write stores the new table"
