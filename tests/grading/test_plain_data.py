"""Exercises on plain data: results are read as literals, held against a form, and explained by mistakes."""

import ast

import pytest
import torch

from course_lib import checklist
from course_lib.grading.exercise import registry
from course_lib.grading.judge.judge import judge
from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects import plain_data


def text(value):
    return torch.tensor(list(repr(value).encode()), dtype=torch.uint8)


def test_results_are_read_as_literals_alone():
    assert plain_data.read(text([(1, None), "a", [2.5]])) == [(1, None), "a", [2.5]]
    for value in (torch.tensor(3), object(), (n for n in "ab")):
        found = plain_data.read(text([value]))
        assert isinstance(found, Diagnosis) and found.code == "wrong_return"
    assert isinstance(plain_data.read(torch.tensor(list(b"print(1)"), dtype=torch.uint8)), Diagnosis)


@pytest.mark.parametrize(
    ("value", "form", "words"),
    [
        ([(1, 2)], [(int, int)], None),
        (((1, 2), [3, 4]), [(int, int)], None),
        ([], [(int, int)], None),
        ([(1, 2, 3)], [(int, int)], "expected 2 values, not (1, 2, 3)"),
        ([(1, True)], [(int, int)], "expected whole number, not True"),
        ([(1, 2.0)], [(int, int)], "expected whole number, not 2.0"),
        (3, [int], "expected a list or tuple, not 3"),
        ("ab", [str], "expected a list or tuple, not 'ab'"),
        (None, int | None, None),
        ("x", int | None, "expected whole number or None, not 'x'"),
    ],
)
def test_a_form_says_what_does_not_fit(value, form, words):
    assert plain_data.misfit(value, form) == words


def test_lists_and_tuples_are_the_same_and_numbers_of_two_types_are_not():
    assert plain_data.same([(1, 2)], ([1, 2],)) and not plain_data.same([1, 2], [1, 2, 3])
    assert not plain_data.same([1], [True]) and not plain_data.same([1], [1.0]) and not plain_data.same([], None)


def test_a_mistake_is_named_only_when_it_gives_every_result():
    """A wrong step of one request alone fits no mistake of 14.1: the diagnosis keeps to the facts."""
    exercise = registry.get("14.1")
    answer = (
        "import torch\n\ndef schedules(calls):\n    return torch.tensor(list(repr({}).encode()), dtype=torch.uint8)\n"
    )
    verdict = judge(exercise, answer.format("[[(0, 1)]] * len(calls)"), seed=3)
    assert verdict.diagnosis.code == "wrong_result" and "should be" in verdict.diagnosis.sentence
    assert judge(exercise, answer.format("[[]]"), seed=3).diagnosis.code == "wrong_return"


def test_a_number_of_another_type_is_wrong_and_said():
    exercise = registry.get("14.8")
    text = checklist.solution_text(exercise).replace("rate, good\n", "rate and float(rate), good\n")
    verdict = judge(exercise, text, seed=3)
    assert verdict.diagnosis.code == "wrong_result" and ".0 and should be" in verdict.diagnosis.sentence


def test_no_two_answers_of_14_define_one_name():
    """They share a notebook: the later cell's class would be taken along with the earlier cell's function."""
    names = []
    for path in registry.ROOT.glob("solutions/14_*/answer.py"):
        names += [node.name for node in ast.parse(path.read_text()).body if hasattr(node, "name")]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("words", [
    "[(1, None), 'a b', [2.5, -3, 1e-05, 1e400], (), (4,), ((5,), True), '']", "(1)", "((1, 2))", "[-0, -0.0, 00]",
    "(1,2,)", "[1,]", "(1, )", "[]", "{'step': 1}", "'None'", "'it''s'", "'x' 'y'", "[1, 'A']", "('',)", "(',',)",
    '"a"', "(False, [])",
])  # fmt: skip
def test_results_are_read_as_python_reads_them(words):
    assert repr(plain_data.literal(words)) == repr(ast.literal_eval(words))


@pytest.mark.parametrize("words", ["", "[", "(,)", "[1 2]", "NoneNone", "--1e", "[01]", "print(1)", "1.e", "(1", "e"])
def test_what_is_no_literal_is_refused(words):
    for read in (plain_data.literal, ast.literal_eval):
        with pytest.raises((ValueError, SyntaxError)):
            read(words)
