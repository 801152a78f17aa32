"""An answer's text as `check` and `course grade` take it: what an editor or a notebook puts in front is left out."""

import pytest

from course_lib.checklist import solution_text
from course_lib.grading.answer.text import Answer, extract, from_file
from course_lib.grading.exercise import registry
from course_lib.grading.judge.judge import judge

KERNEL = '#include "common/constants.cuh"\nextern "C" __global__ void k(float* x) {}\n'
FRONTS = {
    "byte order mark": ("\ufeff", ""),
    "magic line": ("%%cuda add -D BLOCK=64\n", "\n"),
    "blank line, then the magic": ("\n  %%cuda add\n", "\n  \n"),
    "both": ("\ufeff%%cuda add\n", "\n"),
}


@pytest.mark.parametrize("name", FRONTS)
@pytest.mark.parametrize("way", ["file", "text", "answer"])
def test_what_is_in_front_is_left_out_and_lines_keep_their_numbers(name, way, tmp_path):
    front, left = FRONTS[name]
    path = tmp_path / "answer.cu"
    path.write_text(front + KERNEL, encoding="utf-8")
    given = {"file": path, "text": front + KERNEL, "answer": Answer(front + KERNEL)}[way]
    assert extract(given).text == left + KERNEL
    assert from_file(path).text == left + KERNEL


def test_only_the_first_line_can_be_the_magic():
    text = KERNEL + "%%cuda add\n"
    assert extract(text).text == text


def test_a_file_saved_from_a_cell_passes(tmp_path):
    exercise = registry.get("02.1")
    path = tmp_path / "answer.cu"
    path.write_text("\ufeff%%cuda add_tail\n" + solution_text(exercise), encoding="utf-8")
    assert judge(exercise, from_file(path).text, seed=3).passed


def test_the_contract_says_what_a_row_of_minus_infinity_becomes():
    exercise = registry.get("03.6")
    assert any(case.values == "masked" or "inf" in case.name for case in exercise.cases)
    assert "every score that it sees is `-inf`" in exercise.contract
