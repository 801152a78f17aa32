"""Chapter 09's probes: right outputs read as right numbers, so that no diagnosis comes from them; some wrong ones.

Outputs of splits without keys: the judge skips what is undefined, and compares everything else.
"""

import math
from dataclasses import replace

import pytest
import torch

from course_lib.grading.exercise import inputs, registry
from course_lib.grading.judge.evidence import Evidence
from course_lib.grading.judge.judge import judge
from course_lib.grading.judge.prepare import prepare
from course_lib.grading.judge.session import Session
from course_lib.grading.processes.protocol import ChildResult, RunResult
from course_lib.grading.subjects.decode import combine
from course_lib.grading.subjects.decode import diagnostics as decode_diagnostics
from course_lib.grading.subjects.decode import windows as decode_windows

SPLITS = ("09.2", "09.3", "09.6")


def evidence_of(exercise_id, outputs_of):
    """Evidence of an answer whose probes give `outputs_of(exercise, case, tensors)`."""
    exercise = registry.get(exercise_id)
    readings = {}
    for probe in exercise.probes:
        tensors = exercise.make_inputs(probe.case, inputs.generator(7))
        readings[probe.name] = probe.read(tensors, outputs_of(exercise, probe.case, tensors))
    return Evidence(exercise, [], readings)


def exact(exercise, case, tensors):
    return exercise.oracle(case, tensors)


@pytest.mark.parametrize("exercise_id", [*SPLITS, "09.1", "09.4"])
def test_right_outputs_read_right(exercise_id):
    evidence = evidence_of(exercise_id, exact)
    assert evidence.exercise.diagnose(evidence) is None


@pytest.mark.parametrize("exercise_id", SPLITS)
def test_the_keys_of_every_split_are_read_off(exercise_id):
    first_head, last_head = evidence_of(exercise_id, exact).readings["keys"]
    assert [pair for row in first_head for pair in row if pair[1]] == [
        pytest.approx(pair, abs=0.05) for row in last_head for pair in row if pair[1]
    ]
    assert first_head[0][0] == pytest.approx((0.0, {"09.2": 16, "09.3": 32, "09.6": 53}[exercise_id]), abs=0.05)


def test_a_border_counted_twice_reads_as_that():
    right = [decode_windows.by_length(53, 16, 4)]
    rules = decode_windows.usual_rules(right)
    twice = [[(first, min(end + 1, 53)) for first, end in right[0]]]
    as_read = [[[(first, end - first) for first, end in row] for row in twice]] * 2
    diagnosis = decode_diagnostics._by_windows(as_read, right, rules)
    assert (
        diagnosis.code == "boundary_twice"
        and "split 0 of 4 must see keys 0 to 15 and saw keys 0 to 16" in diagnosis.sentence
    )


def test_moved_windows_name_another_split():
    """(rows, splits) written where (splits, rows) is read: two rows of four splits."""
    right = [[(0, 16), (16, 32), (32, 48), (48, 53)]]
    first, last = decode_windows.moved(right, 2)
    assert first == [[(0, 16), (32, 48), (0, 16), (32, 48)]] and last == [[(16, 32), (48, 53)] * 2]


class Child:
    """Gives the oracle's outputs, rounded to the dtype, after `change(case name, outputs, poison)`."""

    def __init__(self, exercise, change):
        self.change, self.prepared = change, {}
        self.exercise = exercise

    def __call__(self, task):
        results = []
        for run in task.runs:
            case = self.prepared.get(run.name.removesuffix(" again"))
            outputs = {
                name: (case.ref[name] if case else torch.zeros(shape)).to(getattr(torch, dtype)).clone()
                for name, (shape, dtype) in run.outputs.items()
            }
            self.change(case, outputs, run.poison)
            results.append(RunResult(run.name, outputs=outputs, launches=1))
        return ChildResult(results)


def graded(exercise_id, change, **other):
    exercise = replace(registry.get(exercise_id), **other)
    child, prepared = Child(exercise, change), prepare(exercise, 3)
    child.prepared = {p.run.name: p for p in prepared}
    return judge(exercise, "# an answer", run_task=child, seed=3, prepared=prepared)


