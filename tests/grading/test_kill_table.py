"""The judge against every answer of chapters 00 to 07, and the stored kill table as a whole; see kill_checks.py.

test_kill_table_later.py has the other chapters: a file is one worker's, and together they take too long for one. A new
exercise is judged as soon as its chapter is registered; a new chapter also says in ATTACKS from how many sides.
"""

import pytest
from kill_checks import EARLY, require_solution, require_stored, require_verdicts, stored

from course_lib.grading.exercise import registry

# chapter -> at least so many wrong answers, right ones, and different diagnoses
ATTACKS = {"00": (30, 9, 20), "01": (60, 15, 30), "02": (100, 20, 30), "03": (100, 25, 40), "04": (120, 20, 40),
           "05": (75, 10, 35), "06": (80, 12, 30), "07": (220, 25, 75), "08": (310, 40, 100), "09": (160, 18, 70),
           "10": (200, 18, 100), "11": (80, 12, 40), "12": (220, 29, 130),
           "13": (200, 18, 155), "14": (220, 18, 180), "15": (150, 28, 100)}  # fmt: skip


@pytest.mark.parametrize("exercise_id", EARLY)
def test_every_answer_gets_its_verdict(exercise_id):
    require_verdicts(exercise_id)


@pytest.mark.parametrize("exercise_id", EARLY)
def test_the_stored_table_is_the_table_of_today(exercise_id):
    require_stored(exercise_id)


@pytest.mark.parametrize("exercise_id", EARLY)
def test_the_solution_passes_on_other_seeds_and_under_all_schedules(exercise_id):
    require_solution(exercise_id)


def test_every_exercise_is_in_the_table(capsys):
    assert {row["exercise"] for row in stored()} == set(registry.ids())
    assert {exercise_id.partition(".")[0] for exercise_id in registry.ids()} == set(ATTACKS)
    wrong = [row for row in stored() if row["kind"] == "wrong"]
    alive = [row["name"] for row in wrong if row["got"] == "PASS"]
    right = [row for row in stored() if row["kind"] in ("right", "solution")]
    refused = [row["name"] for row in right if row["got"] != "PASS"]
    with capsys.disabled():
        print(f"\nkilled {len(wrong) - len(alive)}/{len(wrong)}, false alarms {len(refused)}/{len(right)}")
    assert not alive and not refused


@pytest.mark.parametrize("chapter", ATTACKS)
def test_the_chapter_is_attacked_from_many_sides(chapter):
    everything = [row for row in stored() if row["exercise"].startswith(chapter)]
    wrong, right, diagnoses = ATTACKS[chapter]
    assert sum(row["kind"] == "wrong" for row in everything) >= wrong
    assert sum(row["kind"] == "right" for row in everything) >= right
    assert len({row["expected"] for row in everything if row["kind"] == "wrong"}) >= diagnoses
