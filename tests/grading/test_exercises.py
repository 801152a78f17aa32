"""Every exercise is complete: contract, solution, starter, hints, inputs that expose, and an oracle that is right."""

import math
import re
from dataclasses import replace

import pytest
import torch

from course_lib import checklist
from course_lib.errors import CourseError
from course_lib.grading.exercise import inputs, registry, submissions
from course_lib.grading.judge.prepare import prepare
from course_lib.grading.judge.tolerance import SCORE_ULPS, ToleranceTooWideError

ALL = registry.all()
WITH_INPUTS = [name for name, exercise in ALL.items() if exercise.rules]  # the others judge a property
SOFTMAX_KERNELS = ["03.2", "03.4", "03.5", "03.6"]


@pytest.mark.parametrize("exercise_id", ALL)
def test_it_is_complete(exercise_id):
    assert not checklist.incomplete(ALL[exercise_id])


@pytest.mark.parametrize("exercise_id", SOFTMAX_KERNELS)
def test_the_inputs_of_a_softmax_expose(exercise_id):
    exercise = ALL[exercise_id]
    values = {case.values for case in exercise.cases}
    if values & {"masked", "minus_100"}:  # an exercise on softmax
        assert {"normal", "minus_100", "plus_100", "rising", "masked"} <= values
        assert exercise.probes
    assert any(all(size == 1 for size in case.sizes.values()) for case in exercise.cases), "no 1 x 1 case"
    assert any(len(case.schedules) >= 3 for case in exercise.cases), "no case under several schedules"
    assert exercise.bound_bytes is not None


@pytest.mark.parametrize("exercise_id", WITH_INPUTS)
def test_the_same_seed_gives_the_same_inputs_and_another_one_others(exercise_id):
    exercise = ALL[exercise_id]
    first, other = prepare(exercise, 5), prepare(exercise, 6)
    for number, prepared in enumerate(first):  # made again, and not seen by oracle and baseline, which change nothing
        again = exercise.make_inputs(prepared.case, inputs.generator(5, exercise_id, f"case {number}"))
        for name, value in prepared.inputs.items():
            assert torch.equal(value.nan_to_num(3.0), again[name].nan_to_num(3.0))
    pairs = [(value, b.inputs[name]) for a, b in zip(first, other, strict=True) for name, value in a.inputs.items()]
    assert any(not torch.equal(x.nan_to_num(3.0), y.nan_to_num(3.0)) for x, y in pairs)


@pytest.mark.parametrize("exercise_id", WITH_INPUTS)
def test_oracle_and_baseline_agree_on_form(exercise_id):
    exercise = ALL[exercise_id]
    for prepared in prepare(exercise, 3):
        compared = set(exercise.rules)  # a kernel may have scratch outputs, which are not compared
        assert set(prepared.ref) == set(prepared.base) == compared <= set(prepared.run.outputs)
        for name, (shape, dtype) in prepared.run.outputs.items():
            if name not in compared:
                continue
            assert prepared.ref[name].dtype == torch.float64
            assert tuple(prepared.ref[name].shape) == tuple(prepared.base[name].shape) == tuple(shape)
            assert str(prepared.base[name].dtype) in (f"torch.{dtype}", f"torch.{prepared.case.dtype}")
            nan = torch.isnan(prepared.ref[name]) | torch.isnan(prepared.base[name])
            given = [x for x in prepared.inputs.values() if isinstance(x, torch.Tensor)]
            assert not nan.any() or exercise.rules[name] == "bits" or _meet(exercise_id, given)


def _meet(exercise_id, given):
    """Products in which infinite numbers meet: there NaN is right, as it is in a copy of NaN, and nowhere else."""
    return exercise_id in ("04.1", "04.3", "04.4") and any(x.isinf().any() and not x.isnan().any() for x in given)


@pytest.mark.parametrize("exercise_id", WITH_INPUTS)
def test_it_says_how_large_its_scores_are(exercise_id):
    exercise = ALL[exercise_id]
    rules = set(exercise.rules.values())
    assert (exercise.largest_score is not None) == bool(rules & set(SCORE_ULPS))
    assert (exercise.terms is not None) == ("backward" in rules)


