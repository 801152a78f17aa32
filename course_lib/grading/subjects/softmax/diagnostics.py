"""The mistakes that the outputs of a softmax point to. Shared by every exercise that writes a softmax."""

import math

import torch

from ...judge.diagnosis import low_precision, worst_element
from ...report.verdict import Diagnosis
from .clipped import by_clipped
from .sums import by_count, by_steps


def diagnose_softmax(evidence, *, stride, unit="stride"):
    """Diagnosis of a failing row softmax, or None.

    Parameters
    ----------
    evidence : Evidence, with the readings "count" and "step between …"
    stride : int, columns that are read at once
    unit : str, what the exercise calls them: "stride", "tile"
    """
    looks = (nan_from_the_start, by_count, by_steps, by_clipped, by_shift, by_height, by_masked_rows, _by_short_rows)
    looks += (by_row_offset,)
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
    several = [c for c in several if _has_wrong(c)]
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


def by_shift(evidence, **_):
    if evidence.failing("normal"):
        return None
    high, spikes = evidence.failing("plus_100"), evidence.failing("spikes")
    low = [case for case in evidence.failing() if case.case.values.startswith("minus_") and _has_wrong(case)]
    low = sorted(low, key=lambda case: int(case.case.values.removeprefix("minus_")))
    low = [case for case in low if _plainly_wrong(case)] or low
    if spikes and not high and not low and _plainly_wrong(spikes[0]):
        return Diagnosis(
            "tile_local_max",
            "Right while all scores are alike, also near -100 and +100; with one score "
            "of 120 in a row comes "
            f"{_first_bad(spikes[0])}. The maximum must never fall: m_new = max(m, "
            "maximum of the new "
            "scores), not the new scores' maximum alone.",
        )
    if high and _plainly_wrong(high[0]):
        got = _first_bad(high[0])
        return Diagnosis(
            "no_max",
            f"Right for scores near 0; near +100 the result is {got}: exp(100) is more "
            "than float32 holds "
            "(its largest is about exp(88.7)). Subtract the maximum of the row before the "
            "exponential; the weights stay the same.",
        )
    nearly = low_precision(evidence.failing())  # small weights that were left out: m is right
    return _too_high(low[0]) if low and nearly is None else None


def _too_high(case):
    """Diagnosis of a maximum that stays above the low scores of a case."""
    height = case.case.values.removeprefix("minus_")
    got, expected = worst_element(case)
    if got == -math.inf and math.isfinite(expected):
        return _log_of_zero(height, expected)
    if int(height) in range(12_000, 100_000):
        return Diagnosis(
            "m_starts_too_high",
            f"Right for scores near 0, -100 and +100; near -{height} the result is {_first_bad(case)}. A number such "
            "as -1e4 stands for -inf, where m starts or as the score of a masked key, and here it is the largest; or "
            "scores below such a number count as masked. Only -inf itself is below every score.",
        )
    return Diagnosis(
        "m_starts_too_high",
        f"Right for scores near 0 and near +100; near -{height} the result is {_first_bad(case)}: m is higher than any "
        f"score, so every exponential is about exp(-{height}) = 0. m starts at -inf, as do columns past the end of "
        "a row (`other` of a load), and no finite number takes its place (FLT_MIN is the smallest "
        "positive number, not the lowest)."
        + " Nor do several rows share a maximum: that of a row past the end is 0."
        * ("seq_len_q" in case.case.sizes),
    )


def _log_of_zero(height, expected):
    """Diagnosis of a log-sum-exp that is -inf: two mistakes make the same 0."""
    return Diagnosis(
        "m_starts_too_high",
        f"Right for scores near 0 and near +100; near -{height} the result is -inf instead of {expected:.4g}, the "
        "logarithm of 0. Either m is higher than any score (it starts at -inf, and no finite number takes its place; "
        "FLT_MIN is the smallest positive number, not the lowest), or the sum was multiplied by exp(m) before the "
        "logarithm: lse = m + log(l).",
    )


def by_high(evidence, **_):
    """Only rows at +3000 and above fail, each by itself."""
    high = ("mixed_rows", "plus_13000", "plus_60000")
    if not evidence.fails_only(*high) or not all(case.ran for case in evidence.failing()):
        return None
    if not all(_only_high_rows(case) for case in evidence.failing("mixed_rows")):
        return None
    if low_precision(evidence.failing()) is not None and not evidence.failing("plus_13000"):
        return None
    case = evidence.failing()[0]
    return Diagnosis(
        "scores_limited",
        f"Right for scores up to +120; in the case {case.case.name!r} comes {_first_bad(case)}, and the wrong rows "
        "are those with the highest scores. Such a score is changed on the way: cut at a limit, or kept in a format "
        "that does not hold it.",
    )


def _only_high_rows(case):
    """Whether in a case of `mixed_rows` nothing is wrong but rows near +3000, every fifth from row 3 on."""
    name, comparison = case.first_wrong
    wrong = comparison.wrong.any(dim=-1) if name == "out" else comparison.wrong
    return all(row % 5 == 3 for row in wrong.flatten().nonzero().flatten().tolist())


def by_height(evidence, **_):
    """Only rows of different height beside each other fail."""
    found = by_high(evidence)
    if found or not evidence.fails_only("mixed_rows"):
        return found
    case = evidence.failing()[0]
    return Diagnosis(
        "shared_by_rows",
        f"Right where all rows lie at one height; in the case {case.case.name!r} (near 0, +100, -100, +3000 and -12000 "
        f"in turn) comes {_first_bad(case)}. Each row has an m and an l of its own: something of one row is used for "
        "others.",
    )


def _has_wrong(case):
    """Whether a value of the first run is wrong: a case may fail in another order of threads alone."""
    return not all(comparison.passed for comparison in case.comparisons.values())


def _plainly_wrong(case):
    """Whether four printed digits show the error."""
    got, expected = worst_element(case)
    return not abs(got - expected) <= 1e-3 * abs(expected)


def _first_bad(case):
    got, expected = worst_element(case)
    return f"{got:.4g} instead of {expected:.4g}"


def by_masked_rows(evidence, **_):
    """Only rows with -inf fail: NaN where something was visible, or the row that sees nothing."""
    if not evidence.fails_only("masked", "leading_masked", "ending") or evidence.fails_only("ending"):
        return None
    for case in evidence.failing():
        name, comparison = case.first_wrong
        empty, wrong_rows = torch.isneginf(case.ref[name]), comparison.wrong
        if name == "out":
            empty, wrong_rows = (case.ref[name] == 0).all(dim=-1), comparison.wrong.any(dim=-1)
        partly = (wrong_rows & ~empty).nonzero()
        if len(partly) and math.isfinite(comparison.got):
            return Diagnosis(
                "masked_scores_wrong",
                f"Only rows with scores of -inf are wrong: row {int(partly[0, -1])} of the case {case.case.name!r} "
                f"comes out as {comparison.got:.4g} instead of {comparison.expected:.4g}. A score of -inf has weight "
                "0, and the finite ones before and after it count as everywhere.",
            )
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
    elif got == 0.0 and math.isinf(comparison.expected):
        why = "the logarithm of an empty sum is -inf"
    if math.isinf(got):
        why = "log(0) or 1 / 0 was used as it is"
    return Diagnosis(
        "masked_row",
        f"Row {row} holds nothing but -inf; the contract asks for {comparison.expected:g} "
        f"there and it is {got:.4g}: {why}.",
    )
