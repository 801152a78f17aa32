"""Right answers to 13.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ROW_BY_ROW = """import torch


def verify(draft_tokens, draft_probs, target_probs, accept_noise, draw_noise):
    batch_size, num_draft = draft_tokens.shape
    out = torch.full((batch_size, num_draft + 1), -1)
    for row in range(batch_size):
        weights = target_probs[row, num_draft]
        for place, token in enumerate(draft_tokens[row].tolist()):
            p, q = target_probs[row, place].double(), draft_probs[row, place].double()
            if not accept_noise[row, place] < p[token] / q[token]:
                weights = torch.relu(p - q)
                break
            out[row, place] = token
        else:
            place = num_draft
        cumulative = torch.cumsum(weights.double() / weights.double().sum(), 0)
        out[row, place] = int(torch.searchsorted(cumulative, draw_noise[row].double(), right=True))
    return out
"""

ANSWERS = [
    Right("row by row, by ratios, in float64", text=ROW_BY_ROW),
    Right(
        "residual as p - min(p, q)",
        (
            (
                "    weights = (target_probs - proposed)[rows, count].clamp(min=0.0)\n",
                "    weights = (target_probs - torch.minimum(target_probs, proposed))[rows, count]\n",
            ),
        ),
    ),
    Right(
        "normalised by softmax of the logarithms, first rejection by argmax",
        (
            (
                "    count = accepted.long().cumprod(dim=1).sum(dim=1)\n",
                "    count = F.pad(~accepted, (0, 1), value=True).int().argmax(dim=1)\n",
            ),
            (
                "    cumulative = weights.cumsum(dim=1)\n",
                "    weights = torch.softmax(weights.double().log(), dim=1)\n    cumulative = weights.cumsum(dim=1)\n",
            ),
        ),
    ),
]
