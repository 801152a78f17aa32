"""Diagnoses of combined splits, and their probes: two splits of 3 and of 2 keys with equal scores, one split alone.

The right weights are 3/5 and 2/5; the result says how each split was weighed.

May import: spec, verdict, evidence (as data), notation, attention.diagnostics, limits, partials.
"""

import math

import torch

from ....notation import LOG2_E
from ...exercise.spec import Probe
from ...report.verdict import Diagnosis
from ..attention.diagnostics import near
from .limits import by_bound
from .partials import FAINT, FAINTER, FAR, LARGE, LOW, NEG_INF, SIZES, case, combined

FIRST, SECOND = 3, 2  # keys of the two splits of the probe


def combine_probes(head_dim=2):
    """Two splits of FIRST and SECOND keys; and one split whose log-sum-exp is 1. Their out: columns 1, 0 and 0, 1."""
    rest = [0.0] * (head_dim - 2)
    two = ([[1.0, 0.0, *rest], [0.0, 1.0, *rest]], [math.log(FIRST), math.log(SECOND)])
    one = ([[1.0, 0.0, *rest]], [1.0])

    def read(_inputs, outputs):
        first, second = outputs["out"].double()[0, :2].tolist()
        return {"first": first, "second": second, "lse": outputs["lse"].double()[0].item()}

    return (
        Probe("two splits", case("two splits", 2, 1, head_dim, fixed=two), read),
        Probe("one split", case("one split", 1, 1, head_dim, fixed=one), read),
    )


def diagnose_combine(evidence):
    """Diagnosis of a failing combine, or None."""
    looks = (by_weights, _by_added, by_lse, _by_faint, by_low, _by_large, _by_bound, _by_rows, _by_size, _by_empty)
    return next((diagnosis for look in looks if (diagnosis := look(evidence)) is not None), None)


def by_weights(evidence):
    """out of two splits holds their weights."""
    reading = evidence.readings.get("two splits")
    if reading is None or not (math.isfinite(reading["first"]) and math.isfinite(reading["second"])):
        return None
    got, right = (reading["first"], reading["second"]), (FIRST / (FIRST + SECOND), SECOND / (FIRST + SECOND))
    if all(near(g, r) for g, r in zip(got, right, strict=True)):
        return None
    start = (
        f"Two splits of {FIRST} and {SECOND} keys, all scores 0, so partial_lse = ln({FIRST}), ln({SECOND}): their "
        f"weights are {right[0]:g} and {right[1]:g}; here they are {got[0]:.4g} and {got[1]:.4g}"
    )
    for weights, code, words in _mistakes():
        if all(near(g, w) if w else abs(g) < 1e-6 for g, w in zip(got, weights, strict=True)):
            return Diagnosis(code, f"{start}. {words}.")
    return Diagnosis("weights_wrong", f"{start}. A split weighs exp(partial_lse), over the sum of these.")


def _mistakes():
    """[((first, second), code, words)]: what a few ways to weigh make of the two splits."""
    undivided = "The weighted sum was never divided by the sum of the weights"
    base_2 = "That is 2 to the power of a natural logarithm; use exp, or multiply by log2(e) first"
    ratio, right_first = FIRST / SECOND, FIRST / (FIRST + SECOND)
    return (
        ((0.5, 0.5), "plain_mean", "That is a plain mean; a split that saw more, or higher, scores weighs more"),
        ((1.0, 1.0), "plain_sum", "The splits were added as they are. Each is a mean of its own keys already"),
        ((FIRST, SECOND), "no_division", undivided),
        ((1.0, 1.0 / ratio), "no_division", undivided),
        ((FIRST / 10, SECOND / 10), "divided_twice", "After the weights add up to 1, nothing is left to divide by"),
        ((1.0 / (1.0 + ratio), ratio / (1.0 + ratio)), "inverse_weight", "A sign is turned round: exp(lse - m)"),
        (_shares(1.0), "exp_exp2_mix", base_2),
        (_shares(LOG2_E**2), "exp_exp2_mix", "exp was taken of lse * log2(e), which is meant for exp2"),
        (
            (math.log(FIRST) / math.log(FIRST * SECOND), math.log(SECOND) / math.log(FIRST * SECOND)),
            "weights_are_lse",
            "The splits were weighed by partial_lse itself. It is a logarithm; the weight is its exponential",
        ),
        ((right_first, 0.0), "split_dropped", "The last split is missing from the sum"),
        ((0.0, 1.0 - right_first), "split_dropped", "The first split is missing from the sum"),
        ((1.0, 0.0), "one_split", "Only the first split counts"),
        ((0.0, 1.0), "one_split", "Only the last split counts"),
    )


def _shares(factor):
    """Weights when exp(lse) was computed as 2 ** (lse * factor); the right factor is log2(e)."""
    first, second = (2.0 ** (math.log(keys) * factor) for keys in (FIRST, SECOND))
    return first / (first + second), second / (first + second)


