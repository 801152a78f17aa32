"""Diagnosis of gradients whose sums are too short or rounded on the way: in half precision, or in large groups.

May import: verdict, evidence (as data), gradients.
"""

from ...report.verdict import Diagnosis
from .gradients import FIRST, LATER


def by_fading(evidence):
    """Wrong in nothing but sums of halves that begin with a large number and go on with small ones."""
    failing = evidence.failing()
    if not failing or not all("fades" in case.case.options.get("made", {}) for case in failing):
        return None
    case = failing[0]
    name, wrong = case.first_wrong
    return Diagnosis(
        "half_accumulator",
        f"Right everywhere but in a long sum of halves (case {case.case.name!r}), which begins with {FIRST:g}, goes on "
        f"with {LATER:g} and ends with {-FIRST:g}: {name} is {wrong.got:.4g} instead of {wrong.expected:.4g}. Half "
        f"precision cannot add {LATER:g} to {FIRST:g}: the sum must be float32 from the first tile of the first head "
        "to the last tile of the last, and is rounded once, when it is stored.",
    )


def by_groups(evidence):
    """Right up to some number of query heads that share a head of k, wrong in every case beyond it."""
    failing, passing = evidence.failing(), evidence.passing()
    if not failing or not passing or all(case.case.dtype == "float16" for case in failing):
        return None
    most, first = max(map(_group, passing)), min(failing, key=_group)
    if not 1 < most < _group(first):
        return None
    return Diagnosis(
        "limited",
        f"Right up to num_q_per_kv = {most}, wrong with {_group(first)} (case {first.case.name!r}): the loop over the "
        "query heads that share a head of k ends before the last one.",
    )


def _group(case):
    return case.case.sizes["num_heads"] // case.case.sizes["num_kv_heads"]
