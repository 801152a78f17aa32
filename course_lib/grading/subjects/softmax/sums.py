"""The sum of a row softmax, read from probes with equal scores and with a step: the mistakes that it points to."""

import math

from ...judge.diagnosis import runs_of
from ...report.verdict import Diagnosis

E = math.e
CLOSE = 2e-3  # relative; readings of different mistakes are further apart


def near(value, target):
    """Equal up to CLOSE, relatively; NaN is near nothing."""
    return abs(value - target) <= CLOSE * abs(target)


def by_count(evidence, *, stride, unit):
    counts = evidence.readings.get("count")
    if not counts or any(math.isnan(c) for c in counts):
        return None
    num_cols, seen = len(counts), counts[0]
    if all(math.isinf(c) for c in counts):
        return Diagnosis("weights_zero", f"With {num_cols} equal scores every weight is 1/{num_cols}; here it is 0.")
    if not all(near(c, seen) for c in counts):
        return _counts_disagree(counts)
    return None if near(seen, num_cols) else say_count(seen, num_cols, stride, unit)


def _counts_disagree(counts):
    right = [col for col, c in enumerate(counts) if near(c, len(counts))]
    other = next(col for col, c in enumerate(counts) if not near(c, counts[0]))
    start = (
        f"With {len(counts)} equal scores every weight is 1/{len(counts)}. Here column 0 says 1/{counts[0]:.4g} "
        f"and column {other} says 1/{counts[other]:.4g}"
    )
    if right:
        start += f"; only columns {runs_of(right, limit=4)} are right"
    return Diagnosis(
        "lanes_disagree",
        start + ". The threads of a row do not divide by the same sum: after the merge "
        "every one of them needs the merged (m, l).",
    )


def say_count(seen, num_cols, stride, unit, *, weights=True):
    """Diagnosis for a sum that counted `seen` keys where a row has `num_cols`; `weights`: it was read from weights."""
    asked = f"With {num_cols} equal scores every weight is 1/{num_cols}; here it is"
    if near(seen, 1.0):
        return Diagnosis(
            "no_division",
            f"{asked} 1: it was divided by 1 or not at all. Either the final division by l is missing, or l is not a "
            "number and a guard put 1 in its place (exp(m_new - m) is infinite for the first score).",
        )
    if near(seen * num_cols, 1.0):
        return Diagnosis("multiplied_by_l", f"{asked} {num_cols}: multiplied by l instead of divided.")
    start = f"With {num_cols} equal scores the sum must count {num_cols} keys; here it counted {seen:.4g}."
    if weights:
        start = f"{asked} 1/{seen:.4g}, so the sum counted {seen:.4g} keys."
    for value, code, reason in _counts(num_cols, stride, unit):
        if near(seen, value):
            return Diagnosis(code, f"{start} {reason}")
    if seen > num_cols:
        return Diagnosis("counted_twice", f"{start} Some columns were added more than once.")
    return Diagnosis(
        "merge_incomplete",
        f"{start} Some never reached it: does every thread go on by the number of threads, and does the reduction take "
        "every step, from half of the threads down to one?",
    )


