"""Right answers to 09.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ONE_BY_ONE = """import torch


def combine(partial_out, partial_lse):
    out = torch.zeros_like(partial_out[0])
    lse = torch.full_like(partial_lse[0], -torch.inf)
    for i in reversed(range(len(partial_lse))):
        both = torch.logaddexp(lse, partial_lse[i])
        old, new = torch.exp(lse - both), torch.exp(partial_lse[i] - both)
        seen = (partial_lse[i] > -torch.inf)[:, None]
        old = torch.where(lse > -torch.inf, old, 0.0)[:, None]
        out = torch.where(seen, old * out + new[:, None] * partial_out[i], out)
        lse = both
    return out, lse
"""

ROW_BY_ROW = """import math
import torch


def combine(partial_out, partial_lse):
    rows, sums = [], []
    for row in range(partial_lse.shape[1]):
        keep = [s for s in range(len(partial_lse)) if partial_lse[s, row] != -math.inf]
        if not keep:
            rows.append(torch.zeros(partial_out.shape[2]))
            sums.append(torch.tensor(-math.inf))
            continue
        lse = partial_lse[keep, row]
        weights = torch.exp(lse - lse.max())
        rows.append(weights @ partial_out[keep, row] / weights.sum())
        sums.append(lse.max() + weights.sum().log())
    return torch.stack(rows), torch.stack(sums)
"""

PAIRS = """import torch


def combine(partial_out, partial_lse):
    out, lse = torch.where((partial_lse == -torch.inf)[:, :, None], 0.0, partial_out), partial_lse
    while len(lse) > 1:
        if len(lse) % 2:
            out = torch.cat([out, torch.zeros_like(out[:1])])
            lse = torch.cat([lse, torch.full_like(lse[:1], -torch.inf)])
        left, right = lse[::2], lse[1::2]
        lse = torch.logaddexp(left, right)
        shift = torch.where(lse == -torch.inf, 0.0, lse)
        out = torch.exp(left - shift)[:, :, None] * out[::2] + torch.exp(right - shift)[:, :, None] * out[1::2]
    return out[0], lse[0]
"""

READ = "torch.where(weights[:, :, None] > 0.0, partial_out, 0.0)"

ANSWERS = [
    Right("one split after the other, the last first", text=ONE_BY_ONE),
    Right("row by row, empty splits left out", text=ROW_BY_ROW),
    Right("neighbours in pairs, a tree", text=PAIRS),
    Right(
        "in float64",
        (
            ("m = partial_lse.amax(dim=0)", "partial_lse = partial_lse.double()\n    m = partial_lse.amax(dim=0)"),
            ("lse = shift + torch.log(l)", "out, lse = out.float(), (shift + torch.log(l)).float()"),
        ),
    ),
    Right(
        "a product over the splits, empty ones told by their values",
        (
            (READ, "torch.where(torch.isfinite(partial_out), partial_out, 0.0)"),
            ("(weights[:, :, None] * read).sum(dim=0)", 'torch.einsum("sr,srd->rd", weights, read)'),
        ),
    ),
    Right(
        "base 2",
        (
            ("torch.exp(partial_lse - shift)", "torch.exp2((partial_lse - shift) * 1.4426950408889634)"),
            ("shift + torch.log(l)", "shift + torch.log2(l) * 0.6931471805599453"),
        ),
    ),
]