def by_lse(evidence):
    two, one = evidence.readings.get("two splits"), evidence.readings.get("one split")
    if two is None or one is None:
        return None
    got, right = two["lse"], math.log(FIRST + SECOND)
    if not math.isfinite(got) or near(got, right) and near(one["lse"], 1.0):
        return None
    if near(got, right):
        return Diagnosis(
            "lse_wrong",
            f"One split alone, partial_lse 1: lse must be 1 and is {one['lse']:.4g}. Every split adds its exponential "
            "once, however many there are.",
        )
    start = f"Two splits of {FIRST} and {SECOND} equal keys: lse must be ln({FIRST + SECOND}) = {right:.4g}"
    start += f" and is {got:.4g}"
    table = (
        (right * LOG2_E, "lse_base_2", "the logarithm to the base 2; the course's lse is natural"),
        (math.log(FIRST) + math.log2(1.0 + SECOND / FIRST), "lse_base_2", "log2 of l was added to a natural m"),
        (math.log(FIRST * SECOND), "lse_added", "the sum of the two. What adds up are the exponentials"),
        (math.log(FIRST), "lse_max_alone", "the larger of the two: the log of the sum of weights is missing"),
        (math.log(FIRST * SECOND) / 2, "lse_mean", "the mean of the two. What adds up are the exponentials"),
        (math.log(1.0 + SECOND / FIRST), "lse_without_max", "log(l) alone. l was divided by exp(m); add m again"),
        (FIRST + SECOND, "lse_without_log", "the sum itself; its logarithm is missing"),
        (-right, "lse_sign", "a sign is turned round"),
    )
    for value, code, words in table:
        if near(got, value):
            return Diagnosis(code, f"{start}: {words}.")
    return Diagnosis("lse_wrong", f"{start}. lse = m + log(sum of exp(partial_lse - m)).")


def _by_added(evidence):
    """One split alone, whose weight is 1 however it was rounded, comes out a little smaller."""
    one = evidence.readings.get("one split")
    if one is None or not 0.9 < one["first"] < 1.0 - 1e-7 or not near(one["lse"], 1.0):
        return None
    return Diagnosis(
        "epsilon_in_division",
        f"One split alone: out must be 1, whatever its weight, and is {one['first']:.7g}. No rounding of a weight does "
        f"that; a sum of weights with {1.0 / one['first'] - 1.0:.1g} added does. Divide by l itself, and by 1 where l "
        "is 0.",
    )


def only_with(evidence, option):
    """The first failing case, when all that fail have `option` and a case without it passes."""
    failing = evidence.failing()
    if not failing or not evidence.passing() or not all(c.case.options.get(option) for c in failing):
        return None
    return failing[0]


def _by_faint(evidence):
    """The case with many faint splits looks as if they were not there, and two splits have exact weights."""
    case = next((c for c in evidence.failing() if c.case.options.get("faint")), None)
    two = evidence.readings.get("two splits")
    if case is None or two is None or not near(two["first"], FIRST / (FIRST + SECOND), 1e-6):
        return None
    given = {name: tensor.double() for name, tensor in case.inputs.items()}
    got = {name: tensor.double() for name, tensor in case.first.outputs.items()}
    for level in (FAINT, FAINTER):
        faint = given["partial_lse"] < level + 1.0
        left, each = int(faint[:, 0].sum()), math.exp(level)
        others = combined(given["partial_out"], torch.where(faint, NEG_INF, given["partial_lse"]))
        without = "out" if _near_all(got["out"], others["out"], 2.0 * left * math.exp(FAINT)) else "lse"
        if without == "lse" and (level == FAINTER or not _near_all(got["lse"], others["lse"], each)):
            continue
        return Diagnosis(
            "small_weights_dropped",
            f"In the case {case.case.name!r} one split has partial_lse 0 and {left} have {level:.4g} or less: each of "
            f"these weighs {each:.2g} at most, and {without} is what the others give. Together they count: only a "
            "split without keys weighs nothing.",
        )
    return None


def _near_all(got, wanted, share):
    """Whether two tensors agree but for this share of an element."""
    return bool(torch.isclose(got, wanted, rtol=share, atol=1e-6).all())


def by_low(evidence, part="split"):
    """Diagnosis or None: right but for log-sum-exps near LOW; `part` is what the exercise calls a part of the keys."""
    case = only_with(evidence, "low")
    if case is not None and all(c.case.options.get("lowest") for c in evidence.failing()):
        return Diagnosis(
            "low_taken_for_empty",
            f"Right for log-sum-exps from {LOW:g} to +100, wrong in the case {case.case.name!r}: is a number taken for "
            f"-inf? Only -inf marks a {part} without keys, and only -inf is below every maximum.",
        )
    return case and Diagnosis(
        "low_taken_for_empty",
        f"Right for log-sum-exps near 0, +100 and -100, wrong near {LOW:g} (case "
        f"{evidence.failing()[-1].case.name!r}). Only -inf marks a {part} without keys, and only -inf is below every "
        "maximum.",
    )


