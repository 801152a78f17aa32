"""What wrong sums and norms of 12.1 look like, and the traffic of a right answer."""

import torch

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.guesses import by_guess
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share

BEYOND = 7.25  # what lies between two rows of residual and out
SLACK = 8  # numbers of a thread beyond its even share, for answers that take 16 bytes at once


def rows_of(case, tensors):
    """(x, residual), each (num_rows, num_cols), without what lies between the rows."""
    num_cols = case.sizes["num_cols"]
    return tensors["x"][:, :num_cols], tensors["before"][0, :, :num_cols]


def _normed(formula):
    """An oracle for out alone: `formula(value, other, eps, weight)` with the sums, and x, in float64."""

    def guess(case, tensors):
        x, residual = (rows.double() for rows in rows_of(case, tensors))
        value = (residual + x).half().double()
        out = formula(value, (x, residual), case.options["eps"], tensors["weight"].double())
        gap = torch.full((len(out), case.options["gaps"][2]), BEYOND, dtype=torch.float64)
        return {"out": torch.cat((out, gap), dim=1)}

    return guess


def _rms(value, eps):
    return value / torch.sqrt(value.square().mean(1, keepdim=True) + eps)


def _centred(value):
    return value - value.mean(1, keepdim=True)


def _n_minus_1(value, eps):
    count = max(value.shape[1] - 1, 1)
    return value / torch.sqrt(value.square().sum(1, keepdim=True) / count + eps)


_GUESSES = [
    ("eps_outside", "It is what comes when eps is added to the root. It belongs under it: sqrt(mean + eps).",
     _normed(lambda v, _, eps, w: v / (v.square().mean(1, keepdim=True).sqrt() + eps) * w)),
    ("eps_missing", "It is what comes without eps, or with a constant one: add the argument to the mean.",
     _normed(lambda v, _, eps, w: _rms(v, 0.0) * w)),
    ("eps_constant", "It is what comes with an eps of 1e-5 whatever the argument says.",
     _normed(lambda v, _, eps, w: _rms(v, 1e-5) * w)),
    ("eps_constant", "It is what comes with an eps of 1e-6 whatever the argument says.",
     _normed(lambda v, _, eps, w: _rms(v, 1e-6) * w)),
    ("weight_missing", "It is the normalised row without weight.",
     _normed(lambda v, _, eps, w: _rms(v, eps))),
    ("weight_plus_one", "It is what comes with weight + 1: here weight is the whole factor.",
     _normed(lambda v, _, eps, w: _rms(v, eps) * (w + 1.0))),
    ("mean_subtracted", "It is what comes when the mean is subtracted, as LayerNorm does. RMSNorm subtracts nothing.",
     _normed(lambda v, _, eps, w: _rms(_centred(v), eps) * w)),
    ("mean_subtracted", "It is what comes when the root holds the variance. RMSNorm takes the mean of the squares.",
     _normed(lambda v, _, eps, w: v / torch.sqrt(_centred(v).square().mean(1, keepdim=True) + eps) * w)),
    ("sum_not_mean", "It is what comes with the sum of the squares; divide it by num_cols.",
     _normed(lambda v, _, eps, w: v / torch.sqrt(v.square().sum(1, keepdim=True) + eps) * w)),
    ("n_minus_1", "It is what comes with num_cols - 1: the mean divides by num_cols.",
     _normed(lambda v, _, eps, w: _n_minus_1(v, eps) * w)),
    ("root_missing", "It is what comes without the root: divide by sqrt(mean + eps).",
     _normed(lambda v, _, eps, w: v / (v.square().mean(1, keepdim=True) + eps) * w)),
    ("norm_of_x", "It is the norm of x alone: the sum is what is normalised.",
     _normed(lambda v, xr, eps, w: _rms(xr[0], eps) * w)),
    ("residual_stale", "It is the norm of the residual as it was before x was added.",
     _normed(lambda v, xr, eps, w: _rms(xr[1], eps) * w)),
    ("root_of_another", "The row is the sum, and the root that of x alone.",
     _normed(lambda v, xr, eps, w: v / torch.sqrt(xr[0].square().mean(1, keepdim=True) + eps) * w)),
    ("root_of_another", "The row is the sum, and the root that of residual + 2 x: residual was read again after the "
     "sum was written into it.",
     _normed(lambda v, xr, eps, w: v / torch.sqrt((v + xr[0]).square().mean(1, keepdim=True) + eps) * w)),
    ("root_of_another", "The row is the sum, and the root that of the residual before x was added.",
     _normed(lambda v, xr, eps, w: v / torch.sqrt(xr[1].square().mean(1, keepdim=True) + eps) * w)),
]  # fmt: skip


