"""What the outputs of a softmax say about the mistake that made them. Shared by every exercise that writes a softmax.

May import: verdict, evidence (as data), torch.
"""

import math

import torch

from ...judge.diagnosis import runs_of, worst_element
from ...report.verdict import Diagnosis

E = math.e
CLOSE = 2e-3  # relative; readings of different mistakes are further apart


def diagnose_softmax(evidence, *, stride, unit="stride"):
    """Diagnosis of a failing row softmax, or None.

    Parameters
    ----------
    evidence : Evidence, with the readings "count" and "step between …"
    stride : int, columns that are read at once
    unit : str, what the exercise calls them: "stride", "tile"
    """
    looks = (nan_from_the_start, _by_count, by_steps, by_shift, by_masked_rows, _by_short_rows, by_row_offset)
    return next((found for look in looks if (found := look(evidence, stride=stride, unit=unit)) is not None), None)


def nan_from_the_start(evidence, **_):
    """NaN already for a single score."""
    single = [case for case in evidence.failing() if case.elements <= 2]
    if not single or not all(c.got != c.got for c in single[0].comparisons.values() if not c.passed):
        return None
    if [case for case in evidence.passing() if case.elements > 2]:
        return None
    return Diagnosis(
        "nan_from_the_start",
        "NaN already for a row of one score. At the first score m is -inf and l is "
        "0: exp(m - m_new) "
        "is 0 there, but exp(m_new - m) is infinite, and 0 times infinite is NaN.",
    )


def _by_short_rows(evidence, *, stride, unit):
    """Rows that leave some threads without a column come out NaN; full ones are right."""
    short = [c for c in evidence.failing("normal") if c.case.sizes["num_cols"] < stride]
    if not short or not all(c.case.sizes["num_cols"] < stride for c in evidence.failing("normal")):
        return None
    comparison = next(c for c in short[-1].comparisons.values() if not c.passed)
    if not (math.isnan(comparison.got) or comparison.got == 0.0):
        return None
    cols = short[-1].case.sizes["num_cols"]
    return Diagnosis(
        "inf_minus_inf",
        f"Longer rows are right; one of {cols} comes out as {comparison.got:.4g}. "
        "Threads without a column "
        "still hold (-inf, 0), and merging two of them computes exp(-inf - -inf), which "
        "is NaN. "
        "The merge of two such states must be (-inf, 0) again.",
    )


def by_row_offset(evidence, **_):
    """Row 0 right and all others wrong, in every failing case of several rows."""
    several = [c for c in evidence.failing("normal") if c.case.sizes.get("num_rows", 1) > 1]
    wrong = [next(x for x in c.comparisons.values() if not x.passed).wrong for c in several]
    rows = [w.any(dim=-1) if w.dim() > 1 else w for w in wrong]
    if not rows or any(bool(r[0]) or not bool(r[1:].all()) for r in rows):
        return None
    return Diagnosis(
        "row_offset",
        f"Row 0 is right and every other row is wrong (case {several[0].case.name!r}): "
        "where does row r begin? "
        "r * num_cols elements after the first.",
    )


def near(value, target):
    """Equal up to CLOSE, relatively; NaN is near nothing."""
    return abs(value - target) <= CLOSE * abs(target)


