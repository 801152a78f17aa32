"""Numbers that a copy or a sum must carry like all others: zeros of both signs, infinities, NaN, subnormal numbers.

May import: verdict, evidence (as data), torch.
"""

import math

import torch

from ...report.verdict import Diagnosis

NUMBERS = (0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40)
LEAST_NORMAL = 2.0**-126
_HINTS = {
    "NaN": "No comparison with NaN is true, and fmaxf and fminf return the other number.",
    "infinite": "Nothing may bound a number: no clamp, no largest float in place of an infinity.",
    "0 or -0": "-0 equals 0 and has other bits: adding 0 to it gives 0.",
    "subnormal": (
        "Numbers below 1.18e-38 (subnormal) keep few digits: making 0 of them loses them, and so does a product on the "
        "way."
    ),
}


def put(x, gen):
    """`x` with each of NUMBERS at a place of its own, drawn."""
    x.view(-1)[torch.randperm(x.numel(), generator=gen)[: len(NUMBERS)]] = torch.tensor(NUMBERS)
    return x


def by_special(evidence, output="out"):
    """Diagnosis where only numbers of these kinds are wrong, in cases with the option "special" alone; or None."""
    failing = evidence.failing()
    if not failing or not all(case.ran and "special" in case.case.options for case in failing):
        return None
    case, comparison = failing[0], failing[0].comparisons[output]
    if comparison.wrong is None:
        return None
    wanted, got = (one[output].double()[comparison.wrong].tolist() for one in (case.ref, case.first.outputs))
    kinds = [_kind(*pair) for pair in zip(wanted, got, strict=True)]
    if None in kinds:
        return None
    named = list(dict.fromkeys(kinds))
    place = ", ".join(str(number) for number in comparison.index)
    said = (
        f"Right for ordinary numbers; in the case {case.case.name!r} {output}[{place}] is {comparison.got:.6g} instead "
        f"of {comparison.expected:.6g}, and all that is wrong there should be {' or '.join(named)}."
    )
    return Diagnosis("special_numbers", " ".join((said, *(_HINTS[kind] for kind in named))))


def _kind(want, got):
    """What kind of number was wanted, a key of _HINTS; None for an ordinary one, and where a small one became large."""
    if math.isnan(want):
        return "NaN"
    if math.isinf(want):
        return "infinite"
    if abs(want) >= LEAST_NORMAL or not abs(got) <= LEAST_NORMAL:
        return None
    return "subnormal" if want else "0 or -0"