@pytest.mark.parametrize("exercise_id", WITH_INPUTS)
def test_no_poison_enters_a_tolerance(exercise_id):
    """NaN in the inputs replaced by 1e30 (in half 6e4) changes neither the oracle's result nor a tolerance."""
    exercise = ALL[exercise_id]

    def make_inputs(case, gen):
        tensors = exercise.make_inputs(case, gen)
        return {name: _with_numbers(x) if x.dtype.is_floating_point else x for name, x in tensors.items()}

    changed = prepare(replace(exercise, make_inputs=make_inputs), 4)
    for before, after in zip(prepare(exercise, 4), changed, strict=True):
        for name, ref in before.ref.items():
            if exercise.rules[name] == "bits":
                continue  # NaN is one of the numbers there, and there is no tolerance
            assert torch.allclose(ref, after.ref[name], rtol=0, atol=0, equal_nan=True), "the oracle reads poison"
            one, other = before.tolerances[name], after.tolerances[name]
            assert (one.largest, one.mean) == (other.largest, other.mean), f"{before.case.name}, {name}"


def _with_numbers(tensor):
    return tensor.nan_to_num(nan=min(1e30, torch.finfo(tensor.dtype).max / 2), posinf=math.inf, neginf=-math.inf)


def test_a_stale_number_in_a_tolerance_is_an_error_of_the_course():
    exercise = replace(ALL["09.1"], largest_score=lambda case, inputs: 1e30)
    with pytest.raises(ToleranceTooWideError, match=r"09\.1, case .*, output out"):
        prepare(exercise, 1)


def test_inputs_whose_tolerance_would_be_too_wide_are_drawn_again():
    exercise = replace(ALL["00.1"], cases=ALL["00.1"].cases[1:2])
    (usual,) = prepare(exercise, 1)

    def largest_score(case, inputs):
        return 1e30 if torch.equal(inputs["k"], usual.inputs["k"]) else exercise.largest_score(case, inputs)

    (again,), (twice,) = (prepare(replace(exercise, largest_score=largest_score), 1) for _ in range(2))
    assert not torch.equal(again.inputs["k"], usual.inputs["k"])
    assert torch.equal(again.inputs["k"], twice.inputs["k"]), "a seed gives the same inputs each time"
    assert again.tolerances["out"].largest <= 2 * usual.tolerances["out"].largest


def test_the_oracle_of_a_masked_softmax_is_torchs():
    prepared = next(p for p in prepare(ALL["03.6"], 1) if p.case.name == "more keys than queries")
    scores, lens = prepared.inputs["scores"].double(), prepared.inputs["seq_lens_kv"]
    num_q = scores.shape[1]
    for b, length in enumerate(lens.tolist()):
        for q_row in range(num_q):
            seen = scores[b, q_row, : q_row + length - num_q + 1]
            expected = torch.softmax(seen, 0)
            assert torch.allclose(prepared.ref["out"][b, q_row, : len(seen)], expected, rtol=1e-12)
            assert float(prepared.ref["lse"][b, q_row]) == pytest.approx(float(torch.logsumexp(seen, 0)), rel=1e-12)
            assert not prepared.ref["out"][b, q_row, len(seen) :].any()


@pytest.mark.parametrize("values", inputs.WORDS)
def test_no_distribution_is_small_and_uniform(values):
    x = inputs.scores(values, (9, 50), "float32", inputs.generator(1), at=20)
    if values in ("zeros", "ones", "step", "below_1e9"):
        return  # for probes, which compare with a number; equal scores, which show what stands for -inf
    finite = x[torch.isfinite(x)]
    assert finite.std() > 0.4


@pytest.mark.parametrize("exercise_id", ALL)
def test_its_wrong_answers_have_plain_diagnoses(exercise_id):
    wrong, right = submissions.load("wrong", exercise_id), submissions.load("right", exercise_id)
    assert all(re.fullmatch(r"[a-z0-9_]+", submission.diagnosis) for submission in wrong)
    if exercise_id.startswith("03."):
        assert len(wrong) >= 8 and len(right) >= 3


@pytest.mark.parametrize("exercise_id", ALL)
def test_its_wrong_answers_say_what_they_are_edits_of(exercise_id):
    path, own = ALL[exercise_id].solution.partition("#")[0], f"solutions/{registry.folder_of(exercise_id).name}/"
    assert f"`{path.removeprefix(own)}`; " in (registry.folder_of(exercise_id) / "wrong.md").read_text()


def test_an_edit_that_no_longer_matches_is_an_error():
    with pytest.raises(CourseError, match="is 0 times"):
        submissions.edited("a b", submissions.Right("x", (("c", "d"),)))
    with pytest.raises(CourseError, match="is 2 times"):
        submissions.edited("a a", submissions.Right("x", (("a", "d"),)))


def test_an_unknown_exercise_names_its_neighbours():
    with pytest.raises(CourseError, match="03.1, 03.2"):
        registry.get("03.99")
