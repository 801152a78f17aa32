"""Three sequences in pages of 3 tokens: reading them, writing into them, copying them, in 16 bits and in 8."""

from functools import partial

import torch

from .. import paged as ops
from .. import paged_prefill, paged_quantised
from . import Example, of_steps
from .inputs import byte_pools, paged_cache, random

SLOTS = 7, -1, 0, 5, 2  # of five new tokens; one is not stored


def examples(device):
    cases = ("", 4, 64, torch.float16), ("bfloat16, head_dim 128", 8, 128, torch.bfloat16)
    for case, num_heads, head_dim, dtype in cases:
        cache = paged_cache(device, num_heads=num_heads, head_dim=head_dim, dtype=dtype)
        yield from of_steps("paged", ops.DECODE_VARIANTS, ops.plan, cache, case=case, split_len=16)
        yield from _prefill(device, cache, case)
        yield from _writes(device, cache, case)
        yield from _bytes(device, cache, case)
    yield from _long_prefill(device)


def _both(stem, plan, case):
    return [Example(stem, language, partial(plan, language=language), case) for language in ("cuda", "triton")]


def _prefill(device, cache, case):
    """A sequence without new tokens, one with its last three, one with all forty."""
    starts = torch.tensor([0, 0, 3, 43], dtype=torch.int32, device=device)
    new = random(device, 43, *cache[0].shape[1:], dtype=cache[0].dtype, seed=5)
    inputs = (new, *cache[1:], starts)
    yield from of_steps("paged", paged_prefill.VARIANTS, paged_prefill.plan, inputs, case=case, max_seq_len_q=40)


def _long_prefill(device):
    """150 keys, which are several tiles, looked up a tile ahead; and whole tiles of rows that see none of 20 keys."""
    cache = paged_cache(device, seq_lens=(150, 20), head_dim=128)
    starts = torch.tensor([0, 50, 200], dtype=torch.int32, device=device)
    inputs = (random(device, 200, *cache[0].shape[1:], dtype=cache[0].dtype, seed=5), *cache[1:], starts)
    options = {"case": "several tiles, rows without keys", "languages": ("cuda",), "max_seq_len_q": 150}
    return of_steps("paged", ("09_tuned_prefill",), paged_prefill.plan, inputs, **options)


def _new_tokens(device, like):
    return [random(device, 5, *like.shape[2:], dtype=like.dtype, seed=seed) for seed in (3, 4)]


def _writes(device, cache, case):
    pools, slots = [pool.clone() for pool in cache[1:3]], torch.tensor(SLOTS, device=device)
    store = partial(ops.plan_reshape_and_cache, *_new_tokens(device, pools[0]), *pools, slots)
    copies = torch.tensor([[0, 4], [2, 1]], device=device)
    copy = partial(ops.plan_copy_pages, *(pool.clone() for pool in pools), copies)
    return [*_both("paged/01_reshape_and_cache", store, case), *_both("paged/07_copy_pages", copy, case)]


def _bytes(device, cache, case):
    pools, scales = byte_pools(device, cache[1])
    read = partial(paged_quantised.plan, cache[0], *pools, *scales, *cache[3:], split_len=16)
    own = [x.clone() for x in (*pools, *scales)]
    slots = torch.tensor(SLOTS, device=device)
    write = partial(paged_quantised.plan_write, *_new_tokens(device, cache[1]), *own, slots)
    return [*_both("paged/06_quantised_kv", read, case), *_both("paged/08_quantised_write", write, case)]
