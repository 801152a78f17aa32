"""What wrong losses and gradients of 12.3 look like, and the traffic of a right answer."""

import math

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.guesses import by_guess
from course_lib.grading.subjects.ledger.moved import moved

BEYOND = 0.375  # what lies between two rows
SURE_LOSS = 10.0  # the logarithm of a probability in float is right below it, with 1e-12 added too


def rows_of(case, tensors):
    """The logits, (num_rows, num_cols)."""
    return tensors["before"][0, :, : case.sizes["num_cols"]]


def ignored(case, tensors):
    """(num_rows,) bool."""
    return tensors["targets"] == case.options.get("ignore_index", -100)


def right(case, tensors, dtype=torch.float64, *, unit=1.0, padding=0, gradient=None, loss=None):
    """{"d_logits", "loss"}; the keywords make mistakes.

    unit : factor of every logit in the exponential
    padding : logits of 0 behind each row that are counted
    gradient : (probs, one_hot, scale) -> gradient, in place of the right one
    loss : (m, logit, l, scale) -> loss, in place of the right one
    """
    x, out = rows_of(case, tensors).to(dtype), ignored(case, tensors)
    x = torch.where(out[:, None], 0.0, x)
    scale = case.options.get("scale", 1.0)
    targets = torch.where(out, 0, tensors["targets"])[:, None]
    wide = torch.cat((x, torch.zeros(len(x), padding, dtype=dtype)), dim=1)
    m = wide.amax(1, keepdim=True)
    l = torch.exp(unit * (wide - m)).sum(1, keepdim=True)
    probs, one_hot = torch.exp(unit * (x - m)) / l, torch.zeros_like(x).scatter_(1, targets, 1.0)
    of_logits = gradient(probs, one_hot, scale) if gradient else (probs - one_hot) * scale
    logit = x.gather(1, targets)
    of_rows = loss(m, logit, l, scale) if loss else (m - logit) + torch.log(l)
    between = tensors["before"][0, :, case.sizes["num_cols"] :].to(dtype)
    of_logits = torch.cat((torch.where(out[:, None], 0.0, of_logits), between), dim=1)
    return {"d_logits": of_logits, "loss": torch.where(out, 0.0, of_rows[:, 0])}


def _tail(case):
    return -case.sizes["num_cols"] % case.options.get("block_n", 32)


_TABLE = (
    ("target_not_subtracted", "The gradient is the probability in every column: at the target it is probability - 1.",
     lambda c, t: right(c, t, gradient=lambda p, one, s: p * s)),
    ("gradient_sign", "The gradient has the other sign: it is probability - 1 at the target.",
     lambda c, t: right(c, t, gradient=lambda p, one, s: (one - p) * s)),
    ("scale_missing", "The gradient is that of grad_scale 1: multiply by the argument.",
     lambda c, t: right(c, t, gradient=lambda p, one, s: p - one)),
    ("scale_of_part", "Only the probability was multiplied by grad_scale, and not the 1 that is subtracted.",
     lambda c, t: right(c, t, gradient=lambda p, one, s: p * s - one)),
    ("gradient_at_target_alone", "The gradient is 0 beside the target; there it is the probability.",
     lambda c, t: right(c, t, gradient=lambda p, one, s: (p - 1.0) * one * s)),
    ("probability_in_place_of_gradient", "The target's column holds probability * (probability - 1), the others a "
     "product too: that is the derivative of the probability, not of its logarithm.",
     lambda c, t: right(c, t, gradient=lambda p, one, s: p * (p - one) * s)),
    ("loss_scaled", "The loss was multiplied by grad_scale, which is for the gradient alone.",
     lambda c, t: right(c, t, loss=lambda m, x, l, s: s * ((m - x) + torch.log(l)))),
    ("loss_sign", "The loss has the other sign: it is lse - logit, never below 0.",
     lambda c, t: right(c, t, loss=lambda m, x, l, s: -((m - x) + torch.log(l)))),
    ("loss_without_target", "The loss is the log-sum-exp alone: subtract the target's logit.",
     lambda c, t: right(c, t, loss=lambda m, x, l, s: m + torch.log(l))),
    ("loss_without_max", "The loss lacks the maximum: lse = m + log(l).",
     lambda c, t: right(c, t, loss=lambda m, x, l, s: torch.log(l) - x)),
    ("loss_base_2", "The logarithm of the loss is that of base 2: divide by log2(e), or use log.",
     lambda c, t: right(c, t, loss=lambda m, x, l, s: (m - x) + torch.log2(l))),
    ("loss_not_normalised", "The loss is m - logit: the logarithm of the sum is missing.",
     lambda c, t: right(c, t, loss=lambda m, x, l, s: m - x)),
    ("logit_overwritten", "The loss was made with the gradient in place of the target's logit. Load it before the "
     "gradient takes its place.",
     lambda c, t: _overwritten(c, t)),
    ("exp_base_2", "Weights are powers of 2, and not of e.", lambda c, t: right(c, t, unit=math.log(2.0))),
    ("tail_counted", "The end of the last tile was counted as logits of 0: load it as -inf.",
     lambda c, t: right(c, t, padding=_tail(c))),
)  # fmt: skip


