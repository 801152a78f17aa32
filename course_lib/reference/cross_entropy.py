"""Cross-entropy of rows of logits by its definition in float64, and its gradient.

May import: torch.
"""

import torch


def cross_entropy(logits, targets, *, ignore_index=-100, label_smoothing=0.0):
    """(loss, lse) of every row, float64; 0 and 0 for an ignored row.

    loss = (1 - label_smoothing) * (lse - logit of the target) + label_smoothing * (lse - mean of the logits)
    """
    x, used = logits.double(), targets != ignore_index
    lse = torch.where(used, torch.logsumexp(x, dim=-1), 0.0)
    logit = x.gather(-1, torch.where(used, targets, 0)[:, None])[:, 0]
    smooth = label_smoothing * (lse - x.mean(-1)) if label_smoothing else torch.zeros_like(lse)
    return torch.where(used, (1.0 - label_smoothing) * (lse - logit) + smooth, 0.0), lse


def cross_entropy_backward(d_loss, logits, targets, *, ignore_index=-100, label_smoothing=0.0):
    """The gradient of the logits, float64; 0 in an ignored row."""
    x, used = logits.double(), targets != ignore_index
    wanted = torch.zeros_like(x).scatter_(-1, torch.where(used, targets, 0)[:, None], 1.0)
    wanted = (1.0 - label_smoothing) * wanted + label_smoothing / x.shape[-1]
    gradient = (torch.softmax(x, dim=-1) - wanted) * d_loss.double().expand(len(x))[:, None]
    return torch.where(used[:, None], gradient, 0.0)