def _by_large(evidence):
    case = only_with(evidence, "large")
    return case and Diagnosis(
        "values_bounded",
        f"Right for values near 1, wrong near {LARGE:g} (case {case.case.name!r}): no size of a value is special.",
    )


def _by_bound(evidence):
    return by_bound(evidence, {name: lambda case, name=name: case.sizes[name] for name in SIZES})


def _by_rows(evidence):
    """Right as long as all rows lie near each other."""
    failing = evidence.failing()
    if not failing or not all(c.case.options.get("far") for c in failing):
        return None
    return Diagnosis(
        "max_of_all_rows",
        f"Right while all rows lie near each other, wrong when neighbouring ones are {FAR:g} apart: exp(-{FAR:g}) is 0 "
        "in float32. Each row has a maximum of its own.",
    )


def _by_size(evidence):
    failing = [c for c in evidence.failing() if not c.case.options.get("lowest")]
    wrong = [c for c in failing if abs(_level(c)) > 80 or c.case.options.get("far")]
    if not wrong or any(not c.case.options for c in evidence.failing("normal")):
        return None
    return Diagnosis(
        "no_max",
        f"Right for log-sum-exps near 0, wrong in the case {wrong[0].case.name!r}: exp(100) is more than float32 "
        "holds, and exp(-200) is 0. Subtract the largest partial_lse of the row first, and add it to lse again.",
    )


def _level(evidence):
    lse = evidence.inputs["partial_lse"]
    finite = lse[torch.isfinite(lse)]
    return finite.max().item() if finite.numel() else 0.0


def _by_empty(evidence):
    """Right where every split has keys."""
    failing = evidence.failing()
    if not failing or any(not bool((c.inputs["partial_lse"] == NEG_INF).any()) for c in failing):
        return None
    first = failing[0]
    name, comparison = first.first_wrong
    row = comparison.index[0]
    said = f"{name} of row {row} is {comparison.got:.4g}, expected {comparison.expected:.4g}"
    if bool(_no_key(first)[row]) and _only_without_keys(failing):
        why = (
            "-inf minus -inf is NaN, and so is 0 / 0" if math.isnan(comparison.got) else "A sum of nothing is 0 exactly"
        )
        return Diagnosis(
            "all_empty",
            f"Right wherever a row has a key. In the case {first.case.name!r} all splits of row {row} are empty, so "
            f"out must be 0 and lse -inf; {said}. {why}.",
        )
    return _say_empty_splits(first, name, comparison, said)


def _only_without_keys(failing):
    """Whether no row that has a key is wrong in any of the cases."""
    return all(
        not bool((c.comparisons[n].wrong.reshape(len(c.ref["lse"]), -1).any(dim=1) & ~_no_key(c)).any())
        for c in failing
        for n in c.comparisons
        if c.comparisons[n].wrong is not None
    )


def _say_empty_splits(first, name, comparison, said):
    """Diagnosis of a wrong element in a row some of whose splits are empty; `said` names the element."""
    row = comparison.index[0]
    empty = first.inputs["partial_lse"][:, row] == NEG_INF  # (num_splits,)
    count, total = int(empty.sum()), len(empty)
    start = (
        f"Right where every split has keys. In the case {first.case.name!r} {count} of {total} splits of row {row} are "
        f"empty, partial_lse -inf, and {said}"
    )
    if not math.isfinite(comparison.got):
        return Diagnosis(
            "empty_split",
            f"{start}. The weight exp(-inf) is 0, but its partial_out may hold NaN or inf: 0 times NaN is NaN, and so "
            "is 0 times inf. Leave such a split out.",
        )
    if name == "out" and count + 1 < total and near(comparison.got, _plain_mean(first, comparison.index)):
        return Diagnosis(
            "plain_mean",
            f"{start}: that is the plain mean of the {total - count} others. They are weighed by exp(partial_lse) "
            "in this row too; an empty split only adds a weight of 0.",
        )
    return Diagnosis(
        "empty_split",
        f"{start}. An empty split weighs exp(-inf) = 0: the {total - count} others must give what they give alone.",
    )


def _plain_mean(evidence, index):
    """The mean of an element of partial_out over the splits of its row that have keys."""
    row, column = index
    with_keys = evidence.inputs["partial_lse"][:, row] > NEG_INF
    return evidence.inputs["partial_out"].double()[with_keys, row, column].mean().item()


def _no_key(evidence):
    return (evidence.inputs["partial_lse"] == NEG_INF).all(dim=0)
