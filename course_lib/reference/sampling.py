"""Sampling by its definition in float64: sort a row, cut by top-k, top-p and min-p, run over the sums.

May import: torch.
"""

import torch

GREEDY = 1e-5  # a temperature below is 0
ENOUGH = 1.0 - 1e-6  # of top_p: what the rounding of floats may take from a sum


def kept_probabilities(logits, temperature, *, top_k=None, top_p=None, min_p=None):
    """(num_rows, num_cols) float64: the probabilities after the filters, normalised; 0 for what is dropped.

    Each row has its own numbers, tensors (num_rows,); equal logits stay or go together. A row of temperature 0 has 1 at
    its first maximum. Nothing comes to the host, so that a CUDA graph can record it.
    """
    x, num_cols = logits.double(), logits.shape[-1]
    first = torch.zeros_like(x).scatter_(-1, x.argmax(-1, keepdim=True), 1.0)
    greedy = _column(temperature, x) < GREEDY
    temperature = torch.where(greedy, 1.0, _column(temperature, x))
    order = torch.sort(x, descending=True).values
    least = torch.full_like(x[:, :1], -torch.inf)
    if top_k is not None:
        top_k = _column(top_k, x).long()
        last = order.gather(-1, (top_k - 1).clamp(0, num_cols - 1))
        least = torch.where((top_k > 0) & (top_k < num_cols), last, least)
    if top_p is not None:
        top_p = _column(top_p, x)
        kept = torch.softmax(torch.where(order >= least, order, -torch.inf) / temperature, dim=-1)
        reached = torch.cumsum(kept, dim=-1) >= top_p * ENOUGH
        last = order.gather(-1, reached.int().argmax(-1, keepdim=True))
        least = torch.where(top_p < 1.0, torch.maximum(least, last), least)
    probs, keep = torch.softmax(x / temperature, dim=-1), x >= least
    if min_p is not None:
        keep &= probs >= _column(min_p, x).clamp(max=1.0) * probs.amax(-1, keepdim=True)
    probs = torch.where(keep, probs, 0.0)
    return torch.where(greedy, first, probs / probs.sum(-1, keepdim=True))


def _column(numbers, like):
    return torch.as_tensor(numbers, device=like.device).double()[:, None]


def sample(probabilities, noise):
    """The first token of each row at which the running sum of its probabilities exceeds its noise."""
    return (torch.cumsum(probabilities, dim=-1) > noise.double()[:, None]).int().argmax(-1)
