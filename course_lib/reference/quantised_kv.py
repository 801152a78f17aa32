"""Keys and values quantised to one byte: rounding, scales and the numbers they denote.

May import: torch, reference.paged.
"""

import torch

from . import paged

LARGEST = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}
SMALLEST_SCALE = 1e-4  # keeps the scale of a row of zeros above 0


def quantise(pages, dtype, *, layout="NHD", per="token"):
    """A pool in one byte a number, and its scales.

    Parameters
    ----------
    pages : tensor, "NHD": (num_pages, page_size, num_kv_heads, head_dim) or "HND"; NaN becomes 0
    dtype : torch.int8 or torch.float8_e4m3fn
    per : "token", a scale for each row, or "head", one for each head over the whole pool

    Returns
    -------
    small : tensor, shape of `pages`, `dtype`
    scales : tensor, (num_pages, page_size, num_kv_heads), float32, for either layout; expanded (strides 0) per head.
        ``small * scales`` is within half a step of ``pages``: scale / 2 in int8, 2^-4 of the number in e4m3
    """
    rows = paged.by_slot(pages, layout).float().nan_to_num(0.0, 0.0, 0.0)
    largest = rows.abs().amax(dim=3) if per == "token" else rows.abs().amax(dim=(0, 1, 3)).expand(rows.shape[:3])
    scales = _scales(largest, dtype)
    if per == "head":
        scales = scales[0, 0].contiguous().expand(rows.shape[:3])
    small = _rounded(rows, scales, dtype)
    return (small if layout == "NHD" else small.transpose(1, 2)).contiguous(), scales


def written(rows, small, scales, slot_mapping, *, layout="NHD", per="token"):
    """Copies of a quantised pool and its scales, with the rows of new tokens in their slots.

    Parameters
    ----------
    rows : tensor, (num_tokens, num_kv_heads, head_dim), any float dtype, finite
    small : tensor, the pool, int8 or float8_e4m3fn
    scales : tensor, (num_pages, page_size, num_kv_heads), float32, for either layout
    slot_mapping : tensor, (num_tokens,), int64: page * page_size + slot; a row with a negative slot is skipped
    per : "token", a scale for each row, which is written too, or "head", the scale already at the slot
    """
    stored = slot_mapping >= 0
    rows, slots = rows[stored].float(), slot_mapping[stored]
    small, scales = small.clone(), scales.clone() if per == "token" else scales
    pages, page_size = paged.by_slot(small, layout), scales.shape[1]
    page, slot = slots // page_size, slots % page_size
    if per == "token":
        scales[page, slot] = _scales(rows.abs().amax(dim=2), small.dtype)
    pages[page, slot] = _rounded(rows, scales[page, slot], small.dtype)
    return small, scales


def _scales(largest, dtype):
    """The scale that maps `largest` to the largest number of `dtype`.

    The divisor is a tensor on the same device: for a Python number, torch on CUDA multiplies by the rounded inverse.
    """
    return (largest / torch.full_like(largest, LARGEST[dtype])).clamp(min=SMALLEST_SCALE)


def _rounded(rows, scales, dtype):
    """Each number divided by its scale, rounded to the nearest of `dtype`, ties to even, saturating."""
    small = rows / scales[..., None]
    return (small.round() if dtype == torch.int8 else small).clamp(-LARGEST[dtype], LARGEST[dtype]).to(dtype)


def restored(small, scales, *, layout="NHD"):
    """The numbers that a quantised pool denotes, float64, in the same layout."""
    if layout == "NHD":
        return small.double() * scales.double()[..., None]
    return small.double() * scales.double().transpose(1, 2)[..., None]
