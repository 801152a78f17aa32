"""The tolerance rule: what passes, what does not, and that it can fail at all."""

import csv
import math

import pytest
import torch

from course_lib.grading.exercise import inputs
from course_lib.grading.judge.comparison import compare
from course_lib.grading.judge.tolerance import ToleranceTooWideError, require_small, tolerance
from course_lib.notation import UNIT_ROUNDOFF
from course_lib.reference import softmax as reference

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def case(dtype="float32", values="normal", shape=(37, 53), seed=0):
    """(x, reference, baseline) of a softmax."""
    x = inputs.scores(values, shape, dtype, inputs.generator(seed, values, dtype))
    return x, reference.softmax(x), reference.rounded_softmax(x)


def judged(out, ref, base, rule="forward", score=0.0):
    return compare(out, ref, base, base.dtype, rule, largest_score=score)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_baseline_itself_passes(dtype):
    _, ref, base = case(dtype)
    assert judged(base, ref, base).passed


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_bad_number_fails(bad):
    _, ref, base = case()
    out = base.clone()
    out[3, 5] = bad
    result = judged(out, ref, base)
    assert not result.passed and result.kind == "not_finite" and result.index == (3, 5)
    assert int(result.wrong.sum()) == 1 and math.isinf(result.max_error)


def test_all_nan_fails_and_zeros_fail():
    _, ref, base = case()
    assert not judged(torch.full_like(base, math.nan), ref, base).passed
    assert not judged(torch.zeros_like(base), ref, base).passed


def test_infinities_are_a_pattern():
    ref = torch.tensor([1.0, -math.inf, 2.0], dtype=torch.float64)
    base = ref.float()
    assert judged(base.clone(), ref, base, "lse").passed
    finite = judged(torch.tensor([1.0, -1e30, 2.0]), ref, base, "lse")
    assert finite.kind == "should_be_infinite" and finite.index == (1,)
    assert not judged(torch.tensor([1.0, math.inf, 2.0]), ref, base, "lse").passed
    assert not judged(torch.tensor([1.0, math.nan, 2.0]), ref, base, "lse").passed


def test_nan_is_right_where_the_reference_is_nan_alone():
    ref = torch.tensor([1.0, math.nan, math.inf], dtype=torch.float64)
    base = ref.float()
    assert judged(base.clone(), ref, base).passed
    for wrong in (0.0, math.inf):
        found = judged(torch.tensor([1.0, wrong, math.inf]), ref, base)
        assert found.kind == "should_be_nan" and found.index == (1,)
    assert judged(torch.tensor([1.0, math.nan, math.nan]), ref, base).kind == "should_be_infinite"


def test_half_precision_inside_a_float_task_fails():
    x, ref, base = case()
    assert not judged(torch.softmax(x.half(), dim=-1).float(), ref, base).passed
    assert not judged(torch.softmax(x.bfloat16(), dim=-1).float(), ref, base).passed


def test_a_half_precision_task_accepts_half_precision_and_not_bfloat16():
    x, ref, base = case("float16")
    assert judged(torch.softmax(x.float(), dim=-1).half(), ref, base).passed
    assert not judged(torch.softmax(x.bfloat16(), dim=-1).half(), ref, base).passed


@pytest.mark.parametrize(
    ("dtype", "passes", "fails"), [("float16", 1, 2), ("bfloat16", 1, 2), ("float32", 5, 9)]
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 15, 16])
def test_a_lucky_baseline_of_few_numbers_allows_a_rounding(dtype, passes, fails, count):
    """Numbers so many ulps away pass, as they do beside a baseline that was not lucky; of more numbers none is."""
    ref = torch.full((count,), 1.3).to(DTYPES[dtype]).double()
    base, ulp = ref.to(DTYPES[dtype]), 2 * UNIT_ROUNDOFF[dtype]
    assert judged((ref + passes * ulp).to(base.dtype), ref, base).passed == (count < 16)
    assert not judged((ref + fails * ulp).to(base.dtype), ref, base).passed
    if dtype == "float32":  # a rule with terms of its own for scores
        assert not judged((ref + passes * ulp).to(base.dtype), ref, base, "weights").passed


