"""Diagnoses of attention, shared by every exercise that computes it.

The probes are those of exercise/probes.py: "key counter", "unity", "ramp" and, where an exercise has it, "stagnation".

May import: verdict, evidence (as data), diagnosis.
"""

import math

from ...judge.diagnosis import low_precision, worst_element
from ...report.verdict import Diagnosis

E = math.e
CLOSE = 2e-3  # relative; probe results of different mistakes are further apart
SECOND_HALF = E / (1.0 + E)  # weight of the second half of the keys when its scores are 1 higher


def near(value, target, close=CLOSE):
    """Equal up to `close`, relatively; NaN is near nothing."""
    return abs(value - target) <= close * abs(target)


def diagnose_attention(evidence):
    """Diagnosis of a failing attention, or None."""
    looks = (_by_unity, _by_keys, _by_slope, by_other_scale, _by_stagnation, _by_single_key)
    looks += (by_scores_limited, _by_size)
    return next((diagnosis for look in looks if (diagnosis := look(evidence)) is not None), None)


def _by_unity(evidence):
    """v = 1: every weighted mean is 1, whatever the weights."""
    reading = evidence.readings.get("unity")
    if reading is None or not math.isfinite(reading["sum"]) or near(reading["sum"], 1.0):
        return None
    got, count = reading["sum"], reading["num_keys"]
    ramp = evidence.readings.get("ramp")
    root = ramp["head_dim"] ** 0.5 if ramp else math.nan
    start = f"With v = 1 in all {count} keys every weighted mean is 1; here it is {got:.4g}"
    for value, code, words in _sums(reading, root):
        if near(got, value):
            return Diagnosis(code, f"{start}, {words}.")
    return Diagnosis("weights_sum", f"{start}. The weights must add up to 1.")


def _sums(reading, root):
    """[(the sum of the weights, code, words)]: what each mistake makes of 1."""
    count = reading["num_keys"]
    half = count / 2
    swapped = "the mean of k's first column. The weights come from q and k, and what they weigh are the rows of v"
    return (
        *((mean, "k_v_swapped", swapped) for mean in reading["means_of_k"]),
        (
            count,
            "softmax_axis",
            f"the number of keys: each weight is 1 by itself. The softmax ran along an axis of "
            f"length 1; it must run along the {count} keys",
        ),
        (half + half / E, "no_division", "the sum of exp(score - max): the weights were never divided by their sum"),
        (half + half * E, "no_division", "the sum of exp(score): the weights were never divided by their sum"),
        (
            1.0 / root,
            "scale_outside",
            f"1 / {root:g} = 1 / sqrt(head_dim): the weights were scaled. The scale belongs "
            "to the scores, before the softmax",
        ),
        (
            -half * math.log(half + half * E) - half * (math.log(half + half * E) - 1.0),
            "log_weights",
            "a negative number, the sum of the logarithms of the weights: log_softmax in place of softmax",
        ),
        (
            1.0 / count,
            "divided_twice",
            f"1 / {count}: after the weights were normalised, a mean was taken over the "
            "keys. The weights already add up to 1; sum",
        ),
    )


def _by_keys(evidence):
    """q = 0 and v = 1, 2, 3, …: all keys weigh the same, and the mean says how many there were."""
    seen, ramp = evidence.readings.get("key counter"), evidence.readings.get("ramp")
    case = next((p.case for p in evidence.exercise.probes if p.name == "key counter"), None)
    if seen is None or case is None:
        return None
    count = case.sizes["seq_len_kv"]
    start = (
        f"q = 0 and v = 1, 2, … {count}: all {count} keys weigh the same, and the mean is {(count + 1) / 2:g}; "
        f"here it is {(seen + 1) / 2:.4g}"
    )
    if math.isnan(seen) and ramp is not None and ramp["first"] == 0.0:
        return Diagnosis(
            "no_exponential",
            f"{start}. All scores are 0, so their sum is 0 and 0 / 0 is NaN: "
            "it is exp(score) that is divided by the sum of them, not the score.",
        )
    if math.isnan(seen) and ramp is not None and ramp["slope"] is not None and near(ramp["slope"], 1.0, 5e-3):
        return Diagnosis(
            "scale_from_values",
            f"{start}, and with q other than 0 the scores are right. Is something divided by a number that is made "
            "from q, such as its length? The scale is 1 / sqrt(head_dim), whatever q holds.",
        )
    if near(seen, count) or not math.isfinite(seen):
        return None
    if evidence.fails_only("zeros"):
        return Diagnosis(
            "equal_scores_apart",
            f"{start}; with scores that differ every result is right. Does a q of zeros, or scores that are all equal, "
            "take a way of its own? Equal scores get equal weights, as any others do.",
        )
    if near(seen, 1.0) and (ramp is None or 0.0 in (ramp["first"], ramp["second"])):
        return Diagnosis("one_key", f"{start}, as if one key had all the weight. Equal scores get equal weights.")
    if near(seen, count - 1):
        return Diagnosis("tail_dropped", f"{start}, the mean of the first {count - 1}: the last key is missing.")
    if near(seen, count + 1):
        return Diagnosis("head_dropped", f"{start}, the mean without the first key: it starts at key 1, not at key 0.")
    if near(seen, count, 1e-2):
        return None  # rounding, not counting
    if seen < count:
        return Diagnosis("keys_missing", f"{start}, as if {seen:.4g} keys had been seen. Every key takes part.")
    return Diagnosis("keys_wrong", f"{start}. Every key takes part once, with its own row of v.")


