"""Rotary positions by their definition in float64.

May import: torch.
"""

import torch


def rope(x, positions, rotary_dim, *, base=10000.0, interleaved=False, inverse=False):
    """Turn pair i of every head by the angle position * base^(-2 i / rotary_dim).

    Parameters
    ----------
    x : tensor, (num_tokens, num_heads, head_dim)
    positions : tensor, (num_tokens,), integers
    rotary_dim : int, how many of the head_dim numbers are turned; the rest stays
    interleaved : bool; pairs are (2 i, 2 i + 1), else (i, i + rotary_dim / 2)
    inverse : bool; turn back: the gradient

    Returns
    -------
    tensor, shape of x, float64
    """
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float64, device=x.device) / rotary_dim
    angles = positions.double()[:, None, None] * base**-exponents  # (num_tokens, 1, rotary_dim / 2)
    angles = -angles if inverse else angles
    out = x.double().clone()
    turned = out[..., :rotary_dim]
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = turned[..., : rotary_dim // 2], turned[..., rotary_dim // 2 :]
    a, b = first.clone(), second.clone()
    first.copy_(a * angles.cos() - b * angles.sin())
    second.copy_(b * angles.cos() + a * angles.sin())
    return out