def test_one_inexact_element_of_the_baseline_does_not_excuse_all():
    ref = torch.linspace(1.0, 2.0, 1000, dtype=torch.float64)
    base = ref.float()
    base[17] += 1e-4
    allowed = tolerance(ref, base, base.dtype, "forward")
    one_off = ref.float()
    one_off[400] += 0.9 * allowed.largest
    assert judged(one_off, ref, base).passed
    result = judged((ref + 0.9 * allowed.largest).float(), ref, base)
    assert not result.passed and result.kind == "mean" and "mean error" in result.note


def test_shape_and_dtype_come_first():
    _, ref, base = case()
    assert judged(base.T.contiguous(), ref, base).kind == "shape"
    assert judged(base.double(), ref, base).kind == "dtype"
    assert judged(None, ref, base).kind == "missing"


def test_exact_means_exact():
    ref = torch.arange(12.0, dtype=torch.float64)
    assert judged(ref.float(), ref, ref.float(), "exact").passed
    off = ref.float()
    off[7] = torch.nextafter(off[7], torch.tensor(100.0))
    result = judged(off, ref, ref.float(), "exact")
    assert not result.passed and result.index == (7,)


def test_bits_tell_the_zeros_apart_and_take_nan_for_nan():
    ref = torch.tensor([0.0, -0.0, math.nan, math.inf, 1e-40]).double()
    assert judged(ref.float(), ref, ref.float(), "bits").passed
    for at, other in enumerate((-0.0, 0.0, 1.0, math.nan, 0.0)):
        off = ref.float()
        off[at] = other
        result = judged(off, ref, ref.float(), "bits")
        assert not result.passed and result.index == (at,) and int(result.wrong.sum()) == 1


def test_a_log_sum_exp_may_be_off_by_ulps_of_its_scores():
    x = inputs.scores("plus_100", (64, 33), "float32", inputs.generator(1))
    ref, base = reference.log_sum_exp(x), reference.rounded_log_sum_exp(x)
    ulp = 2.0**-17  # of numbers between 64 and 128
    one_off = (ref + 2 * ulp).float()
    assert judged(one_off, ref, base, "lse", score=100.0).passed
    assert not judged((ref + 40 * ulp).float(), ref, base, "lse", score=100.0).passed


@pytest.mark.parametrize(("rule", "size"), [("lse", 1.0), ("weights", 4.0), ("forward", 4.0)])
def test_a_long_sum_may_be_off_by_the_root_of_its_length(rule, size):
    ref = torch.tensor([4.0, 0.5], dtype=torch.float64)
    short, long = (tolerance(ref, ref.float(), torch.float32, rule, length=length) for length in (1, 2500))
    assert long.largest - short.largest == pytest.approx(2.0 * 49.0 * 2.0**-24 * size)
    assert long.mean - short.mean == pytest.approx(2.0 * 49.0 * 2.0**-24 * size)
    assert tolerance(ref, ref.float(), torch.float32, "exact", length=2500).largest == 0.0


def backward_case():
    """(reference, baseline, terms): terms of 1 000 that cancel in the first element and not in the second."""
    ref = torch.tensor([0.001, 2000.0], dtype=torch.float64)
    return ref, ref.float(), torch.tensor([1000.0, 1.0], dtype=torch.float64)


def test_a_backward_tolerance_grows_with_the_terms_of_each_element():
    ref, base, terms = backward_case()
    tol = tolerance(ref, base, base.dtype, "backward", largest_score=100.0, terms=terms)
    ulp = 2.0**-17  # of numbers between 64 and 128
    assert tol.at(0) - tol.at(1) == pytest.approx((4 * ulp + 2.0 * 2.0**-24) * 999.0)
    assert tol.largest == tol.at(0)
    options = {"largest_score": 100.0, "terms": terms}
    cancelled = compare(
        (ref + torch.tensor([2 * ulp * 1000.0, 0.0])).float(), ref, base, base.dtype, "backward", **options
    )
    assert cancelled.passed and cancelled.nearest == pytest.approx((2 * ulp * 1000.0, tol.at(0)), rel=1e-3)
    elsewhere = compare(
        (ref + torch.tensor([0.0, 2 * ulp * 1000.0])).float(), ref, base, base.dtype, "backward", **options
    )
    assert not elsewhere.passed and elsewhere.index == (1,) and elsewhere.allowed == tol.at(1)