def _by_slope(evidence):
    """Half of the keys 1 higher: the ratio of the weights is e, and its logarithm 1."""
    reading = evidence.readings.get("ramp")
    if reading is None or reading["slope"] is None or near(reading["slope"], 1.0, 5e-3):
        return None
    slope, half, dim = reading["slope"], reading["num_keys"] // 2, reading["head_dim"]
    root = dim**0.5
    share = reading["second"] / (reading["first"] + reading["second"])
    start = (
        f"{half} keys with score 0 and {half} with score 1, head_dim {dim}: the second half must get "
        f"{SECOND_HALF:.4g} of the weight and gets {share:.4g}"
    )
    if abs(slope) < 1e-4:
        return Diagnosis("ignores_scores", f"{start}, as in a plain mean of v. The scores do not enter the result.")
    for value, code, words in _slopes(half, dim):
        if near(slope, value):
            return Diagnosis(code, f"{start}. {words}.")
    factor = slope / root
    return Diagnosis(
        "scale_wrong",
        f"{start}. That fits q · k times {factor:.4g}; it must be times 1 / sqrt({dim}) = {1 / root:.4g}.",
    )


def by_other_scale(evidence):
    """Right with softmax_scale = 1 / sqrt(head_dim), and with another one the scores are what that one gives."""
    ramp, other = evidence.readings.get("ramp"), evidence.readings.get("other scale")
    if not (ramp and other and ramp["slope"] and other["slope"]) or not near(ramp["slope"], 1.0, 1e-2):
        return None
    scale, dim = other["scale"], other["head_dim"]
    used = other["slope"] * scale
    if near(used, scale, 1e-2):
        return None
    start = f"With softmax_scale = {scale:g} and head_dim = {dim} the scores must be q · k times {scale:g}"
    if near(used, dim**-0.5, 1e-2):
        return Diagnosis(
            "scale_ignored",
            f"{start}; they are q · k times 1 / sqrt({dim}) = {dim**-0.5:.4g}: softmax_scale is ignored. The caller "
            "chooses it.",
        )
    return Diagnosis("scale_wrong", f"{start}; they are q · k times {used:.4g}.")


def _slopes(half, dim):
    """[(log of the ratio of the weights, code, words)]: what each mistake makes of 1."""
    root = dim**0.5
    flat = SECOND_HALF / half - (1.0 - SECOND_HALF) / half  # softmax of weights instead of scores
    return (
        (
            root,
            "scale_missing",
            f"That fits scores {root:g} times too large: q · k was not divided by sqrt({dim}) = {root:g}",
        ),
        (
            1.0 / root,
            "scale_twice",
            f"That fits scores {root:g} times too small: q · k was divided by {dim}. "
            f"Divide by sqrt({dim}) = {root:g}, and only once",
        ),
        (
            float(dim),
            "scale_inverse",
            f"That fits scores {dim} times too large: q · k was multiplied by "
            f"sqrt({dim}) = {root:g} instead of divided",
        ),
        (math.log(2.0), "exp_exp2_mix", "That fits 2 to the power of the score: exp2 needs its argument times log2(e)"),
        (-1.0, "sign", "The smaller the score, the larger the weight: a sign is turned round"),
        (flat, "softmax_twice", "That is the softmax of the weights: it was taken twice"),
    )


