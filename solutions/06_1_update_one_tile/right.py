"""Right answers to 06.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

# The tile becomes a state of its own first, and two states are merged.
MERGE = """import torch


def update(m, l, out, scores, values):
    tile_m = scores.amax(dim=1).clamp(min=-1e30)
    probs = torch.exp(scores - tile_m[:, None])
    tile_l = probs.sum(dim=1)
    m_new = torch.maximum(m, scores.amax(dim=1))
    shift = torch.nan_to_num(m_new, neginf=0.0)
    old, new = l * torch.exp(m - shift), torch.exp(torch.where(tile_l > 0, tile_m, m_new) - shift)
    l_new = old + new * tile_l
    acc = old[:, None] * out + new[:, None] * (probs @ values)
    return m_new, l_new, acc / l_new.clamp(min=1e-30)[:, None]
"""

ANSWERS = [
    Right("merge of two states", text=MERGE),
    Right(
        "base 2",
        (
            ("torch.exp(scores - shift[:, None])", "torch.exp2((scores - shift[:, None]) * 1.4426950408889634)"),
            ("torch.exp(m - shift)", "torch.exp2((m - shift) * 1.4426950408889634)"),
        ),
    ),
    Right(
        "exponentials of -inf replaced afterwards",
        (
            ("    shift = torch.where(m_new == -torch.inf, 0.0, m_new)\n", ""),
            (
                "torch.exp(scores - shift[:, None])",
                "torch.exp(scores - m_new[:, None]).nan_to_num(nan=0.0)",
            ),
            ("torch.exp(m - shift)", "torch.exp(m - m_new).nan_to_num(nan=0.0)"),
        ),
    ),
]
