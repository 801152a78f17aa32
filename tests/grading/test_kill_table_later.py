"""The judge against every answer of the chapters from 08 on; see test_kill_table.py."""

import pytest
from kill_checks import LATER, require_solution, require_stored, require_verdicts


@pytest.mark.parametrize("exercise_id", LATER)
def test_every_answer_gets_its_verdict(exercise_id):
    require_verdicts(exercise_id)


@pytest.mark.parametrize("exercise_id", LATER)
def test_the_stored_table_is_the_table_of_today(exercise_id):
    require_stored(exercise_id)


@pytest.mark.parametrize("exercise_id", LATER)
def test_the_solution_passes_on_other_seeds_and_under_all_schedules(exercise_id):
    require_solution(exercise_id)
