"""Right answers to 06.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

# FlashAttention-2 order: Q outside, acc divided once.
Q_OUTSIDE = """import torch


def flash_attention_1(q, k, v, block_m, block_n):
    outs, lses = [], []
    for rows in q.split(block_m):
        m, l = torch.full((len(rows), 1), -torch.inf), torch.zeros(len(rows), 1)
        acc = torch.zeros_like(rows)
        for k_tile, v_tile in zip(k.split(block_n), v.split(block_n), strict=True):
            scores = rows * q.shape[1] ** -0.5 @ k_tile.T
            m_new = torch.maximum(m, scores.amax(dim=1, keepdim=True))
            p, alpha = torch.exp(scores - m_new), torch.exp(m - m_new)
            m, l, acc = m_new, l * alpha + p.sum(dim=1, keepdim=True), acc * alpha + p @ v_tile
        outs.append(acc / l)
        lses.append((m + l.log()).squeeze(1))
    return torch.cat(outs), torch.cat(lses)
"""

ANSWERS = [
    Right("Q outside, divided once", text=Q_OUTSIDE),
    Right(
        "K and V from right to left",
        (
            (
                "for kv_start in range(0, k.shape[0], block_n):",
                "for kv_start in reversed(range(0, k.shape[0], block_n)):",
            ),
        ),
    ),
    Right("half tiles", (("for kv_start in range", "block_n = max(block_n // 2, 1)\n    for kv_start in range"),)),
    Right(
        "base 2, at most four rows of queries at a time",
        (
            ("range(0, q.shape[0], block_m):", "range(0, q.shape[0], min(4, block_m)):"),
            ("slice(q_start, q_start + block_m)", "slice(q_start, q_start + min(4, block_m))"),
            (
                "probs_unnorm = torch.exp(scores - m_new[:, None])",
                "probs_unnorm = torch.exp2((scores - m_new[:, None]) * 1.4426950408889634)",
            ),
        ),
    ),
]
