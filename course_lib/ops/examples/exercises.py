"""Kernels of exercises that are steps of their own."""

from functools import partial

import torch

from .. import decode_exercises, matmul_exercises, paged_exercises
from . import Example
from .inputs import paged_cache, random


def examples(device):
    families = {"matmul_exercises": _matmul, "decode_exercises": _decode, "paged_exercises": _paged}
    for family, plans in families.items():
        for name, plan in plans(device).items():
            yield Example(f"{family}/{name}", "cuda", plan)


def _matmul(device):
    a, b = random(device, 37, 40), random(device, 40, 53, seed=1)
    halves = random(device, 32, 48).half(), random(device, 48, 24, seed=1).half()
    pairs = (a, b), (a, random(device, 45, 40)), halves
    return {
        variant: partial(matmul_exercises.plan, *pair, variant=variant)
        for variant, pair in zip(matmul_exercises.VARIANTS, pairs, strict=True)
    }


def _decode(device):
    """37 of 50 keys in splits of 16, four heads on two of keys; and 40 splits of three rows, a third of them empty."""
    q = random(device, 2, 4, 64, dtype=torch.float16)
    k, v = (random(device, 2, 2, 50, 64, dtype=torch.float16, seed=seed) for seed in (1, 2))
    k[:, :, 37:] = v[:, :, 37:] = torch.nan
    partial_out, partial_lse = random(device, 40, 3, 128), random(device, 40, 3, seed=1)
    partial_lse[::3], partial_out[::3] = -torch.inf, torch.nan
    split = partial(decode_exercises.plan_split, q, k, v, seq_len_kv=37, split_len=16)
    return {"01_split": split, "02_combine": partial(decode_exercises.plan_combine, partial_out, partial_lse)}


def _paged(device):
    """The cache of `paged_cache` in float with 32 columns; five new tokens, one of which is not stored."""
    q, k_pages, v_pages, *rest = (x.float() if x.dtype == torch.float16 else x for x in paged_cache(device))
    walk = (q[..., :32], k_pages[..., :32], v_pages[..., :32])
    fused = torch.arange(5 * 5 * 40, dtype=torch.int32, device=device).reshape(5, 5, 40)
    pools = [torch.zeros(3, 4, 2, 40, dtype=torch.int32, device=device) for _ in range(2)]
    slots = torch.tensor([7, -1, 0, 5, 2], device=device)
    small = (torch.zeros(3, 4, 2, 32, dtype=torch.int8, device=device), torch.zeros(3, 4, 2, device=device))
    return {
        "02_slot_mapping": partial(paged_exercises.plan_slot_mapping, fused[:, 1:3], fused[:, 3:5], *pools, slots),
        "03_warp_walk": partial(paged_exercises.plan_warp_walk, *(x.contiguous() for x in walk), *rest),
        "07_quantise": partial(paged_exercises.plan_quantise, random(device, 5, 2, 32, seed=6), *small, slots),
    }
