"""The stored kill table as a whole: every exercise in it, every chapter attacked from many sides, nothing alive.

That it is the table of today is asked exercise by exercise, in test_kill_table_00_to_02.py and its neighbours.
"""

import pytest
from kill_checks import ROOT, stored

from course_lib.grading import registry

# chapter -> at least so many wrong answers, right ones, and different diagnoses
ATTACKS = {"00": (30, 9, 20), "01": (60, 15, 30), "02": (100, 20, 30), "03": (100, 25, 40), "04": (120, 20, 40),
           "05": (75, 10, 35), "06": (80, 12, 30), "07": (220, 25, 75)}  # fmt: skip


def test_every_exercise_is_in_the_table_and_in_a_file_of_tests(capsys):
    assert {row["exercise"] for row in stored()} == set(registry.all())
    files = "".join(path.read_text() for path in (ROOT / "tests" / "grading").glob("test_kill_table_*.py"))
    assert all(f'"{one[:2]}"' in files or f'"{one}"' in files for one in registry.all())
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