def _overwritten(case, tensors):
    """The loss with the gradient of the target in place of its logit."""
    made = right(case, tensors)
    out = ignored(case, tensors)
    at = made["d_logits"].gather(1, torch.where(out, 0, tensors["targets"])[:, None])
    wrong = right(case, tensors, loss=lambda m, x, l, s: (m - at) + torch.log(l))
    return made | {"loss": wrong["loss"]}


def diagnose(evidence):
    """Diagnosis of a wrong result, or None."""
    looks = (_between, _ignored_rows, lambda e: by_guess(e, _TABLE), _loss_of_probability, _heights, _infinite)
    return next((found for look in looks if (found := look(evidence)) is not None), None)


def _ignored_rows(evidence):
    """A row that counts for nothing has a loss or a gradient."""
    for case in (case for case in evidence.failing() if case.ran):
        rows = ignored(case.case, case.inputs).nonzero().flatten().tolist()
        for row in rows:
            gradient = case.first.outputs["d_logits"][row, : case.case.sizes["num_cols"]]
            loss = case.first.outputs["loss"][row].item()
            if not bool((gradient == 0).all()) or loss != 0.0:
                what = f"its loss is {loss:.4g}" if loss != 0.0 else f"column 0 of its gradient is {gradient[0]:.4g}"
                return Diagnosis(
                    "ignored_row",
                    f"In the case {case.case.name!r} row {row} has the target {case.inputs['targets'][row]}, which is "
                    f"ignore_index, and {what}. Its loss and gradient are 0, whatever its logits hold, NaN too: "
                    "0 * NaN is NaN, so store zeros.",
                )
    return None


def _between(evidence):
    """Numbers between two rows changed."""
    for case in (case for case in evidence.failing() if case.ran):
        if not bool((case.first.outputs["d_logits"][:, case.case.sizes["num_cols"] :] == BEYOND).all()):
            return Diagnosis(
                "between_rows",
                f"In the case {case.case.name!r} the rows have {case.case.sizes['num_cols']} logits and are "
                f"{case.inputs['before'].shape[2]} apart; what lies between two of them has changed.",
            )
    return None


