"""When is an output right? The tolerance comes from the task, not from a table of constants.

    max|out - ref|  <= f * E_base + atol        mean|out - ref| <= 2 * f * mean|base - ref| + atol

ref   float64, from the inputs as the answer gets them (already rounded to their dtype)
base  a plain torch implementation in the same dtype with every intermediate rounded; E_base = max|base - ref|
f     2 for fp16 and bf16 (3 in a backward pass), 10 for fp32
atol  2 * max|((ref + 0.3) - 0.3) - ref|, computed in the output's dtype: one rounding of a number of ordinary size

What comes out of exp(score) can be no more exact than the scores: rounding a score once, as log-sum-exp and base-2
forms do, moves it by half a unit in the last place (ulp). So "lse" adds 4 ulp of the largest score, and "weights" adds
2 ulp times the largest |ref|, since the exponential turns an absolute error into a relative one. "backward" adds 4: a
backward pass makes its weights from a score and a log-sum-exp, two numbers of that size.
Infinities and NaN are compared first, as patterns. Comparisons are written ``err <= tol``: NaN is never right.

May import: torch, notation.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from course_lib.notation import UNIT_ROUNDOFF

FACTOR = {"forward": 2.0, "weights": 2.0, "lse": 2.0, "backward": 3.0}
FACTOR_FLOAT32 = 10.0
SCORE_ULPS = {"lse": 4.0, "weights": 2.0, "backward": 4.0}


@dataclass(frozen=True)
class Tolerance:
    """Largest allowed error of one element, and of the mean over all elements (absolute)."""

    largest: float
    mean: float


@dataclass
class Comparison:
    """What comparing one output with its reference gave."""

    passed: bool
    kind: str  # "right", "values", "mean", "not_finite", "should_be_infinite", "shape", "dtype", "missing"
    max_error: float = math.nan
    mean_error: float = math.nan
    tolerance: Tolerance | None = None
    index: tuple[int, ...] | None = None  # first wrong element, in row-major order
    got: float = math.nan
    expected: float = math.nan
    wrong: Any = None  # bool tensor, shape of the output
    ratio: Any = None  # error / tolerance, shape of the output; inf where a pattern differs
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)


def tolerance(ref, base, dtype, rule, *, largest_score=0.0):
    """The rule of this module for one output.

    Parameters
    ----------
    ref : tensor, float64
    base : tensor, the baseline's output
    dtype : torch.dtype of the output
    rule : str, "forward", "weights", "lse", "backward" or "exact"
    largest_score : float, largest finite |score| of the inputs; used by "lse", "weights" and "backward"

    Returns
    -------
    Tolerance
    """
    if rule == "exact":
        return Tolerance(0.0, 0.0)
    finite = torch.isfinite(ref) & torch.isfinite(base.double())
    name = str(dtype).removeprefix("torch.")
    floor = _floor(ref[finite], dtype)
    if rule in SCORE_ULPS:
        scale = ref[finite].abs().max().item() if rule != "lse" and bool(finite.any()) else 1.0
        floor += SCORE_ULPS[rule] * _ulp(largest_score, name) * scale
    factor = FACTOR_FLOAT32 if name == "float32" else FACTOR[rule]
    base_error = (base.double() - ref)[finite].abs()
    if base_error.numel() == 0:
        return Tolerance(floor, floor)
    return Tolerance(factor * base_error.max().item() + floor, 2.0 * factor * base_error.mean().item() + floor)


def compare(out, ref, base, dtype, rule, *, largest_score=0.0):
    """Compare an output with its reference under `rule`; see `tolerance` for the parameters.

    Returns
    -------
    Comparison; `index`, `got`, `expected` belong to the first wrong element in row-major order
    """
    structural = _structure(out, ref, dtype)
    if structural is not None:
        return structural
    tol = tolerance(ref, base, dtype, rule, largest_score=largest_score)
    got, want = out.double(), ref.double()
    finite = torch.isfinite(want)
    error = torch.where(finite, (got - want).abs(), torch.zeros_like(want))
    pattern_ok = torch.where(finite, torch.isfinite(got), got == want)
    right = pattern_ok & (error <= tol.largest)
    ratio = torch.where(pattern_ok, error / max(tol.largest, 1e-300), torch.full_like(error, math.inf))
    usable = error[finite & pattern_ok]
    result = Comparison(
        passed=bool(right.all()),
        kind="right",
        tolerance=tol,
        wrong=~right,
        ratio=ratio,
        max_error=_max_error(usable, bool(pattern_ok.all())),
        mean_error=usable.mean().item() if usable.numel() else 0.0,
    )
    if not result.passed:
        _point_at(result, int(torch.nonzero(result.wrong.flatten())[0]), got, want)
        bad = got.flatten()[_flat(result.index, got.shape)]
        expected_finite = math.isfinite(result.expected)
        result.kind = "should_be_infinite" if not expected_finite else "values" if math.isfinite(bad) else "not_finite"
    elif not result.mean_error <= tol.mean:
        result.passed, result.kind = False, "mean"
        _point_at(result, int(error.flatten().argmax()), got, want)
        result.note = (
            f"No element misses the tolerance, but the mean error {result.mean_error:.2e} exceeds {tol.mean:.2e}: "
            "many elements are off in the same direction."
        )
    return result


def _structure(out, ref, dtype):
    """A Comparison when shape or dtype are wrong, None when they are right."""
    if out is None:
        return Comparison(False, "missing", note="This output was not produced.")
    if tuple(out.shape) != tuple(ref.shape):
        note = f"The shape is {tuple(out.shape)}, expected {tuple(ref.shape)}."
        return Comparison(False, "shape", note=note)
    if out.dtype != dtype:
        names = [str(d).removeprefix("torch.") for d in (out.dtype, dtype)]
        return Comparison(False, "dtype", note=f"The dtype is {names[0]}, expected {names[1]}.")
    return None


def _point_at(result, flat, got, want):
    result.index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), got.shape)) if got.dim() else ()
    result.got, result.expected = got.flatten()[flat].item(), want.flatten()[flat].item()


def _flat(index, shape):
    flat = 0
    for i, size in zip(index, shape, strict=True):
        flat = flat * size + i
    return flat


def _max_error(usable, patterns_agree):
    if not patterns_agree:
        return math.inf
    return usable.max().item() if usable.numel() else 0.0


def _floor(ref, dtype):
    """2 * max|((ref + 0.3) - 0.3) - ref| in the output's dtype: what one rounding at ordinary size costs."""
    if ref.numel() == 0:
        return 0.0
    rounded = ref.to(dtype)
    return 2.0 * (((rounded + 0.3) - 0.3) - rounded).double().abs().max().item()


def _ulp(value, dtype_name):
    """Distance between neighbouring numbers of the dtype at `value`."""
    if not value > 0.0:
        return 0.0
    return 2.0 * UNIT_ROUNDOFF[dtype_name] * 2.0 ** math.floor(math.log2(value))
