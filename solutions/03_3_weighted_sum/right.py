"""Right answers to 03.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

TWO_PASSES = """import torch


def softmax_weighted_sum(scores, values, block_n):
    m = scores.amax(dim=1, keepdim=True)
    m = torch.where(m == -torch.inf, 0.0, m)
    l, acc = torch.zeros_like(m), torch.zeros(scores.shape[0], values.shape[1])
    for tile, rows in zip(scores.split(block_n, dim=1), values.split(block_n), strict=True):
        weights = torch.exp(tile - m)
        l += weights.sum(dim=1, keepdim=True)
        acc += weights @ rows
    return acc / l.clamp(min=1.0)
"""

NORMALISED_EVERY_TILE = """import torch


def softmax_weighted_sum(scores, values, block_n):
    lse = torch.full((scores.shape[0], 1), -torch.inf)
    out = torch.zeros(scores.shape[0], values.shape[1])
    for tile, rows in zip(scores.split(block_n, dim=1), values.split(block_n), strict=True):
        m = tile.amax(dim=1, keepdim=True).clamp(min=-1e30)
        weights = torch.exp(tile - m)
        lse_new = torch.logaddexp(lse, m + torch.log(weights.sum(dim=1, keepdim=True)))
        shift = torch.where(lse_new == -torch.inf, 0.0, lse_new)
        out = out * torch.exp(lse - shift) + (weights * torch.exp(m - shift)) @ rows
        lse = lse_new
    return out
"""

STATES_MERGED_AT_THE_END = """import torch


def softmax_weighted_sum(scores, values, block_n):
    states = []
    for tile, rows in zip(scores.split(block_n, dim=1), values.split(block_n), strict=True):
        m = tile.amax(dim=1)
        weights = torch.exp(tile - torch.where(m == -torch.inf, 0.0, m)[:, None])
        states.append((m, weights.sum(dim=1), weights @ rows))
    m, l, acc = (torch.stack(part) for part in zip(*states, strict=True))
    top = m.amax(dim=0)
    alpha = torch.exp(m - torch.where(top == -torch.inf, 0.0, top))
    l = (alpha * l).sum(dim=0)
    return torch.einsum("tr,trd->rd", alpha, acc) / torch.where(l > 0, l, 1.0)[:, None]
"""

NUMPY_TILES = """import numpy
import torch


def softmax_weighted_sum(scores, values, block_n):
    scores, values = scores.numpy(), values.numpy()
    m, l = numpy.full((len(scores), 1), -numpy.inf, "float32"), numpy.zeros((len(scores), 1), "float32")
    acc = numpy.zeros((len(scores), values.shape[1]), "float32")
    for start in range(0, scores.shape[1], block_n):
        tile = scores[:, start : start + block_n]
        m_new = numpy.maximum(m, tile.max(axis=1, keepdims=True))
        shift = numpy.where(numpy.isneginf(m_new), numpy.float32(0.0), m_new)
        alpha, weights = numpy.exp(m - shift), numpy.exp(tile - shift)
        l, acc = l * alpha + weights.sum(axis=1, keepdims=True), acc * alpha + weights @ values[start : start + block_n]
        m = m_new
    return torch.from_numpy(acc / numpy.where(l > 0, l, numpy.float32(1.0)))
"""

LAST_TILE_PADDED = """import torch


def softmax_weighted_sum(scores, values, block_n):
    num_rows, num_cols = scores.shape
    m, l = torch.full((num_rows,), -torch.inf), torch.zeros(num_rows)
    acc = torch.zeros(values.shape[1], num_rows)  # transposed
    for start in range(0, num_cols, block_n):
        missing = max(start + block_n - num_cols, 0)
        tile = torch.nn.functional.pad(scores[:, start : start + block_n], (0, missing), value=-torch.inf)
        rows = torch.nn.functional.pad(values[start : start + block_n], (0, 0, 0, missing))
        m_new = torch.maximum(m, tile.max(dim=1).values)
        finite = m_new.clamp(min=-3e38)
        weights = (tile - finite[:, None]).exp_()
        alpha = (m - finite).exp()
        l.mul_(alpha).add_(weights.sum(dim=1))
        acc.mul_(alpha).add_(rows.T @ weights.T)
        m = m_new
    return (acc / l.clamp(min=1.0)).T
"""

LOOP = "for start in range(0, num_cols, block_n):"

ROW_BY_ROW = """import torch


def softmax_weighted_sum(scores, values, block_n):
    num_rows, num_cols = scores.shape
    out = torch.zeros(num_rows, values.shape[1])
    for row in range(num_rows):
        m, l, acc = -torch.inf, 0.0, torch.zeros(values.shape[1])
        for start in reversed(range(0, num_cols, block_n)):
            tile = scores[row, start : start + block_n]
            m_new = max(m, tile.max().item())
            if m_new == -torch.inf:
                continue
            probs_unnorm, alpha = torch.exp(tile - m_new), torch.exp(torch.tensor(m - m_new))
            l = l * alpha + probs_unnorm.sum()
            acc = acc * alpha + probs_unnorm @ values[start : start + block_n]
            m = m_new
        out[row] = acc / l if m > -torch.inf else 0.0
    return out
"""

ANSWERS = [
    Right("row by row, from right to left", text=ROW_BY_ROW),
    Right("two passes", text=TWO_PASSES),
    Right("numpy, a tile at a time", text=NUMPY_TILES),
    Right("the last tile padded, acc transposed", text=LAST_TILE_PADDED),
    Right(
        "weights times values by broadcasting",
        (
            (
                "probs_unnorm @ values[start : start + block_n]",
                "(probs_unnorm[:, :, None] * values[start : start + block_n]).sum(dim=1)",
            ),
        ),
    ),
    Right("states merged at the end", text=STATES_MERGED_AT_THE_END),
    Right("normalised in every tile", text=NORMALISED_EVERY_TILE),
    Right("tiles from right to left", ((LOOP, "for start in reversed(range(0, num_cols, block_n)):"),)),
    Right("half tiles", ((LOOP, "block_n = max(block_n // 2, 1)\n    for start in range(0, num_cols, block_n):"),)),
    Right(
        "base 2",
        (
            ("torch.exp(m - shift)", "torch.exp2((m - shift) * 1.4426950408889634)"),
            ("torch.exp(tile - shift)", "torch.exp2((tile - shift) * 1.4426950408889634)"),
        ),
    ),
    Right(
        "double precision inside",
        (
            ("tile = scores[:, start : start + block_n]", "tile = scores[:, start : start + block_n].double()"),
            ("return acc / torch.where(l > 0, l, 1.0)", "return (acc / torch.where(l > 0, l, 1.0)).float()"),
            (
                "probs_unnorm @ values[start : start + block_n]",
                "probs_unnorm @ values[start : start + block_n].double()",
            ),
        ),
    ),
]
