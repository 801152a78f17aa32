"""What the probes of a wrong matrix product say: how many products were summed, of which row and which column.

May import: notation, verdict, evidence (as data), diagnosis, torch.
"""

import math

import torch

from ....notation import UNIT_ROUNDOFF
from ...judge.diagnosis import runs_of
from ...report.verdict import Diagnosis

_ROUNDED = 0.02  # times the root of the squared products' sum; one product of 2,500 is as much


def diagnose_matmul(evidence, block_k):
    """Diagnosis of a failing product, or None.

    Parameters
    ----------
    block_k : int, numbers of k that a tile holds while the exercise is graded
    """
    sizes = next((probe.case.sizes for probe in evidence.exercise.probes if probe.name == "terms"), None)
    if sizes is None:
        return None
    looks = (
        lambda: _not_begun(evidence, sizes["size_k"], block_k),
        lambda: _by_terms(evidence.readings.get("terms"), sizes["size_k"], block_k),
        lambda: _by_axis(evidence.readings.get("rows"), sizes["size_k"], "row"),
        lambda: _by_axis(evidence.readings.get("columns"), sizes["size_k"], "column"),
        lambda: _by_identity(evidence.readings.get("identity")),
        lambda: _by_rounding(evidence),
        lambda: _by_infinite(evidence),
        lambda: _by_lost_nan(evidence),
        lambda: _by_limit_of_out(evidence),
    )
    return next((found for look in looks if (found := look()) is not None), None)


def _by_infinite(evidence):
    """Only where a number is infinite, and only where out is infinite: it met a 0 that is no number of a matrix."""
    failing = evidence.failing()
    if not failing or not evidence.fails_only("one infinite", "one infinite in b", "infinities that meet"):
        return None
    case = failing[0]
    out, wrong = case.first.outputs["out"], case.comparisons["out"].wrong
    if not bool(out[wrong].isnan().all()) or bool(case.ref["out"][wrong].isfinite().any()):
        return None
    return Diagnosis(
        "infinite_times_0",
        f"Right for finite numbers; in the case {case.case.name!r} out is NaN where it must be infinite: the infinite "
        "number was multiplied by a 0 from beyond the end of k. Is it still in one tile, from the step before, when "
        "the tail of the other holds 0? Beyond the end of k both must hold 0.",
    )


def _by_lost_nan(evidence):
    """Nearly right elsewhere; where infinities meet each other or a 0, some of out is not NaN."""
    case = next(iter(evidence.failing("infinities that meet")), None)
    others = [_share_of_products(other) for other in evidence.failing() if other is not case]
    if case is None or not case.comparisons or not max(others, default=0.0) <= 2.0 * UNIT_ROUNDOFF["bfloat16"]:
        return None
    lost = case.comparisons["out"].wrong & case.ref["out"].isnan()
    if not bool(lost.any()) or not others and not bool(torch.equal(lost, case.comparisons["out"].wrong)):
        return None
    row, col = (int(i) for i in lost.nonzero()[0])
    if bool(lost[1].any()):
        row, col = 1, int(lost[1].nonzero()[0])
        said = "an infinite number less another one makes NaN: a sum that is NaN was replaced."
    else:
        said = "0 times an infinite number makes NaN: a product with a factor 0 was left out."
        said += " All other errors are small: were products with small factors left out as well?" * bool(others)
    got = case.first.outputs["out"][row, col].item()
    return Diagnosis("nan_lost", f"In the case {case.case.name!r} out[{row}][{col}] is {got:g} where {said}")


def _by_limit_of_out(evidence):
    """All that is wrong has one size, and what is right is larger: a limit that out does not go beyond."""
    found, count, name = set(), 0, ""
    for case in evidence.failing():
        if not case.ran or not case.comparisons:
            return None
        wrong = case.comparisons["out"].wrong & ~case.ref["out"].isnan()
        got, right = case.first.outputs["out"].double()[wrong], case.ref["out"][wrong]
        if not bool(((got.abs() < right.abs()) & (got * right > 0)).all()):
            return None
        found.update(got.abs().tolist())
        count, name = count + got.numel(), name or case.case.name
    if len(found) != 1 or count < 2:
        return None
    return Diagnosis(
        "clamped",
        f"Each wrong number of out is {found.pop():g} or its negative where the right one is larger, up to infinite "
        f"(case {name!r}): out is held below a limit. It has none but that of its type.",
    )


