"""Differences x - m that are cut off below: small weights come out as one and the same share of the largest one."""

import math

import torch

from ...report.verdict import Diagnosis

EQUAL = 1e-2  # relative
NEIGHBOURS = 10.0  # a weight within this factor above the floor must be right, else something was added to all


def by_clipped(evidence, *, output="out", **_):
    """Diagnosis when no weight is below a floor and every weight above the floor is right, or None."""
    found = [_floor(case, output) for case in evidence.failing()]
    if not found or None in found or not any(neighbours for _, neighbours in found):
        return None
    floor = found[0][0]
    if not all(abs(other - floor) <= EQUAL * floor for other, _ in found):
        return None
    return Diagnosis(
        "difference_clipped",
        f"No weight is below {floor:.3g} times the largest one of its row, and every weight that should be lower has "
        f"this value: x - m is cut off at {math.log(floor):.3g}. exp needs no lower limit; for a score far below m it "
        "gives 0, as it should.",
    )


def _floor(case, output):
    """(smallest weight over the largest of its row, whether right weights lie just above it), or None.

    None unless every weight that should be smaller has that share, and every other one is right.
    """
    if not case.ran or case.case.sizes.get("num_cols", 2) < 2:
        return None
    got, want = case.first.outputs[output].double(), case.ref[output]
    if got.shape != want.shape or not bool(torch.isfinite(got).all()):
        return None
    rows = (want.amax(-1) > 0) & (got.amax(-1) > 0)
    got, want = (each[rows] / each[rows].amax(-1, keepdim=True) for each in (got, want))
    if not got.numel() or not 0.0 < (floor := got.min().item()) < 0.1:
        return None
    low, high = want < (1 - EQUAL) * floor, want > (1 + EQUAL) * floor
    alike = ((got - floor).abs() <= EQUAL * floor)[low]
    right = ((got - want).abs() <= EQUAL * want)[high]
    if not bool(low.any()) or not bool(alike.all()) or not bool(right.all()):
        return None
    return floor, bool((high & (want < NEIGHBOURS * floor)).any())
