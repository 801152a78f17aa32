"""The judge against every answer of chapter 10; see kill_checks.py."""

import pytest
from kill_checks import ids_of, require_solution, require_stored, require_verdicts

IDS = ids_of("10")


@pytest.mark.parametrize("exercise_id", IDS)
def test_every_answer_gets_its_verdict(exercise_id):
    require_verdicts(exercise_id)


@pytest.mark.parametrize("exercise_id", IDS)
def test_the_stored_table_is_the_table_of_today(exercise_id):
    require_stored(exercise_id)


@pytest.mark.parametrize("exercise_id", IDS)
def test_the_solution_passes_on_other_seeds_and_under_all_schedules(exercise_id):
    require_solution(exercise_id)
