"""What is wrong with a bound on the error of a rounded number."""

import torch

from course_lib.grading.report.verdict import Diagnosis

from .rounding import LARGEST, SLACK, TIGHT, best_bound


def first_of(wrong):
    """Row and column of the first True."""
    return tuple(int(index) for index in wrong.nonzero()[0])


def by_bound(start, y, scale, bound, empty):
    """Diagnosis of a bound that can be violated, or is not tight, or None.

    Parameters
    ----------
    start : str, the beginning of the sentence
    y, bound : tensor, (rows, head_dim), float64
    scale, empty : tensor, (rows, 1), float64 and bool: the scale, and whether the block is all zeros
    """
    best = best_bound(y, scale)
    usable = torch.isfinite(bound) & (bound >= 0)
    if not bool(usable.all()):
        row, column = first_of(~usable)
        return Diagnosis(
            "bound_not_finite",
            f"{start}: the bound at [{row}, {column}] is {bound[row, column]:g}; it is 0 or more, "
            "in blocks of zeros too.",
        )
    low = (bound < best * (1 - SLACK)) & ~empty
    high = (bound > TIGHT * best) & ~empty
    size = y.abs() / scale
    if not bool((low | high).any()):
        return None
    row, column = first_of(low | high)
    in_scales = bound * scale
    if bool(((in_scales >= best * (1 - SLACK)) & (in_scales <= TIGHT * best) | empty).all()):
        return Diagnosis(
            "bound_in_scales",
            f"{start}: the bound at [{row}, {column}] is {bound[row, column]:.4g}, which is right in units of the "
            f"scale; that of y itself is {scale[row, 0]:.4g} times as much.",
        )
    if bool(low.any()):
        return _say_low(start, size, scale, bound, best, low)
    return _say_high(start, size, scale, bound, best, high, empty)


def _say_high(start, size, scale, bound, best, high, empty):
    row, column = first_of(high)
    start = _said(f"{start}: the bound is too large", size, scale, bound, best, row, column)
    if not bool((high & (size > 0)).any()):
        return Diagnosis("bound_of_zero", f"{start}. The exponent of 0 is not small: frexp says 0, log2 -inf.")
    if not bool((high & (size >= 2.0**-5)).any()):
        return Diagnosis("subnormals_too_large", f"{start}. Below 2^-6 the steps no longer shrink: they are 2^-9.")
    if bool((bound <= 2 * TIGHT * best)[~empty.expand_as(bound)].all()):
        return Diagnosis(
            "whole_step", f"{start}. Rounding to the nearest is off by half a step at most, not by a whole one."
        )
    of_rows = bound.shape[1] > 1 and bool((bound.amax(dim=1) == bound.amin(dim=1)).all())
    if of_rows or bool((bound == bound[0, 0]).all()):
        return Diagnosis(
            "one_bound_a_block",
            f"{start}. One bound for all elements is that of the largest; the steps of e4m3 shrink with the number.",
        )
    return Diagnosis("bound_too_large", f"{start}.")


def _said(start, size, scale, bound, best, row, column):
    return (
        f"{start} at [{row}, {column}], where |y| / scale is {size[row, column]:.5g}: "
        f"{bound[row, column] / scale[row, 0]:.4g} scales; the largest error there is "
        f"{best[row, column] / scale[row, 0]:.4g}, "
        f"and up to {TIGHT:g} times as much is allowed"
    )


def _say_low(start, size, scale, bound, best, low):
    row, column = first_of(low)
    start = _said(f"{start}: the bound can be violated", size, scale, bound, best, row, column)
    if not bool((low & (size <= LARGEST * (1 + SLACK))).any()):
        return Diagnosis("saturation_forgotten", f"{start}. What is beyond 448 scales loses all that is beyond.")
    if not bool((low & (size >= 2.0**-6)).any()):
        return Diagnosis(
            "subnormals_forgotten",
            f"{start}. Below 2^-6 scales e4m3 is subnormal: its steps stay 2^-9, however small the number is.",
        )
    ratio = (bound / best)[low & (size >= 2.0**-6)]
    if bool((ratio >= 0.49).all()):
        return Diagnosis("quarter_step", f"{start}. Half of half a step: e4m3 has 3 fraction bits, so a step is 2^-3.")
    return Diagnosis("bound_too_small", f"{start}.")