def _not_begun(evidence, size_k, block_k):
    """Only where all is NaN with whole tiles as well: what a register holds may be NaN, and then it is no tail."""
    out = evidence.readings.get("terms")
    if out is None or not bool(out.isnan().all()):
        return None
    whole = (
        case
        for case in evidence.failing()
        if case.ran and case.case.sizes["size_k"] % block_k == 0 and bool(case.first.outputs["out"].isnan().all())
    )
    if (case := next(whole, None)) is None:
        return None
    return Diagnosis(
        "not_begun",
        f"With a and b full of ones and size_k = {size_k}, each number of out is NaN, and so it is in the case "
        f"{case.case.name!r}, where k has no tail. acc was not set to 0: it began with what the register held.",
    )


def _by_terms(out, size_k, block_k):
    """a and b full of ones: every number of out counts the products that went into it."""
    if out is None or bool((out == size_k).all()):
        return None
    start = f"With a and b full of ones and size_k = {size_k}, each number of out counts its products: "
    if bool(out.isnan().all()):
        return Diagnosis(
            "tail_unset",
            f"{start}NaN everywhere. Beyond the end of k a tile must hold 0 (in Triton: other=0.0); elements "
            "that are not written are undefined, and even 0 times NaN is NaN.",
        )
    if not bool((out == out.flatten()[0]).all()):
        return _uneven(out, size_k, start)
    count = out.flatten()[0].item()
    if count == block_k and size_k % block_k == 0:
        words = "one step alone. Does the loop reach size_k, and is the sum kept from step to step?"
        return Diagnosis("one_tile", f"{start}{count:g} everywhere. That is {words}")
    for value, code, words in _counts(size_k, block_k):
        if count == value:
            return Diagnosis(code, f"{start}{count:g} everywhere. That is {words}.")
    if count != count or abs(count) > 1e6:
        return Diagnosis(
            "not_begun", f"{start}{count:.3g} everywhere. acc was not set to 0: it began with what the register held."
        )
    return Diagnosis("terms", f"{start}{count:g} everywhere, where {size_k} is right.{_steps(count, size_k, block_k)}")


