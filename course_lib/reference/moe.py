"""A mixture of experts by its definition in float64, a token after the other.

May import: torch.
"""

import torch
import torch.nn.functional as F


def route(logits, top_k, *, renormalise=True):
    """(experts int64, weights float64), (num_tokens, top_k); the lower number first among equals."""
    probs = torch.softmax(logits.double(), dim=-1)
    weights, experts = torch.sort(probs, dim=-1, descending=True, stable=True)
    weights, experts = weights[:, :top_k], experts[:, :top_k]
    return experts, weights / weights.sum(-1, keepdim=True) if renormalise else weights


def grouped(x, w, experts, *, gather=False):
    """x[row] w[expert]^T in float64, for all pairs in the stable order of their experts."""
    order = torch.sort(experts.flatten(), stable=True).indices
    rows = x.double()[order // experts.shape[1]] if gather else x.double()
    chosen = experts.flatten()[order].tolist()
    return torch.stack([row @ w[expert].double().T for row, expert in zip(rows, chosen, strict=True)])


def moe(x, logits, w_up, w_down, *, top_k, renormalise=True):
    """The weighted sum of the SwiGLU experts of every token, float64."""
    experts, weights = route(logits, top_k, renormalise=renormalise)
    out = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for token, row in enumerate(x.double()):
        for expert, weight in zip(experts[token].tolist(), weights[token], strict=True):
            gate, up = (w_up[expert].double() @ row).chunk(2)
            out[token] += weight * (w_down[expert].double() @ (F.silu(gate) * up))
    return out