def _by_count(evidence, *, stride, unit):
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
    start = f"With {num_cols} equal scores the sum must count {num_cols} keys; here it counted {seen:.4g}."
    if weights:
        start = (
            f"With {num_cols} equal scores every weight is 1/{num_cols}; here it is 1/{seen:.4g}, so the sum counted "
            f"{seen:.4g} keys."
        )
    padded = -(-num_cols // stride) * stride
    if near(seen, 1.0):
        return Diagnosis(
            "no_division",
            f"With {num_cols} equal scores every weight is 1/{num_cols}; here it is 1: it "
            "was divided "
            "by 1 or not at all. Either the final division by l is missing, or l is not a "
            "number "
            "and a guard put 1 in its place (exp(m_new - m) is infinite for the first "
            "score).",
        )
    if near(seen, padded):
        return Diagnosis(
            "padding_counted",
            f"{start} That is the row rounded up to whole {unit}s: {padded - num_cols} "
            "columns beyond its end were added. A column that is not there has score "
            "-inf, not 0.",
        )
    if near(seen, (num_cols // stride) * stride):
        return Diagnosis(
            "tail_dropped",
            f"{start} That is the row rounded down to whole {unit}s: its last {num_cols % stride} columns are missing.",
        )
    if near(seen, num_cols - stride):
        return Diagnosis(
            "new_term_rescaled",
            f"{start} The first {unit} is missing: there m is -inf and the factor "
            "exp(m - m_new) "
            "is 0. It belongs to the old sum alone; add the new term after it.",
        )
    if near(seen, stride):
        return Diagnosis(
            "no_stride_loop", f"{start} That is the first {unit} alone: the loop over the rest of the row is missing."
        )
    if near(seen * num_cols, 1.0):
        return Diagnosis(
            "multiplied_by_l",
            f"With {num_cols} equal scores every weight is 1/{num_cols}; here it is "
            f"{num_cols}: "
            "multiplied by l instead of divided.",
        )
    if seen > num_cols:
        return Diagnosis("counted_twice", f"{start} Some columns were added more than once.")
    return Diagnosis(
        "merge_incomplete",
        f"{start} Some never reached it: does every thread go on by the number of "
        "threads, and "
        "does the reduction take every step, from half of the threads down to one?",
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
    at, rest = reading["at"], reading["num_cols"] - reading["at"]
    first, last = reading["first"], reading["last"]
    if not (math.isfinite(first) and math.isfinite(last)) or last == 0.0:
        return None
    right, seen, ratio = at / E + rest, 1.0 / last, first / last
    start = f"{at} scores 0, then {rest} scores 1 ({where}): the sum should be {at} * exp(-1) + {rest} = {right:.4g}"
    if near(ratio, 1.0):
        return Diagnosis(
            "ignores_scores",
            f"{at} scores 0, then {rest} scores 1 ({where}): all weights came out as "
            f"{last:.4g}. A score "
            "that is 1 lower should weigh exp(-1) = 0.368 times as much; the scores do "
            "not enter.",
        )
    if near(ratio, 0.5):
        return Diagnosis(
            "exp_exp2_mix",
            "A score that is 1 lower should weigh exp(-1) = 0.368 times as much; here it "
            f"weighs {ratio:.3g}, "
            "which is 2 to the -1. exp2 needs its argument times log2(e).",
        )
    if near(seen, right):
        if near(ratio, 1.0 / E):
            return None
        return Diagnosis(
            "lanes_disagree",
            f"{at} scores 0, then {rest} scores 1 ({where}): the sum is {right:.4g} for "
            "every column. The last column "
            f"was divided by {seen:.4g}, the first one by {_inverse(E * first):.4g}: "
            "both sides of a merge need "
            "their factor, exp(m - m_new) for the own sum and exp(m_other - m_new) for "
            "the other one.",
        )
    wrong = (
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
    for value, code, reason in wrong:
        if near(seen, value):
            return Diagnosis(code, f"{start}; here it is {seen:.4g}: {reason}.")
    return Diagnosis(
        "rescale_wrong",
        f"{start}; here it is {seen:.4g}. The old sum must be multiplied by exp(m - m_new) = 0.368, once.",
    )


def _inverse(value):
    return 1.0 / value if value else math.inf


def by_shift(evidence, **_):
    if evidence.failing("normal"):
        return None
    high, spikes = evidence.failing("plus_100"), evidence.failing("spikes")
    low = evidence.failing("minus_100") + evidence.failing("minus_3000")
    low = [case for case in low if _plainly_wrong(case)] or low
    if spikes and not high and not low:
        return Diagnosis(
            "tile_local_max",
            "Right while all scores are alike, also near -100 and +100; with one score "
            "of 120 in a row comes "
            f"{_first_bad(spikes[0])}. The maximum must never fall: m_new = max(m, "
            "maximum of the new "
            "scores), not the new scores' maximum alone.",
        )
    if high:
        got = _first_bad(high[0])
        return Diagnosis(
            "no_max",
            f"Right for scores near 0; near +100 the result is {got}: exp(100) is more "
            "than float32 holds "
            "(its largest is about exp(88.7)). Subtract the maximum of the row before the "
            "exponential; the weights stay the same.",
        )
    if low:
        near_value = low[0].case.values.removeprefix("minus_")
        return Diagnosis(
            "m_starts_too_high",
            f"Right for scores near 0 and near +100; near -{near_value} the result is {_first_bad(low[0])}: m never "
            f"went below where it started, so every exponential is about exp(-{near_value}) = 0. m starts at -inf "
            "(FLT_MIN is the smallest positive number, not the lowest).",
        )
    return None


def _plainly_wrong(case):
    """Whether four printed digits show the error."""
    got, expected = worst_element(case)
    return not abs(got - expected) <= 1e-3 * abs(expected)


def _first_bad(case):
    got, expected = worst_element(case)
    return f"{got:.4g} instead of {expected:.4g}"


def by_masked_rows(evidence, **_):
    """Only rows with -inf fail: NaN where something was visible, or the row that sees nothing."""
    if not evidence.fails_only("masked", "leading_masked"):
        return None
    for case in evidence.failing():
        name, comparison = next((n, c) for n, c in case.comparisons.items() if not c.passed)
        empty, wrong_rows = torch.isneginf(case.ref[name]), comparison.wrong
        if name == "out":
            empty, wrong_rows = (case.ref[name] == 0).all(dim=-1), comparison.wrong.any(dim=-1)
        partly = (wrong_rows & ~empty).nonzero()
        if len(partly):
            row = int(partly[0, -1])
            return Diagnosis(
                "inf_minus_inf",
                f"Row {row} of the case {case.case.name!r} holds scores of -inf and "
                f"comes out as {comparison.got:.4g}: "
                "as long as nothing finite was seen m is -inf, and exp(-inf - -inf) is "
                "NaN. A score of -inf has weight 0.",
            )
    return _say_empty_row(evidence.failing()[0])


def _say_empty_row(case):
    comparison = next(c for c in case.comparisons.values() if not c.passed)
    row, got = comparison.index[0], comparison.got
    why = "a large negative number in place of -inf gives every masked score the same weight"
    if math.isnan(got):
        why = "0 / 0 is NaN"
    if math.isinf(got):
        why = "log(0) or 1 / 0 was used as it is"
    return Diagnosis(
        "masked_row",
        f"Row {row} holds nothing but -inf; the contract asks for {comparison.expected:g} "
        f"there and it is {got:.4g}: {why}.",
    )
