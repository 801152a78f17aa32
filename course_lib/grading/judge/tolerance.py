"""When is an output right? The tolerance comes from the task, not from a table of constants.

    |out - ref|  <= f * E_base + atol        mean|out - ref| <= 2 * f * mean|base - ref| + atol

ref   float64, from the inputs as the answer gets them (already rounded to their dtype)
base  a plain torch implementation in the same dtype with every intermediate rounded; E_base = max|base - ref|
f     by the baseline's dtype: 2 for fp16 and bf16 (3 in a backward pass), 10 for fp32
atol  2 * max|((ref + 0.3) - 0.3) - ref|, computed in the output's dtype: one rounding of a number of ordinary size

What comes out of exp(score) can be no more exact than the scores: rounding a score once, as log-sum-exp and base-2
forms do, moves it by half a unit in the last place (ulp). So three rules add a term in u, the float32 ulp of the
largest score, or of 1 (scores and exponentials are sums, and sums are float32 in every contract):

"lse"       4 u
"weights"   2 u max|ref|: the exponential turns an absolute error into a relative one
"backward"  4 u T, element by element: a backward pass makes its weights from a score and a log-sum-exp, two numbers of
            that size, and adds weights whose sum may cancel. T is the sum of the terms' magnitudes, and the error seen
            is 0.7 to 1.2 times u T / 2 on every CPU tried.

A float32 sum of n terms may run from the first to the last, where the baseline adds pairs of pairs: its error grows as
sqrt(n) roundings, the baseline's as log(n), and with few outputs the baseline's may be 0 by chance. So every rule adds

            2 sqrt(n) u0 S,  u0 = 2^-24, n the case's largest size, S = 1 ("lse"), T ("backward") or max|ref|

Over 1,000 sums of 16 to 25,000 different positive terms the error was at most 1.6 sqrt(n) u0 S, with a standard
deviation of 0.25 to 0.7. Terms that fall steadily reach 5.4 at n = 25,000, and equal terms n u0 S / 4: a case as long
as that has neither, since its right answers would be refused.

A baseline of few outputs may by chance be nearer than its roundings take it, even exact, and would then refuse what
rounds an intermediate elsewhere: in three of 1,200 seeds it did, where 1 + tanh(x) cancels in a GELU of one number. So
with fewer than FEW_OUTPUTS its errors count as u max|ref| at least, u of its dtype, and half of that in the mean; not
in float32 under the three rules, whose terms are wider.

A tolerance is made only of numbers that the contract lets an answer use, never of poison. `require_small` refuses one
that is not small beside the values it judges: it would let anything pass.

May import: notation, torch.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.notation import UNIT_ROUNDOFF

FACTOR = {"forward": 2.0, "weights": 2.0, "lse": 2.0, "backward": 3.0}
FACTOR_FLOAT32 = 10.0
EXACT = ("exact", "bits")  # rules without a tolerance; "bits" tells -0 from 0, and takes NaN for NaN
FEW_OUTPUTS = 16
SUM_ROUNDINGS = 2.0  # of a sum of n terms: times sqrt(n) and the unit roundoff
SCORE_ULPS = {"lse": 4.0, "weights": 2.0, "backward": 4.0}
# A tolerance over the values that it judges. Seen over 60 seeds: at most 0.0024 with a baseline in float32, and 0.30 in
# half precision, which rounds a score of 200 to 0.125.
LARGEST_SHARE = {"float32": 0.02, "float16": 0.5, "bfloat16": 0.5}


@dataclass(frozen=True)
class Tolerance:
    """Largest allowed error of each element (one number, or a tensor), and of the mean over all elements (absolute)."""

    each: Any
    mean: float
    bits: bool = False  # -0 is not 0, and NaN is right where the reference is NaN

    @property
    def largest(self):
        """The widest tolerance of any element, a float."""
        return self.each.max().item() if isinstance(self.each, torch.Tensor) else self.each

    def at(self, flat):
        """The tolerance of the element with this number, in row-major order, a float."""
        return self.each.flatten()[flat].item() if isinstance(self.each, torch.Tensor) else self.each


class ToleranceTooWideError(RuntimeError):
    """A tolerance that would let anything pass: an error of the course, never of the answer."""


def tolerance(ref, base, dtype, rule, *, largest_score=None, length=1, terms=None, unread=None):
    """The rule of this module for one output.

    Parameters
    ----------
    ref : tensor, float64
    base : tensor, the baseline's output, in the dtype that it was computed in
    dtype : torch.dtype of the output
    rule : str, "forward", "weights", "lse", "backward" or "exact"
    largest_score : float, largest finite |score| that the reference reads, for "lse", "weights" and "backward"; None
        adds no term
    length : int, the most terms that a sum behind the output may have
    terms : tensor, shape of ref; the sum of the terms' magnitudes, for "backward"
    unread : bool tensor, shape of ref, or None; elements that may hold anything and count for nothing

    Returns
    -------
    Tolerance
    """
    if rule in EXACT:
        return Tolerance(0.0, 0.0, bits=rule == "bits")
    counted = _counted(ref, unread) & torch.isfinite(base.double())
    factor = FACTOR_FLOAT32 if base.dtype == torch.float32 else FACTOR[rule]
    worst, mean = _base_errors(ref, base, rule, counted)
    floor = _floor(ref[counted], dtype)
    relative = _score_error(rule, largest_score) + SUM_ROUNDINGS * math.sqrt(length) * UNIT_ROUNDOFF["float32"]
    inside = relative * _magnitude(ref, counted, rule, terms)
    inside_mean = inside[counted].mean().item() if isinstance(inside, torch.Tensor) else inside
    return Tolerance(factor * worst + floor + inside, 2.0 * factor * mean + floor + inside_mean)


def _base_errors(ref, base, rule, counted):
    """(largest, mean) error of the baseline, of few outputs at least a rounding."""
    errors = (base.double() - ref)[counted].abs()
    if not errors.numel():
        return 0.0, 0.0
    worst, mean = errors.max().item(), errors.mean().item()
    if errors.numel() < FEW_OUTPUTS and (rule not in SCORE_ULPS or base.dtype != torch.float32):
        unit = UNIT_ROUNDOFF.get(str(base.dtype).removeprefix("torch."), 0.0)  # other dtypes are compared exactly
        rounding = unit * ref[counted].abs().max().item()
        worst, mean = max(worst, rounding), max(mean, rounding / 2)
    return worst, mean


def _counted(ref, unread):
    """Bool tensor: elements of the reference that are compared as numbers."""
    finite = torch.isfinite(ref)
    return finite if unread is None else finite & ~unread


def _score_error(rule, largest_score):
    """What rounding the scores may do to a number of size 1, a float."""
    if rule not in SCORE_ULPS or largest_score is None:
        return 0.0
    return SCORE_ULPS[rule] * _ulp(max(largest_score, 1.0))


def _magnitude(ref, counted, rule, terms):
    """The size of the numbers that an error is relative to: a float, or a tensor for "backward"."""
    if rule == "backward":
        if terms is None:
            raise ValueError('the rule "backward" needs the magnitudes of the terms')
        return terms
    if not bool(counted.any()):
        return 0.0
    return 1.0 if rule == "lse" else ref[counted].abs().max().item()


def require_small(tol, ref, base, rule, *, terms=None, unread=None):
    """Refuse a tolerance that is not small beside the values it judges.

    The values are the largest |ref|; for "lse" 1, since an error of a logarithm is a relative error of the sum; for
    "backward" the largest of the terms, which may cancel.

    Raises
    ------
    ToleranceTooWideError  the tolerance is more than LARGEST_SHARE of them, or not a number
    """
    counted = _counted(ref, unread)
    values = terms if rule == "backward" and terms is not None else ref
    scale = 1.0 if rule == "lse" else values[counted].abs().max().item() if bool(counted.any()) else 0.0
    share = LARGEST_SHARE.get(str(base.dtype).removeprefix("torch."), 0.0)  # other dtypes are compared exactly
    for allowed in (tol.largest, tol.mean):
        if not allowed <= share * scale:
            raise ToleranceTooWideError(f"a tolerance of {allowed:.3g} for values of at most {scale:.3g} ({rule})")


def _floor(ref, dtype):
    """2 * max|((ref + 0.3) - 0.3) - ref| in the output's dtype: what one rounding at ordinary size costs."""
    if ref.numel() == 0:
        return 0.0
    rounded = ref.to(dtype)
    return 2.0 * (((rounded + 0.3) - 0.3) - rounded).double().abs().max().item()


def _ulp(value):
    """Distance between neighbouring float32 numbers at `value`, a positive number."""
    return 2.0 * UNIT_ROUNDOFF["float32"] * 2.0 ** math.floor(math.log2(value))