def test_a_backward_tolerance_needs_the_terms():
    ref, base, _ = backward_case()
    with pytest.raises(ValueError, match="terms"):
        tolerance(ref, base, base.dtype, "backward", largest_score=100.0)


def test_elements_that_hold_anything_do_not_enter_the_tolerance():
    _, ref, base = case()
    unread = torch.zeros(ref.shape, dtype=torch.bool)
    unread[3] = True
    stale_ref, stale_base = (torch.where(unread, 1e30, tensor) for tensor in (ref, base))
    clean = tolerance(ref, base, base.dtype, "weights", largest_score=3.0, unread=unread)
    assert tolerance(stale_ref, stale_base, base.dtype, "weights", largest_score=3.0, unread=unread) == clean
    assert tolerance(stale_ref, stale_base, base.dtype, "weights", largest_score=3.0).largest > 1e20


@pytest.mark.parametrize("rule", ["weights", "lse"])
def test_a_tolerance_that_is_not_small_is_refused(rule):
    _, ref, base = case()
    require_small(tolerance(ref, base, base.dtype, rule, largest_score=100.0), ref, base, rule)
    for score in (1e6, 1e30):
        with pytest.raises(ToleranceTooWideError, match="values of at most"):
            require_small(tolerance(ref, base, base.dtype, rule, largest_score=score), ref, base, rule)


def test_base_2_forms_pass_near_100():
    x = inputs.scores("minus_100", (37, 53), "float32", inputs.generator(2))
    scaled = x * 1.4426950408889634
    weights = torch.exp2(scaled - scaled.amax(dim=1, keepdim=True))
    out = weights / weights.sum(dim=1, keepdim=True)
    ref, base = reference.softmax(x), reference.rounded_softmax(x)
    assert judged(out, ref, base, "weights", score=x.abs().max().item()).passed
    assert not judged(out * 1.0002, ref, base, "weights", score=x.abs().max().item()).passed


def online(x, block_n):
    """Softmax with one running state a row, tile by tile, in the dtype of x."""
    m = torch.full((x.shape[0], 1), -math.inf, dtype=x.dtype)
    l = torch.zeros_like(m)
    for tile in x.split(block_n, dim=1):
        m_new = torch.maximum(m, tile.amax(dim=1, keepdim=True))
        shift = torch.where(m_new == -math.inf, torch.zeros_like(m), m_new)
        l = l * torch.exp(m - shift) + torch.exp(tile - shift).sum(dim=1, keepdim=True)
        m = m_new
    shift = torch.where(m == -math.inf, torch.zeros_like(m), m)
    return torch.where(l > 0, torch.exp(x - shift) / l, torch.zeros_like(x))


RIGHT = {
    "library": lambda x: torch.softmax(x, dim=-1).nan_to_num(0.0),
    "library in float": lambda x: torch.softmax(x.float(), dim=-1).nan_to_num(0.0).to(x.dtype),
    "tiles of 8": lambda x: online(x.float(), 8).to(x.dtype),
    "tiles of 1": lambda x: online(x.float(), 1).to(x.dtype),
    "from lse": lambda x: torch.exp(x.float() - torch.logsumexp(x.float(), -1, True)).nan_to_num(0.0).to(x.dtype),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_false_alarm_on_right_torch_implementations(dtype):
    runs = 0
    for values in ("normal", "rising", "falling", "minus_100", "plus_100", "spikes", "masked", "leading_masked"):
        for seed in range(4):
            x, ref, base = case(dtype, values, (23, 1 + 37 * seed), seed)
            score = x[torch.isfinite(x)].abs().max().item() if bool(torch.isfinite(x).any()) else 0.0
            for name, right in RIGHT.items():
                result = judged(right(x), ref, base, "weights", score=score)
                assert result.passed, f"{name}, {values}, {dtype}, seed {seed}: {result.max_error} > {result.tolerance}"
                runs += 1
    assert runs == 160


@pytest.mark.parametrize("folder", ["cpu", "h200"])
def test_the_stored_measurement_has_no_false_alarm_in_a_thousand_runs(root, folder):
    path = root / "benchmarks" / "results" / folder / "false_alarms.csv"
    with open(path, newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert sum(int(row["runs"]) for row in rows) >= 1000
    assert sum(int(row["false_alarms"]) for row in rows) == 0
    assert all(float(row["worst_ratio"]) <= 1.0 for row in rows)