def _counts(size_k, block_k):
    """[(count, code, words)]: how many products each mistake adds up."""
    tiles = -(-size_k // block_k)
    last = size_k - (tiles - 1) * block_k  # numbers of k in the last tile
    return (
        (size_k - last, "k_tail_dropped", f"the whole tiles of {block_k} alone; the last {last} numbers of k are lost"),
        (last, "acc_not_kept", "the last tile alone. The sum must be kept from tile to tile: set it to 0 once"),
        (block_k, "one_tile", "one tile alone: the sums of the other tiles are missing in out"),
        (tiles * block_k, "tail_counted", f"{tiles} whole tiles of {block_k}: beyond size_k a tile must hold 0"),
        (2 * size_k, "counted_twice", "every product twice"),
        (
            0,
            "nothing_summed",
            "no sum: nothing was added, or each product replaced the one before, down to the zeros of the tail",
        ),
    )


def _steps(count, size_k, block_k):
    """What the count says of steps and tiles that do not fit together, as a sentence; empty if nothing."""
    for n in range(1, block_k):
        if count == sum(min(block_k, size_k - k) for k in range(0, size_k, n)):
            return f" That is what comes out when a tile holds {block_k} numbers of k and the loop goes on by {n}."
        if count == sum(min(n, size_k - k) for k in range(0, size_k, block_k)):
            return (
                f" That is what comes out when only the first {n} of each tile's {block_k} numbers of k are multiplied."
            )
    return ""


def _uneven(out, size_k, start):
    """Some numbers of out have another count than the others."""
    wrong = out != size_k
    row, col = (int(i) for i in wrong.nonzero()[0])
    got = out[row, col].item()
    text = f"{start}out[{row}][{col}] has {got:g}, {int(wrong.sum())} of {wrong.numel()} are wrong"
    rows, cols = (wrong.any(dim=dim).nonzero().flatten().tolist() for dim in (1, 0))
    where = f", in rows {runs_of(rows)} and columns {runs_of(cols)}"
    if got != got:
        text += f"{where}. It is not a number: some of what was multiplied was not written."
    elif got < size_k:
        text += f"{where}. Which part of the tile was 0, or not yet written?"
    else:
        text += f"{where}. Something was added that does not belong to it."
    return Diagnosis("terms_uneven", text)


def _by_axis(out, size_k, word):
    """Row numbers in a, or column numbers in b: out / size_k says which row or column went in."""
    if out is None:
        return None
    seen = out / size_k
    right = torch.arange(float(out.shape[0]))[:, None] if word == "row" else torch.arange(float(out.shape[1]))[None, :]
    wrong = ~((seen - right.double()).abs() <= 0.1 + 0.01 * right)
    if not bool(wrong.any()) or _is_rounded(seen, right.double().expand_as(seen)):
        return None
    row, col = (int(i) for i in wrong.nonzero()[0])
    got, matrix, index = seen[row, col].item(), "a" if word == "row" else "b", row if word == "row" else col
    start = f"Where every {word} of {matrix} holds its own number, out[{row}][{col}] / size_k must be {index}; "
    count = f"{int(wrong.sum())} of {wrong.numel()} numbers of out come from a wrong {word}"
    if got in range(max(out.shape)):
        said = f"it is {got:g}: this number was made from {word} {got:g} of {matrix}. {count}."
    else:
        said = f"it is {got:.4g}: a mixture of several {word}s of {matrix}. {count}."
    return Diagnosis(f"wrong_{word}", start + said)


def _by_identity(out):
    """a is the identity and b holds its own indices: out shows where each number of b went."""
    if out is None:
        return None
    right = 1.0 + torch.arange(float(out.numel()), dtype=torch.float64).reshape(out.shape)
    wrong = out != right
    if not bool(wrong.any()) or _is_rounded(out, right):
        return None
    row, col = (int(i) for i in wrong.nonzero()[0])
    got = out[row, col].item()
    start = f"With the identity for a, out must be b; out[{row}][{col}] "
    if got in range(1, out.numel() + 1):
        from_row, from_col = divmod(int(got) - 1, out.shape[1])
        said = f"holds b[{from_row}][{from_col}]: column {row} of a was multiplied by row {from_row} of b."
    else:
        said = f"is {got:.6g} where b holds {right[row, col].item():g}: a and b are not at the same k."
    return Diagnosis("k_mismatch", f"{start}{said} {int(wrong.sum())} of {wrong.numel()} numbers are wrong.")


def _by_rounding(evidence):
    """The errors are small beside the products that a sum adds up, if not beside the sum itself."""
    shares = [_share_of_products(case) for case in evidence.failing() if case.ran]
    if not shares or not max(shares) <= 2.0 * UNIT_ROUNDOFF["bfloat16"]:  # of both factors
        return None
    beyond = any(bool(_overflown(case).any()) for case in evidence.failing())
    where = "up to 65504, and infinite beyond it" if beyond else "everywhere"
    return Diagnosis(
        "low_precision",
        f"Nearly right {where}: no error is more than {max(shares):.1e} of the products, without their signs, that "
        f"a sum adds up. Rounding sums or factors to half leaves {UNIT_ROUNDOFF['float16']:.1e}, to bfloat16 "
        f"{UNIT_ROUNDOFF['bfloat16']:.1e}: compute in float.",
    )


def by_rounded_sums(evidence):
    """Diagnosis "low_precision" or None: every error is small beside what the products of a sum vary by.

    A sum without some of its products misses more: a fraction f of them is the root of f.
    """
    for case in evidence.failing():
        if not case.ran or not case.comparisons or not math.isfinite(case.comparisons["out"].max_error):
            return None
        squares = case.inputs["a"].double().square() @ case.inputs["b"].double().square()
        if not case.comparisons["out"].max_error <= _ROUNDED * squares.max().sqrt().item():
            return None
    return _by_rounding(evidence)


def _share_of_products(case):
    """Largest error of a case over the largest sum of |a b|; inf where there is no such number.

    An infinite number that half cannot hold is no error here.
    """
    elements = case.comparisons["out"].elements if case.comparisons else None
    if elements is None:
        return math.inf
    beyond = _overflown(case)
    if elements.pattern_ok is not None and not bool((elements.pattern_ok | beyond).all()):
        return math.inf
    error = elements.error.masked_fill(beyond, 0.0).max().item()
    a, b = (case.inputs[name].double().abs() for name in ("a", "b"))
    sums = a @ (b if b.shape[0] == a.shape[1] else b.T)
    return error / sums[torch.isfinite(sums)].max().item()


def _overflown(case):
    """Bool tensor: where out is infinite because half has no such number."""
    out, right = case.first.outputs["out"].double(), case.ref["out"]
    return out.isinf() & right.isfinite() & (right.abs() > 65504) & (out * right > 0)


def _is_rounded(out, right):
    """Whether numbers are the right ones with fewer bits: an eighth off at most, and powers of two as they are."""
    near = (out - right).abs() <= right.abs() / 8
    powers = torch.frexp(right)[0] == 0.5
    return bool(near.all()) and bool((out == right)[powers | (right == 0)].all())
