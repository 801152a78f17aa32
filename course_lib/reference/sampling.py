"""Sampling by its definition in float64: sort a row, cut by top-k, top-p and min-p, run over the sums.

May import: torch.
"""

import torch

GREEDY = 1e-5  # a temperature below is 0
ENOUGH = 1.0 - 1e-6  # of top_p: what the rounding of floats may take from a sum


def kept_probabilities(logits, temperature, *, top_k=None, top_p=None, min_p=None):
    """(num_rows, num_cols) float64: the probabilities after the filters, normalised; 0 for what is dropped.

    Each row has its own numbers; equal logits stay or go together. A row of temperature 0 has 1 at its first maximum.
    """
    result = torch.zeros(logits.shape, dtype=torch.float64, device=logits.device)
    for row, x in enumerate(logits.double()):
        numbers = [None if each is None else each[row].item() for each in (temperature, top_k, top_p, min_p)]
        result[row] = _of_row(x, *numbers)
    return result


def _of_row(x, temperature, top_k, top_p, min_p):
    if temperature < GREEDY:
        return torch.zeros_like(x).index_fill_(0, x.argmax(), 1.0)
    probs = torch.softmax(x / temperature, dim=-1)
    order = torch.sort(x, descending=True).values
    least = -torch.inf
    if top_k is not None and 0 < top_k < len(x):
        least = order[top_k - 1]
    if top_p is not None and top_p < 1.0:
        kept = torch.softmax(torch.where(order >= least, order, -torch.inf) / temperature, dim=-1)
        reached = torch.cumsum(kept, dim=-1) >= top_p * ENOUGH
        least = torch.maximum(torch.as_tensor(least, device=x.device), order[reached.int().argmax()])
    keep = x >= least
    if min_p is not None:
        keep &= probs >= min(min_p, 1.0) * probs.max()
    probs = torch.where(keep, probs, 0.0)
    return probs / probs.sum()


def sample(probabilities, noise):
    """The first token of each row at which the running sum of its probabilities exceeds its noise."""
    return (torch.cumsum(probabilities, dim=-1) > noise.double()[:, None]).int().argmax(-1)
