"""Which cases fail, and what they alone have: a size above every other, another value of a parameter, low scores.

May import: verdict, evidence (as data).
"""

import math

from ...report.verdict import Diagnosis
from .partials import FAINT, FAINTER

LOW_SCORES = ("minus_12000", "below_1e9")


def by_bound(evidence, measures):
    """Right up to a size, wrong above it. measures : words -> callable, Case -> the size."""
    failing, passing = evidence.failing(), evidence.passing()
    for words, of in measures.items() if failing and passing else ():
        case = min((c.case for c in failing), key=of)
        fewest, most = of(case), max(of(c.case) for c in passing)
        if fewest > most >= 2:
            return Diagnosis(
                "bounded_size",
                f"Right in every case up to {words} = {most}, wrong with {words} = {fewest} (case {case.name!r}): "
                "does a loop end, or an array, at a number of its own?",
            )
    return None


def by_parameter(evidence, parameters):
    """Right wherever a parameter has its usual value, wrong wherever it has another. parameters : words -> of(Case)."""
    failing, passing = evidence.failing(), evidence.passing()
    for words, of in parameters.items() if failing and passing else ():
        right, wrong = {of(c.case) for c in passing}, sorted({of(c.case) for c in failing})
        if len(right) == 1 and right.isdisjoint(wrong):
            values = " and ".join(f"{value:g}" for value in wrong)
            return Diagnosis(
                "parameter_ignored",
                f"Right in every case with {words} = {right.pop():g}, wrong in every case with {words} = {values}: is "
                f"a number taken for it, or made for one value of it? (Case: {failing[0].case.name}.)",
            )
    return None


def by_low(evidence):
    """Right but for scores below the numbers that people take for -inf."""
    failing = evidence.failing()
    if not failing or not evidence.passing("minus_100") or any(c.case.values not in LOW_SCORES for c in failing):
        return None
    lower = evidence.passing("minus_12000")
    right, wrong = ("from -12,000 to +100", "below -1e9") if lower else ("near 0, +100 and -100", "near -12,000")
    return Diagnosis(
        "low_scores",
        f"Right for scores {right}, wrong {wrong} (case {failing[-1].case.name!r}): a number is "
        "taken for minus infinity, as a start of m or in a mask. Use -inf itself; every score is above it.",
    )


def by_faint(evidence, lse):
    """Many keys of tiny weight look as if they were not there. lse : name of that output."""
    failing = evidence.failing()
    if not failing or any(not c.case.options.get("faint") for c in failing):
        return None
    case, num_keys = failing[0], failing[0].case.sizes["seq_len_kv"]
    fainter = num_keys - num_keys // 2 if failing[0].case.options.get("fainter") else 0
    left, each = num_keys - 1 - fainter, math.exp(FAINT)
    rest = f", and {fainter} have {FAINTER:.4g}, {math.exp(FAINTER):.2g} each" if fainter else ""
    wrong = case.first_wrong[0]
    got, expected = case.comparisons[wrong].got, case.comparisons[wrong].expected
    return Diagnosis(
        "small_weights_dropped",
        f"In the case {case.case.name!r} one key has score 0 and {left} have {FAINT:.4g}: each of these weighs "
        f"{each:.2g}, together {left * each:.2g}{rest}. {wrong} is {got:.6g}, expected {expected:.6g}: they were left "
        f"out, or lost in a sum. Only -inf weighs nothing, and {lse} counts every key.",
    )
