"""Right answers to 07.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

# Base 2, the scale folded into it; columns instead of vectors; tiles by split.
BASE_2 = """import math

import torch


def flash_attention_2(q, k, v, block_m, block_n):
    outs, lses, moved = [], [], 0
    for q_tile in q.split(block_m):
        scaled = q_tile * (math.log2(math.e) / math.sqrt(q.shape[1]))
        m2 = q_tile.new_full((len(q_tile), 1), -torch.inf)
        l, acc = torch.zeros_like(m2), torch.zeros_like(q_tile)
        for k_tile, v_tile in zip(k.split(block_n), v.split(block_n)):
            scores = scaled @ k_tile.T
            m_new = torch.maximum(m2, scores.amax(dim=1, keepdim=True))
            p, alpha = torch.exp2(scores - m_new), torch.exp2(m2 - m_new)
            m2, l, acc = m_new, l * alpha + p.sum(dim=1, keepdim=True), acc * alpha + p @ v_tile
            moved += k_tile.numel() + v_tile.numel()
        outs.append(acc / l)
        lses.append(((m2 + l.log2()) * math.log(2.0)).squeeze(1))
        moved += 2 * q_tile.numel() + len(q_tile)
    return torch.cat(outs), torch.cat(lses), moved
"""

ANSWERS = [
    Right("base 2", text=BASE_2),
    Right(
        "K and V from right to left",
        (
            (
                "for kv_start in range(0, k.shape[0], block_n):",
                "for kv_start in reversed(range(0, k.shape[0], block_n)):",
            ),
        ),
    ),
    Right(
        "queries from the last tile to the first",
        (
            (
                "for q_start in range(0, q.shape[0], block_m):",
                "for q_start in reversed(range(0, q.shape[0], block_m)):",
            ),
        ),
    ),
    Right(
        "counted by formula",
        (
            ("moved += q_tile.numel()", "moved += 2 * k.numel()"),
            ("moved += k_tile.numel() + v_tile.numel()", ""),
            ("moved += acc.numel() + l.numel()", "moved += 2 * q_tile.numel() + len(q_tile)"),
        ),
    ),
    Right(
        "l by a product with ones, acc in place",
        (
            ("l = l * alpha + probs_unnorm.sum(dim=1)", "l = l * alpha + probs_unnorm @ torch.ones(len(k_tile))"),
            (
                "acc = acc * alpha[:, None] + probs_unnorm @ v_tile",
                "acc.mul_(alpha[:, None]).addmm_(probs_unnorm, v_tile)",
            ),
        ),
    ),
    Right(
        "q taken in every turn as a view",
        (
            (
                "scores = q_tile @ k_tile.T * q.shape[1] ** -0.5  # (block_m, block_n) or fewer",
                "scores = torch.einsum('md,nd->mn', q[rows], k_tile) / q.shape[1] ** 0.5",
            ),
        ),
    ),
]