def diagnose(evidence):
    """Diagnosis of a wrong result, or None."""
    looks = (_between, _of_residual, lambda e: by_guess(e, _GUESSES), _half_sum)
    return next((found for look in looks if (found := look(evidence)) is not None), None)


def _between(evidence):
    """Numbers between the rows changed."""
    for case in (case for case in evidence.failing() if case.ran):
        for name, output in case.first.outputs.items():
            after = output[:, case.case.sizes["num_cols"] :]
            if after.numel() and not bool((after == BEYOND).all()):
                return Diagnosis(
                    "between_rows",
                    f"In the case {case.case.name!r} the rows of {name} are {output.shape[1]} numbers apart and have "
                    f"{case.case.sizes['num_cols']}; what lies between them has changed. Row r begins at r times the "
                    f"stride of {name}.",
                )
    return None


def _of_residual(evidence):
    """What stands in residual in place of the sum, in all cases."""
    failing = [case for case in evidence.failing() if case.ran and not case.comparisons["residual"].passed]
    if not failing:
        return None
    start = f"Case {failing[0].case.name!r}: residual"
    known = (
        (lambda c, x, r: r, "residual_stale", "still holds what it held before; write residual + x into it"),
        (lambda c, x, r: x, "residual_is_x", "holds x; write residual + x into it"),
        (lambda c, x, r: 2 * r + x, "added_twice", "holds 2 residual + x: it was added twice"),
        (lambda c, x, r: r + 2 * x, "added_twice", "holds residual + 2 x: x was added twice"),
        (lambda c, x, r: c.first.outputs["out"][:, : x.shape[1]].double(), "residual_is_out", "holds out, the norm; "
         "the next layer adds to the sum itself, before the norm"),
    )  # fmt: skip
    for what, code, words in known:
        if all(_holds(case, what) for case in failing):
            return Diagnosis(code, f"{start} {words}.")
    wrong = failing[0].comparisons["residual"].wrong
    got, want = failing[0].first.outputs["residual"][wrong].double(), failing[0].ref["residual"][wrong]
    if len(got.abs().unique()) == 1 and bool((got.abs() < want.abs()).all()) and got.abs().min() >= 1000:
        words = f"holds {got[0]:,.0f} where {want[0]:,.0f} is right. A half goes to 65,504, and nothing limits the sum"
        return Diagnosis("sum_limited", f"{start} {words}.")
    return None


def _holds(case, what):
    x, residual = (rows.double() for rows in rows_of(case.case, case.inputs))
    got = case.first.outputs["residual"][:, : x.shape[1]].double()
    return bool(torch.isclose(got, what(case, x, residual), rtol=2e-3, atol=1e-5).all())


def _half_sum(evidence):
    """Squares that a half does not hold: wrong where the numbers are large, and nowhere else."""
    failing = [case for case in evidence.failing() if case.ran]
    if not failing or not all(case.case.values in ("mean_1000", "large", "tiny") for case in failing):
        return None
    if not any(case.case.values in ("mean_1000", "large") for case in failing):
        return None
    comparison = failing[0].comparisons["out"]
    return Diagnosis(
        "half_sum",
        f"Wrong only where numbers are large or tiny (case {failing[0].case.name!r}: {comparison.got:.4g} in place "
        f"of {comparison.expected:.4g}). A half holds at most 65,504, and 1000 * 1000 is more: square, add up "
        "and multiply in float.",
    )


def bound(case):
    """Fewest bytes: x and residual read, residual and out written, 2 bytes each, and weight for each row."""
    count = case.sizes["num_rows"] * case.sizes["num_cols"]
    return 10 * count, f"{count:,} numbers of x and residual and as many of weight read, of residual and out written"


def one_sweep(case, ledger, block):
    """Diagnosis or None: every number is read once and written once, and the threads share the row."""
    count, cols = case.sizes["num_rows"] * case.sizes["num_cols"], case.sizes["num_cols"]
    why = "x, residual and weight are read once a row, residual and out are written once"
    found = moved(case, ledger, read=6 * count, written=4 * count, why=why)
    most = -(-cols // block) + SLACK
    return found or share(case, ledger, stored=4 * most, why=f"a thread has at most {most} columns")
