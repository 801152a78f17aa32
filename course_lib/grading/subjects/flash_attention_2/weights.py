"""Diagnosis of P and d_S of one query and one key, as d_q, d_k and d_v hold them.

The inputs are those of gradients.made_case.

May import: spec, verdict, gradients, pairs, diagnostics of attention.
"""

import math

from ...exercise.probes import OTHER_SCALE
from ...exercise.spec import Probe
from ...report.verdict import Diagnosis
from ..attention.diagnostics import near
from .gradients import HEAD_DIM, ROOT, made_case
from .pairs import columns_of, reading_of

LN_4 = math.log(4.0)
D_PROBS, ROW_DOT = 3.0, 0.75  # d_P and D of the pair that `say_d_scores` diagnoses


def one_probe(name, columns, options=None, **made):
    """One query and one key. Reading: output -> one number, from the column that `columns` names."""
    case = made_case(name, 1, 1, options=options, **made)
    return Probe(
        name, case, lambda _inputs, outputs: {key: one[0] for key, one in columns_of(outputs, columns).items()}
    )


def say_weight(readings, what):
    """Diagnosis from one recomputed weight, or None: lse = ln(4) and score 0, then lse = 0 and score 1.

    The probes "lse" and "score" read 1/4 and e when right.
    """
    with_lse, with_score = (reading_of(readings, name, what) for name in ("lse", "score"))
    if with_lse is None or with_score is None or math.isnan(with_lse) or math.isnan(with_score):
        return None
    start = f"score 0 and lse = ln(4) make a weight of exp(0 - ln(4)) = 0.25; {what} says {with_lse:.4g}"
    if near(with_lse, 1.0) and near(with_score, 1.0) and what != "d_v":
        return Diagnosis("weight_missing", f"{start}: P does not enter. d_S = P * (d_P - D).")
    for value, code, words in (
        (1.0, "lse_missing", "lse does not enter. exp(score) is not a weight yet: P = exp(score - lse)"),
        (4.0, "lse_sign", "lse was added; it is subtracted"),
        (2.0**-math.log(4.0), "exp_exp2_mix", "2 to the power of -lse: exp2 needs its argument times log2(e)"),
        (math.exp(-2.0), "lse_wrong_base", "lse was multiplied by log2(e), and then exp was taken, not exp2"),
    ):  # fmt: skip
        if near(with_lse, value):
            return Diagnosis(code, f"{start}: {words}.")
    root = HEAD_DIM**0.5
    start = f"score 1 and lse = 0 make a weight of e = 2.718, head_dim {HEAD_DIM}; {what} says {with_score:.4g}"
    for value, code, words in (
        (math.exp(root), "scale_missing_in_scores", "exp(q · k) without the scale that the forward pass used"),
        (math.exp(1.0 / root), "scale_twice_in_scores", "the scores were scaled twice"),
        (2.0, "exp_exp2_mix", "2 to the power of the score: exp2 needs its argument times log2(e)"),
        (1.0, "ignores_scores", "the score does not enter"),
        (math.exp(-1.0), "sign", "exp(-score)"),
    ):  # fmt: skip
        if near(with_score, value):
            return Diagnosis(code, f"{start}: {words}.")
    if near(with_lse, 0.25, 5e-3) and near(with_score, math.e, 5e-3):  # bfloat16 has eight bits
        return None
    return Diagnosis("weight_wrong", f"{start}. P = exp(score - lse).")


def scale_probe(columns):
    """`one_probe` with q · k = sqrt(head_dim) and a softmax_scale that is not 1 / sqrt(head_dim); for `say_scale`."""
    return one_probe("other scale", columns, {"scale": OTHER_SCALE}, score=1.0)