@pytest.mark.parametrize("left", [math.nan, math.inf, 5.0, "poison"])
def test_partial_out_of_an_empty_split_is_not_compared(left):
    def change(case, outputs, poison):
        if case is not None:
            outputs["partial_out"][case.ref["partial_lse"] == -math.inf] = poison if left == "poison" else left

    assert graded("09.3", change).passed


def test_partial_lse_of_an_empty_split_is_compared():
    def change(case, outputs, poison):
        if case is not None:
            outputs["partial_lse"][case.ref["partial_lse"] == -math.inf] = poison

    verdict = graded("09.3", change)
    assert verdict.diagnosis.code == "unwritten" and "partial_lse" in verdict.diagnosis.sentence


def test_partial_out_of_a_split_with_keys_is_compared():
    def change(case, outputs, poison):
        if case is not None and bool((case.ref["partial_lse"] == -math.inf).any()):
            outputs["partial_out"][:] = poison

    verdict = graded("09.3", change)
    assert verdict.diagnosis.code == "unwritten" and "partial_out" in verdict.diagnosis.sentence


def test_a_wrong_lse_of_rows_without_keys_gets_a_sentence():
    """The reference of the only wrong case holds no finite number; the judge still writes a sentence."""

    def change(case, outputs, poison):
        if case is not None and bool((case.ref["lse"] == -math.inf).all()):
            outputs["lse"][:] = 0.0

    verdict = graded("09.1", change, diagnose=None)
    assert verdict.diagnosis.code == "wrong_values" and "lse" in verdict.diagnosis.sentence


def combined_readings(first, lse=1.0, two=0.6):
    return {"one split": {"first": first, "lse": lse}, "two splits": {"first": two, "second": 1.0 - two, "lse": 1.6094}}


@pytest.mark.parametrize(
    ("readings", "code"),
    [
        (combined_readings(0.9999), "epsilon_in_division"),
        (combined_readings(1.0), None),  # a weight rounded to half: the only one is 1 exactly
        (combined_readings(0.5), None),  # another mistake than a small number
        (combined_readings(0.9999, lse=1.1), None),  # lse is off as well
    ],
)
def test_a_number_added_to_l_is_told_from_a_rounded_weight(readings, code):
    found = combine._by_added(Evidence(registry.get("09.1"), [], readings))
    assert (found.code if found else None) == code


def changed(case_name, value):
    """A change that gives wrong numbers in one case of 09.1 alone."""

    def change(case, outputs, poison):
        if case is not None and case.case.name == case_name:
            outputs["out"] += value

    return change


@pytest.mark.parametrize(
    ("case_name", "code"),
    [
        ("300 columns", "bounded_size"),
        ("1500 rows", "bounded_size"),
        ("log-sum-exps near -12,000", "low_taken_for_empty"),
        ("large values", "values_bounded"),
        ("ragged", "wrong_values"),  # neither the largest of its kind nor special in another way
    ],
)
def test_the_only_case_that_fails_names_its_reason(case_name, code):
    assert graded("09.1", changed(case_name, 5e4), probes=()).diagnosis.code == code


def test_small_weights_are_missed_only_where_two_splits_are_weighed_exactly():
    def change(case, outputs, poison):
        if case is not None and case.case.options.get("faint"):
            outputs["out"][:] = 0.0

    exact_weights, rounded = combined_readings(1.0)["two splits"], combined_readings(1.0, two=0.60009)["two splits"]
    for reading, code in ((exact_weights, "small_weights_dropped"), (rounded, None)):
        exercise = registry.get("09.1")
        child = Child(exercise, change)
        prepared = prepare(exercise, 3)
        child.prepared = {p.run.name: p for p in prepared}
        _, evidence = Session(exercise, "", child, "answer", 1).collect(prepared)
        evidence.readings["two splits"] = reading
        found = combine._by_faint(evidence)
        assert (found.code if found else None) == code
