"""Compares one output with its reference, under a tolerance of `tolerance`.

Infinities and NaN are compared first, as patterns. Comparisons are written ``err <= tol``: NaN is right only where the
reference is NaN.
Most outputs are right, so what only a wrong one needs is computed when it is asked for.

May import: tolerance, torch.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any

import torch

from .tolerance import Tolerance, tolerance


@dataclass
class Comparison:
    """What comparing one output with its reference gave."""

    passed: bool
    kind: str  # "right", "values", "mean", "not_finite", "should_be_infinite", "should_be_nan", "shape", …
    max_error: float = math.nan
    mean_error: float = math.nan
    tolerance: Tolerance | None = None
    index: tuple[int, ...] | None = None  # first wrong element, in row-major order
    got: float = math.nan
    expected: float = math.nan
    allowed: float = 0.0  # the tolerance of that element
    note: str = ""
    elements: Any = None  # _Elements; None where shape or dtype are wrong

    @functools.cached_property
    def wrong(self):
        """Bool tensor, shape of the output; None where shape or dtype are wrong."""
        return None if self.elements is None else ~self.elements.right(self.tolerance)

    @functools.cached_property
    def ratio(self):
        """Error / tolerance, shape of the output; inf where a pattern differs. None where shape or dtype are wrong."""
        return None if self.elements is None else self.elements.ratio(self.tolerance)

    @property
    def is_nan(self):
        """Bool tensor, shape of the output: NaN where the reference has a number."""
        return self.elements.got.isnan() & ~self.elements.want.isnan()

    @property
    def nearest(self):
        """(error, tolerance) of the element that comes nearest to its tolerance, or misses it most."""
        if not isinstance(self.tolerance.each, torch.Tensor) or not math.isfinite(self.max_error):
            return self.max_error, self.tolerance.largest
        flat = int(self.ratio.flatten().argmax())
        allowed = self.tolerance.at(flat)
        return self.ratio.flatten()[flat].item() * allowed, allowed


@dataclass
class _Elements:
    """Output and reference as float64, and |got - want|, which is 0 where the reference is not finite."""

    got: Any
    want: Any
    error: Any
    pattern_ok: Any  # bool tensor: finite where the reference is, equal where it is not; None where all are finite

    def right(self, tol):
        within = self.error <= tol.each
        return within if self.pattern_ok is None else self.pattern_ok & within

    def ratio(self, tol):
        ratio = self.error / torch.as_tensor(tol.each, dtype=torch.float64).clamp(min=1e-300)
        return ratio if self.pattern_ok is None else torch.where(self.pattern_ok, ratio, math.inf)


def compare(out, ref, base, dtype, rule, **options):
    """Compare an output with its reference under `rule`; see `tolerance.tolerance` for the parameters and options.

    Returns
    -------
    Comparison; `index`, `got`, `expected` belong to the first wrong element in row-major order
    """
    return within(out, ref, dtype, tolerance(ref, base, dtype, rule, **options))


def within(out, ref, dtype, tol):
    """Compare an output with its reference, a Tolerance given. Returns a Comparison, as `compare` does."""
    structural = _structure(out, ref, dtype)
    if structural is not None:
        return structural
    got, want = out.double(), ref.double()
    error = (got - want).abs_()
    largest = error.max().item() if error.numel() else 0.0
    if math.isfinite(largest) and not tol.bits:  # so is every element of both
        elements, mean = _Elements(got, want, error, None), error.flatten().mean().item() if error.numel() else 0.0
    else:
        elements, largest, mean = _with_patterns(got, want, error, tol.bits)
    by_largest = math.isfinite(largest) and not isinstance(tol.each, torch.Tensor)
    passed = largest <= tol.each if by_largest else bool(elements.right(tol).all())
    result = Comparison(passed, "right", largest, mean, tol, elements=elements)
    if not result.passed:
        _say_values(result)
    elif not result.mean_error <= tol.mean:
        _say_mean(result)
    return result


def _with_patterns(got, want, error, bits):
    """(_Elements, largest error, mean error) where output or reference have infinities or NaN, or `bits` count.

    The largest error is inf where the patterns differ; the mean is of the elements that are finite in both.
    """
    finite = torch.isfinite(want)
    error = error.where(finite, 0.0)
    same = (got == want) | (got.isnan() & want.isnan())
    pattern_ok = torch.where(finite, torch.isfinite(got), same)
    if bits:
        pattern_ok &= (want != 0) | (got != 0) | (got.signbit() == want.signbit())
    usable = error[finite & pattern_ok]
    largest, mean = (usable.max().item(), usable.mean().item()) if usable.numel() else (0.0, 0.0)
    return _Elements(got, want, error, pattern_ok), largest if bool(pattern_ok.all()) else math.inf, mean


def _say_values(result):
    """The first wrong element, and of which kind it is."""
    _point_at(result, int(result.wrong.flatten().int().argmax()))
    if not math.isfinite(result.expected):
        result.kind = "should_be_nan" if math.isnan(result.expected) else "should_be_infinite"
    else:
        result.kind = "values" if math.isfinite(result.got) else "not_finite"


def _say_mean(result):
    """No element misses its tolerance and the mean does: the element with the largest error."""
    result.passed, result.kind = False, "mean"
    _point_at(result, int(result.elements.error.flatten().argmax()))
    result.note = (
        f"No element misses the tolerance, but the mean error {result.mean_error:.2e} exceeds "
        f"{result.tolerance.mean:.2e}: many elements are off in the same direction."
    )


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


def _point_at(result, flat):
    """Put the element with this number, in row-major order, into the result."""
    got, want = result.elements.got, result.elements.want
    result.index = _index(flat, got.shape)
    result.got, result.expected = got.flatten()[flat].item(), want.flatten()[flat].item()
    result.allowed = result.tolerance.at(flat)


def _index(flat, shape):
    """The indices of an element, from its number in row-major order; torch.unravel_index would load SymPy."""
    index = []
    for size in reversed(shape):
        flat, last = divmod(flat, size)
        index.append(last)
    return tuple(reversed(index))
