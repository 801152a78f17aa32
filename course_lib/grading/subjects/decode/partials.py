"""Partial results of splits, (partial_out, partial_lse): cases, inputs and their combination.

May import: spec, inputs, magnitude.
"""

import math

import torch

from ...exercise import inputs, magnitude
from ...exercise.spec import Case

NEG_INF = float("-inf")
SIZES = ("num_splits", "num_rows", "head_dim")
LONGEST_SPLIT = 40
STALE = (math.nan, math.inf, 1e30, 3.0)  # possible partial_out of a split without keys
FAR = 200.0  # between the scores of neighbouring rows, where a case asks for it
LOW = -12000.0  # below the numbers that people take for -inf
LOWEST = -(2.0**32)  # below the numbers that people take for -inf in float32
FAINT, FAINT_OUT = -21.0 * math.log(2.0), 32.0  # of all splits but the first; to add 2^-21 to 1 rounds nothing
FAINTER, FAINTER_OUT = -30.0 * math.log(2.0), 64.0  # lost in l beside 1, not in a sum of values
LARGE = 1e4  # times the values
SPARSE = 37  # splits from one with keys to the next


def case(name, num_splits, num_rows, head_dim, values="normal", schedules=(), **options):
    """A case; `values` names how the log-sum-exps of a row run along its splits."""
    sizes = dict(zip(SIZES, (num_splits, num_rows, head_dim), strict=True))
    return Case(name, sizes, values, options=options, schedules=schedules)


def partials(case, gen):
    """{"partial_out": (num_splits, num_rows, head_dim), "partial_lse": (num_splits, num_rows)}, float32.

    A split without keys has -inf, and its rows of partial_out are undefined. options: see `_log_sum_exps`, and
    options["large"]: values times LARGE.
    """
    num_splits, num_rows, head_dim = case.sizes.values()
    if "fixed" in case.options:
        out, lse = case.options["fixed"]
        return {"partial_out": torch.tensor(out)[:, None, :], "partial_lse": torch.tensor(lse)[:, None]}
    lse = _log_sum_exps(case, gen)
    out = inputs.normal((num_splits, num_rows, head_dim), "float32", gen)
    if case.options.get("faint"):
        values = torch.where(lse < FAINT - 1.0, FAINTER_OUT, torch.where(lse < 0.0, FAINT_OUT, 0.0))
        out = values[:, :, None].expand(out.shape).contiguous()
    if case.options.get("large"):
        out *= LARGE
    stale = torch.tensor(STALE)[torch.randint(len(STALE), lse.shape, generator=gen)]
    out = torch.where((lse == NEG_INF)[:, :, None], stale[:, :, None], out)
    return {"partial_out": out, "partial_lse": lse}


def _log_sum_exps(case, gen):
    """(num_splits, num_rows), along the splits as `case.values` says.

    options["far"]: the scores of neighbouring rows lie FAR apart. options["low"]: all scores are near LOW.
    options["empty_rows"]: every third row has no keys. options["sparse"]: one split in SPARSE has keys, the last one
    too. options["faint"]: 0 in the first split, FAINT and FAINTER in turn in all others; partial_out is 0, FAINT_OUT
    and FAINTER_OUT. options["lowest"]: LOWEST in one split, twice as low in all others, so that only one counts.
    options["peaks"]: the largest of row r is that of split peaks[r].
    """
    num_splits, num_rows, _ = case.sizes.values()
    split, row = torch.arange(num_splits)[:, None], torch.arange(num_rows)[None, :]
    if case.options.get("faint"):
        lse = torch.where(split % 2 == 1, FAINT, FAINTER) * (split > 0)
        return lse.expand(num_splits, num_rows).contiguous()
    if case.options.get("lowest"):
        top = torch.randint(num_splits, (num_rows,), generator=gen)
        return torch.where(split == top, LOWEST, 2.0 * LOWEST).contiguous()
    lse = inputs.scores(case.values, (num_rows, num_splits), "float32", gen).T.contiguous()
    lse += torch.log(torch.randint(1, LONGEST_SPLIT + 1, lse.shape, generator=gen).float())
    for r, peak in enumerate(case.options.get("peaks", ())):
        lse[:, r] = lse[:, r].roll(peak - int(lse[:, r].argmax()))
    if case.options.get("far"):
        lse += FAR * (row % 2 - 0.5)
    if case.options.get("low"):
        lse += LOW
    if case.options.get("empty_rows"):
        lse[:, ::3] = NEG_INF
    if case.options.get("sparse"):
        lse[(split % SPARSE != (num_splits - 1) % SPARSE).flatten()] = NEG_INF
    return lse


def combined(partial_out, partial_lse):
    """{"out", "lse"} in the dtype of the tensors."""
    m = partial_lse.amax(dim=0)
    shift = torch.where(m == NEG_INF, 0.0, m)
    weights = torch.exp(partial_lse - shift)
    l = weights.sum(dim=0)
    read = torch.where((partial_lse == NEG_INF)[:, :, None], 0.0, partial_out)
    out = (weights[:, :, None] * read).sum(dim=0) / torch.where(l > 0.0, l, 1.0)[:, None]
    return {"out": out, "lse": shift + torch.log(l)}


def largest_score(case, tensors):
    """Largest log-sum-exp; 0 where a single split counts: no rounding moves its weight of 1."""
    return 0.0 if case.options.get("lowest") else magnitude.largest(tensors["partial_lse"])


def unread(case, _tensors):
    """lse that far below 0 may be rounded as a number of that size: it is not compared."""
    return {"lse": torch.ones(case.sizes["num_rows"], dtype=torch.bool)} if case.options.get("lowest") else {}


def oracle(case, tensors):
    """In float64."""
    return combined(**{name: tensor.double() for name, tensor in tensors.items()})


def baseline(case, tensors):
    """In float32."""
    return combined(**tensors)


def outputs(case):
    """name -> (shape, dtype)."""
    _, num_rows, head_dim = case.sizes.values()
    return {"out": ((num_rows, head_dim), "float32"), "lse": ((num_rows,), "float32")}
