"""Exercises that judge the traffic: right values with the wrong traffic fail, and the card shows what was counted."""

from dataclasses import replace
from pathlib import Path

import pytest

from course_lib.book.regions import included, solved, starter
from course_lib.grading.exercise import registry
from course_lib.grading.judge.judge import judge

ROOT = Path(__file__).resolve().parents[2]
COPY, TRANSPOSE = registry.get("01.2"), registry.get("01.3")
PLACE = "first + k * blockDim.x + threadIdx.x"
SLOW_PLACE = "first + threadIdx.x * PER_THREAD + k"


def answer(exercise):
    return solved(included(exercise.solution, ROOT))


@pytest.fixture(scope="module")
def slow():
    """The copy as it is given, judged."""
    text = answer(COPY)
    assert text.count(PLACE) == 1
    return judge(COPY, text.replace(PLACE, SLOW_PLACE), seed=3)


def test_right_values_with_wasted_sectors_fail(slow):
    assert slow.state == "FAIL" and slow.diagnosis.code == "uncoalesced"
    assert slow.first_wrong is None and slow.error_map is None  # no value is wrong


def test_the_refusal_counts_and_names_the_line(slow):
    line = next(n for n, text in enumerate(answer(COPY).splitlines(), 1) if "if (i < n)" in text)
    assert slow.diagnosis.line == line
    assert "73,728 sectors where 9,216 hold all numbers: 32 sectors for one request" in slow.diagnosis.sentence


def test_the_card_of_a_refused_answer_shows_the_ledger(slow):
    assert slow.ledger["global_load"]["sectors"] == 73_728
    assert slow.bound is None  # bytes beside the fewest bytes would say 1.00
    for text in (slow._repr_html_(), str(slow)):
        assert "in sectors of 32 bytes" in text and "9,216 would do" in text


def test_an_untouched_starter_is_told_what_to_mend():
    verdict = judge(COPY, starter(included(COPY.solution, ROOT), "01.2", "cuda"))
    assert verdict.state == "NOT STARTED" and verdict.hint.startswith("Mend the code below the line that says 01.2")


def test_without_a_rule_the_same_answer_passes_with_a_remark():
    verdict = judge(replace(COPY, ledger_rule=None), answer(COPY).replace(PLACE, SLOW_PLACE), seed=3)
    assert verdict.passed and "sectors" in " ".join(verdict.remarks)


def test_wrong_values_are_named_before_wasted_traffic():
    text = answer(TRANSPOSE).replace("[TILE][TILE + 1]", "[TILE][TILE]").replace("out_row) * num_rows", "out_row) * 1")
    text = text.replace("tile_smem[tile_col][tile_row];", "2.0f * tile_smem[tile_col][tile_row];")
    verdict = judge(TRANSPOSE, text, seed=3)
    assert verdict.state == "FAIL" and verdict.diagnosis.code != "bank_conflicts"
