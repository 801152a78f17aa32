"""Keys and values of one byte: how they are rounded, and what they stand for.

May import: torch, reference.paged.
"""

import torch

from . import paged

LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}


def quantise(pages, dtype, *, layout="NHD", per="token"):
    """A pool in one byte a number, and the scales that undo it.

    Parameters
    ----------
    pages : tensor, "NHD": (num_pages, page_size, num_kv_heads, head_dim) or "HND"; what is NaN becomes 0
    dtype : torch.int8 or torch.float8_e4m3fn
    per : "token", a scale for each row, or "head", one for each head over the whole pool

    Returns
    -------
    small : tensor, shape of `pages`, `dtype`
    scales : tensor, (num_pages, page_size, num_kv_heads), float32, whatever the layout; with strides 0 per head
        ``small * scales`` is about ``pages``: off by half a step, scale / 2 in int8, 2^-4 of the number in e4m3
    """
    rows = paged.by_slot(pages, layout).float().nan_to_num(0.0, 0.0, 0.0)
    largest = rows.abs().amax(dim=3) if per == "token" else rows.abs().amax(dim=(0, 1, 3)).expand(rows.shape[:3])
    scales = (largest / LARGEST[dtype]).clamp(min=1e-4)
    if per == "head":
        scales = scales[0, 0].contiguous().expand(rows.shape[:3])
    small = rows / scales[..., None]
    small = (small.round() if dtype == torch.int8 else small).clamp(-LARGEST[dtype], LARGEST[dtype]).to(dtype)
    return (small if layout == "NHD" else small.transpose(1, 2)).contiguous(), scales


def restored(small, scales, *, layout="NHD"):
    """What a quantised pool stands for, float64, in the layout it came in."""
    if layout == "NHD":
        return small.double() * scales.double()[..., None]
    return small.double() * scales.double().transpose(1, 2)[..., None]