def _by_stagnation(evidence):
    """Thousands of equal keys: a sum in half precision stops growing."""
    got = evidence.readings.get("stagnation")
    if got is None or near(got, 1.0, 1e-4) or not math.isfinite(got):
        return None
    case = next(p.case for p in evidence.exercise.probes if p.name == "stagnation")
    count = case.sizes["seq_len_kv"]
    return Diagnosis(
        "half_accumulator",
        f"{count} equal keys with v = 1 must give 1; it gives {got:.4g}. A sum of "
        f"ones in half precision stops at 2048, in bfloat16 at 256: add in float.",
    )


def _by_single_key(evidence):
    """One key alone has all the weight: the result is its row of v, and nothing times that."""
    single = [
        case for case in evidence.failing("normal") if case.case.sizes.get("seq_len_kv") == 1 and case.elements > 4
    ]
    if not single or not single[0].ran or "out" not in single[0].ref:
        return None
    ratio = (single[0].first.outputs["out"].double() / single[0].ref["out"]).flatten()
    if not near(ratio.min().item(), ratio.max().item(), 1e-5) or near(ratio[0].item(), 1.0, 1e-6):
        return None
    return Diagnosis(
        "weights_sum",
        f"With a single key the result must be its row of v; it is {ratio[0].item():.6g} times that (case "
        f"{single[0].case.name!r}). The weights must add up to 1: is something added to their sum?",
    )


def _is_plain_mean(case):
    """Whether every row of the output is the mean of all rows of v, which has as many heads."""
    if not case.ran or "out" not in case.first.outputs or "v" not in case.inputs:
        return False
    out, mean = case.first.outputs["out"].double(), case.inputs["v"].double().mean(dim=-2)
    if out.dim() > mean.dim():
        mean = mean.unsqueeze(-2).expand(*mean.shape[:-1], out.shape[-2], mean.shape[-1])
    return out.shape == mean.shape and bool(((out - mean).abs() <= CLOSE * mean.abs().max()).all())


def by_scores_limited(evidence):
    """Right for ordinary scores, and the plain mean of v for large ones."""
    if evidence.failing("normal"):
        return None
    case = next((c for c in evidence.failing() if c.case.values.startswith(("plus_", "minus_", "spikes"))), None)
    if case is None or not _is_plain_mean(case):
        return None
    got, expected = worst_element(case)
    return Diagnosis(
        "scores_limited",
        f"Right for scores near 0; in the case {case.case.name!r} comes {got:.4g} instead of {expected:.4g}, the plain "
        "mean of v: scores that large are all taken for equal. Are they cut off at some number (clamp)? Subtract the "
        "largest score instead; then exp gets nothing above 0.",
    )


def _by_size(evidence):
    """Right for ordinary scores, wrong for large ones: what exp does without the maximum."""
    if evidence.failing("normal"):
        return None
    if evidence.fails_only("two_high"):
        got, expected = worst_element(evidence.failing()[0])
        return Diagnosis(
            "no_max",
            f"Right with one high score among small ones; with two, 1 apart and both above 100, comes {got:.4g} "
            f"instead of {expected:.4g}. exp(100) is more than float32 holds (its largest is about exp(88.7)), and an "
            "exponential that is cut off gives both the same weight. Subtract the largest score first.",
        )
    high = evidence.failing("plus_100") or evidence.failing("spikes") or evidence.failing("plus_12000")
    low = [case for case in evidence.failing() if case.case.values.startswith("minus_")]
    case = (high or low or [None])[0]
    if case is None:
        return None
    got, expected = worst_element(case)
    said = f"in the case {case.case.name!r} comes {got:.4g} instead of {expected:.4g}"
    if high and math.isfinite(got) and got != 0.0:
        if low_precision(evidence.failing()) is not None:  # which is asked later
            return None
        return Diagnosis(
            "large_scores",
            f"Right for scores near 0; {said}. That is no overflow of exp, which would leave inf, NaN or 0: what else "
            "happens to a score before its exponential is taken?",
        )
    if high:
        return Diagnosis(
            "no_max",
            f"Right for scores near 0; {said}. exp(100) is more than float32 holds (its largest "
            "is about exp(88.7)). Subtract the largest score first; the weights stay the same.",
        )
    return Diagnosis(
        "m_starts_too_high",
        f"Right for scores near 0 and near +100; {said}: what was subtracted is far "
        "above the largest score, so every exponential is 0 or nearly so.",
    )