def _counts(num_cols, stride, unit):
    """(keys counted, code, reason) of the mistakes that a count tells apart, the likelier ones first."""
    padded, whole = -(-num_cols // stride) * stride, num_cols // stride * stride
    return (
        (
            padded,
            "padding_counted",
            f"That is the row rounded up to whole {unit}s: {padded - num_cols} columns beyond its end were added. A "
            "column that is not there has score -inf, not 0.",
        ),
        (
            whole,
            "tail_dropped",
            f"That is the row rounded down to whole {unit}s: its last {num_cols % stride} columns are missing.",
        ),
        (
            num_cols - stride,
            "new_term_rescaled",
            f"The first {unit} is missing: there m is -inf and the factor exp(m - m_new) is 0. It belongs to the old "
            "sum alone; add the new term after it.",
        ),
        (
            stride,
            "no_stride_loop",
            f"That is the first {unit} alone: the loop over the rest of the row is missing.",
        ),
    )


_MERGED = ("lanes", "threads", "warps")  # each has a state of its own, which a merge combines
_UNSCALED_MERGE = (
    "the sum of each {0} is relative to that {0}'s own maximum, and they were added as they are. Multiply each by "
    "exp(m - m_new), from its own maximum m to that of all, before you add them"
)


def by_steps(evidence, **_):
    """The probes whose scores are 0, then 1: what became of the old sum when the maximum grew."""
    for name, reading in evidence.readings.items():
        if name.startswith("step "):
            found = say_step(name.removeprefix("step "), reading)
            if found is not None:
                return found
    return None


def say_step(where, reading):
    """Diagnosis for the weights of scores 0, then 1, or None; `where` says what the step separates."""
    at, rest = reading["at"], reading["num_cols"] - reading["at"]
    first, last = reading["first"], reading["last"]
    if not (math.isfinite(first) and math.isfinite(last)) or last == 0.0:
        return None
    right, seen = at / E + rest, 1.0 / last
    given = f"{at} scores 0, then {rest} scores 1 ({where})"
    found = _by_ratio(given, first / last, last)
    if found:
        return found
    if near(seen, right):
        if near(first / last, 1.0 / E):
            return None
        return Diagnosis(
            "lanes_disagree",
            f"{given}: the sum is {right:.4g} for every column. The last column was divided by {seen:.4g}, the first "
            f"one by {_inverse(E * first):.4g}: both sides of a merge need their factor, exp(m - m_new) for the own "
            "sum and exp(m_other - m_new) for the other one.",
        )
    start = f"{given}: the sum should be {at} * exp(-1) + {rest} = {right:.4g}; here it is {seen:.4g}"
    for value, code, reason in _sums(at, rest):
        if near(seen, value):
            if code == "l_not_rescaled" and where.removeprefix("between ") in _MERGED:
                reason = _UNSCALED_MERGE.format(where.removeprefix("between ").removesuffix("s"))
            return Diagnosis(code, f"{start}: {reason}.")
    return Diagnosis("rescale_wrong", f"{start}. The old sum must be multiplied by exp(m - m_new) = 0.368, once.")


def _by_ratio(given, ratio, last):
    """Diagnosis when the ratio of the two weights alone shows the mistake, or None."""
    if near(ratio, 1.0):
        return Diagnosis(
            "ignores_scores",
            f"{given}: all weights came out as {last:.4g}. A score that is 1 lower should weigh exp(-1) = 0.368 times "
            "as much; the scores do not enter.",
        )
    if near(ratio, 0.5):
        return Diagnosis(
            "exp_exp2_mix",
            f"A score that is 1 lower should weigh exp(-1) = 0.368 times as much; here it weighs {ratio:.3g}, which is "
            "2 to the -1. exp2 needs its argument times log2(e).",
        )
    return None


def _sums(at, rest):
    """(sum, code, reason) of the mistakes that a sum over `at` scores 0 and `rest` scores 1 tells apart."""
    return (
        (
            at + rest,
            "l_not_rescaled",
            "the old sum was kept as it was when the maximum grew; multiply it by exp(m - m_new)",
        ),
        (
            at * E + rest,
            "inverse_factor",
            "the old sum grew when the maximum grew; the factor is exp(m - m_new), not exp(m_new - m)",
        ),
        (
            at / 2 + rest,
            "exp_exp2_mix",
            "the old sum was multiplied by 2 to the -1 instead of exp(-1); exp2 needs its argument times log2(e)",
        ),
        (
            rest,
            "old_sum_lost",
            "the old sum was thrown away when the maximum grew; multiply it by exp(m - m_new) and add to it",
        ),
        (
            rest / E,
            "new_term_rescaled",
            "the new terms were multiplied by the factor as well; it belongs to the old sum alone",
        ),
    )


def _inverse(value):
    return 1.0 / value if value else math.inf