def say_scale(readings, what):
    """Diagnosis when the scores, or d_S, take 1 / sqrt(head_dim) whatever softmax_scale is, or None."""
    got, given = reading_of(readings, "other scale", what), OTHER_SCALE * ROOT
    if got is None or math.isnan(got):
        return None
    factor, probs = (1.0 if what == "d_v" else given), math.exp(given)
    if near(got, factor * probs):
        return None
    start = (
        f"q · k = {ROOT:.4g}, softmax_scale = {OTHER_SCALE:g} and lse = 0 make a weight of exp({given:.4g}) = "
        f"{probs:.4g}, and {what} must say {factor * probs:.4g}; it says {got:.4g}"
    )
    for value, where in ((factor * math.e, "the scores"), (probs, "d_S"), (math.e, "the scores and d_S")):
        if near(got, value):
            return Diagnosis(
                "scale_ignored",
                f"{start}, as with 1 / sqrt({HEAD_DIM}) = {1 / ROOT:.4g} in {where}: softmax_scale is ignored. The "
                "caller chooses it.",
            )
    return None


def say_local_row_dot(readings, what):
    """Diagnosis when D is the sum of P * d_P over the keys of a tile, which one key alone tells apart, or None.

    The probe "d_S" has P = 1 and d_P = 3, "score" P = e, d_P = 1 and out = 0: D is 3 and e then, not 0.75 and 0.
    """
    one, other = reading_of(readings, "d_S", what), reading_of(readings, "score", what)
    if one is None or other is None or not (abs(one) < 1e-3 and near(other, math.e * (1.0 - math.e))):
        return None
    return Diagnosis(
        "d_local",
        f"P = 1, d_P = {D_PROBS:g} and D = {ROW_DOT:g} make d_S = {D_PROBS - ROW_DOT:g}; {what} says 0, and with P = "
        f"e, d_P = 1 and D = 0 it says {other:.4g} = e (1 - e): D was made of P * d_P, over the keys of one tile. D is "
        "rowsum(d_out * out), which has all keys in it.",
    )


def say_d_scores(readings):
    """Diagnosis from d_S of one pair, as d_q and d_k hold it, or None: P = 1, d_P = 3, D = 0.75, so d_S = 2.25."""
    in_q, in_k = (reading_of(readings, "d_S", name) for name in ("d_q", "d_k"))
    if in_q is None or in_k is None or math.isnan(in_q) or math.isnan(in_k):
        return None
    right = D_PROBS - ROW_DOT
    for got, other, what in ((in_q, in_k, "d_q"), (in_k, in_q, "d_k")):
        if near(got, right):
            continue
        start = f"P = 1, d_P = {D_PROBS:g} and D = {ROW_DOT:g} make d_S = {right:g}; {what} says {got:.4g}"
        for value, code, words in _d_scores(right):
            if near(got, value):
                if code.startswith("scale") and near(other, right):
                    return Diagnosis(
                        "scale_in_one", f"{start}, the other one is right: {words}. Both d_q and d_k take it."
                    )
                return Diagnosis(code, f"{start}: {words}.")
    return None


def _d_scores(right):
    """[(d_S, code, words)]: what each mistake makes of it."""
    root = HEAD_DIM**0.5
    scaled = "the derivative of q · k * scale has the scale once"
    return (
        (D_PROBS, "d_missing", "D does not enter: d_S = P * (d_P - D)"),
        (D_PROBS + ROW_DOT, "d_sign", "D was added; it is subtracted"),
        (D_PROBS - ROW_DOT / root, "d_scaled", "D was multiplied by the scale; it belongs to the finished difference"),
        (D_PROBS - ROW_DOT * root, "d_scaled", "d_P was multiplied by the scale and D was not"),
        (D_PROBS - ROW_DOT / HEAD_DIM, "d_mean", f"D was divided by {HEAD_DIM}: a sum over the columns, no mean"),
        (D_PROBS - ROW_DOT**2, "d_wrong", "D = rowsum(d_out * out), not rowsum(out * out)"),
        (D_PROBS - 1.0, "d_wrong", "D = rowsum(d_out * out), not rowsum(d_out * d_out)"),
        (D_PROBS * ROW_DOT - ROW_DOT, "d_probs_wrong", "d_P = d_out v^T; out was taken for d_out"),
        (-right, "sign", "D - d_P in place of d_P - D"),
        (right * root, "scale_missing", f"{root:.3g} times too large: {scaled}"),
        (right / root, "scale_twice", f"{root:.3g} times too small: {scaled}"),
    )