def _loss_of_probability(evidence):
    """Every gradient right, and only losses wrong whose target has a tiny probability."""
    failing = [case for case in evidence.failing() if case.ran]
    if not failing or not all(case.comparisons["d_logits"].passed for case in failing):
        return None
    wrong = [(case, case.comparisons["loss"].wrong) for case in failing]
    small = min(case.ref["loss"][rows].min().item() for case, rows in wrong if bool(rows.any()))
    right = [case.ref["loss"][~rows] for case, rows in wrong]
    if not SURE_LOSS <= small < math.inf or any(
        bool((losses[torch.isfinite(losses)] > 2 * small).any()) for losses in right
    ):
        return None
    case, row = failing[0], failing[0].comparisons["loss"].index[0]
    return Diagnosis(
        "loss_of_probability",
        f"Every gradient is right, and so are the losses below {small:.4g}. In the case {case.case.name!r} loss[{row}] "
        f"is {case.comparisons['loss'].got:.4g}, expected {case.comparisons['loss'].expected:.4g}: the target's "
        "probability is so small that rounding, or a number added to it, changes its logarithm. m + log(l) minus the "
        "logit needs no probability.",
    )


def _infinite(evidence):
    """Wrong only where whole tiles are -inf, or only where the target is."""
    failing = [case for case in evidence.failing() if case.ran]
    elsewhere = any(case.case.values == "leading_masked" for case in evidence.passing())
    if failing and elsewhere and all(bool(case.ref["loss"].isinf().any()) for case in failing):
        name, comparison = failing[0].first_wrong
        place = ", ".join(map(str, comparison.index))
        return Diagnosis(
            "target_at_minus_inf",
            f"Wrong only in the case {failing[0].case.name!r}, where the target's own logit is -inf: {name}[{place}] "
            f"is {comparison.got:.4g}, expected {comparison.expected:.4g}. Its probability is 0, so the loss is inf, "
            "and the gradient there is grad_scale * (0 - 1).",
        )
    if failing and all(case.case.values == "leading_masked" for case in failing):
        return Diagnosis(
            "masked_tiles",
            f"Wrong only in rows that begin with -inf (case {failing[0].case.name!r}): in their first tiles m is -inf, "
            "and -inf minus -inf is NaN. Shift by 0 as long as m is -inf; a lowest number in place of -inf counts too.",
        )
    return None


def _heights(evidence):
    """Wrong where the logits are high, low or change along the row, and right elsewhere."""
    failing = {case.case.values for case in evidence.failing() if case.ran}
    case = next((case for case in evidence.failing() if case.ran), None)
    if case is None or "normal" in failing and not {"rising", "falling", "normal"} & failing == {"rising", "normal"}:
        return None
    if failing == {"pm_10000"}:
        return Diagnosis(
            "lowest_number",
            f"Wrong only in the case {case.case.name!r}, which has logits below -10,000: is there a number such as "
            "-1e4 in place of -inf, before the first tile or behind the end of a row? It is no longer the smallest.",
        )
    if failing <= {"rising", "normal", "spikes", "minus_100", "pm_10000", "leading_masked"} and "rising" in failing:
        return Diagnosis(
            "l_not_rescaled",
            f"Wrong where the maximum rises from tile to tile and right where it falls (first in the case "
            f"{case.case.name!r}). When m grows, l so far must shrink by exp(m - m_new).",
        )
    if failing <= {"spikes", "minus_100", "pm_10000", "leading_masked"} and failing & {"minus_100", "pm_10000"}:
        return Diagnosis(
            "no_maximum",
            f"Wrong where all logits are far from 0 (case {case.case.name!r}) and right near 0. exp of 100 is infinite "
            "in float and exp of -110 is 0: subtract the largest logit first, and let m begin at -inf.",
        )
    return None


def bound(case):
    """Fewest bytes: the logits read twice, the gradient written once, a target, a logit and a loss for each row."""
    num_rows, num_cols = case.sizes.values()
    return num_rows * (12 * num_cols + 16), f"{num_rows * num_cols:,} logits read twice, as many gradients written"


def two_sweeps(case, ledger):
    """Diagnosis or None: logits are read twice, gradients and losses are written once."""
    num_rows, num_cols = case.sizes.values()
    used = num_rows - len(case.options.get("ignore", ()))
    why = "logits of rows that count are read twice, gradients and losses written once"
    read, written = 8 * used * num_cols + 12 * num_rows, 4 * num_rows * num_cols + 4 * num_rows
    return moved(case, ledger, read=read, written=written, why=why)
