"""Weights of four bits: how they are made from floats, packed and unpacked, and the exact product in float64.

May import: torch.
"""

import torch

STRETCH = 128  # numbers of a row that are packed together: four lanes of 16 bytes
ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # of the numbers in a word, from its lowest bits on


def quantise(weight, group=128):
    """(q, scales, zeros) of a weight (size_n, size_k): the range of each group of a row in 15 steps.

    q : (size_n, size_k) uint8, 0 to 15; scales : (size_k / group, size_n), dtype of `weight`; zeros : the same, uint8
    """
    parts = weight.float().unflatten(1, (-1, group))
    low, high = parts.amin(-1).clamp(max=0.0), parts.amax(-1).clamp(min=0.0)
    scales = ((high - low) / 15).clamp(min=1e-6).to(weight.dtype)
    zeros = torch.round(-low / scales.float()).clamp(0, 15)
    q = (torch.round(parts / scales.float()[..., None]) + zeros[..., None]).clamp(0, 15)
    return q.flatten(1).to(torch.uint8), scales.T.contiguous(), zeros.to(torch.uint8).T.contiguous()


def pack(q):
    """(size_n, 16 * ceil(size_k / 128)) int32 of q (size_n, size_k): eight numbers a word.

    A row is cut into stretches of 128, the last filled up with 0. Word 4 t + i of a stretch holds its numbers
    32 i + 8 t to 32 i + 8 t + 7: the 16 bytes of lane t are eight numbers of each 32, and word i of four lanes is of
    one group.
    """
    size_n, size_k = q.shape
    full = torch.nn.functional.pad(q, (0, -size_k % STRETCH)).view(size_n, -1, 4, 4, 8)  # (row, stretch, i, t, number)
    words = full.transpose(2, 3)[..., list(ORDER)].to(torch.int64)  # (row, stretch, t, i, place)
    packed = (words << torch.arange(0, 32, 4, device=q.device)).sum(-1)
    return torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32).view(size_n, -1)


def unpack(packed, size_k):
    """The q (size_n, size_k) uint8 of `pack`."""
    places = (packed.to(torch.int64)[..., None] >> torch.arange(0, 32, 4, device=packed.device)) & 15
    numbers = places.unflatten(-1, (2, 4)).transpose(-1, -2).reshape(len(packed), -1, 4, 4, 8)  # ORDER: even, then odd
    return numbers.transpose(2, 3).reshape(len(packed), -1)[:, :size_k].to(torch.uint8)


def dequantised(packed, scales, zeros, size_k):
    """The weights (size_n, size_k) in float64, exact."""
    group = size_k // len(scales)
    scales, zeros = (each.double().T.repeat_interleave(group, dim=1) for each in (scales, zeros))
    return (unpack(packed, size_k).double() - zeros) * scales


def product(x, packed, scales, zeros):
    """x w^T in float64."""
    return x.double() @ dequantised(packed, scales, zeros, x.shape[1]).T
