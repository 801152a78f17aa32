"""A decode, an append, a request without tokens and a prefill in one launch, keys in pages of 3, cut and uncut."""

from functools import partial

import torch

from ..engine import AttentionEngine, MlaEngine
from ..engine.attention import QUANTISED, STEM, WGMMA
from ..engine.mla import MLA, ROW_DIM
from . import Example
from .inputs import byte_pools, paged_cache, random

NEW, LENGTHS, STARTS = (1, 5, 0, 40), (300, 70, 9, 40), [0, 1, 6, 6, 46]


def examples(device):
    for case, num_heads, head_dim, dtype in (
        ("", 4, 64, torch.float16),
        ("bfloat16, head_dim 128", 8, 128, torch.bfloat16),
    ):
        yield Example(STEM, "cuda", partial(_plan, device, num_heads, head_dim, dtype), case)
        yield Example(QUANTISED, "cuda", partial(_plan, device, num_heads, head_dim, dtype, kv_dtype=torch.int8), case)
        yield Example(STEM, "triton", partial(_plan, device, num_heads, head_dim, dtype, language="triton"), case)
        yield Example(WGMMA, "cuda", partial(_plan, device, num_heads, head_dim, dtype, products="wgmma"), case)
    sinks = {"sinks": torch.zeros(4, device=device), "window_left": 30, "score_mod": "soft_cap(score, 5.0f)"}
    yield Example(STEM, "cuda", partial(_plan, device, 4, 64, torch.float16, **sinks), "window, soft cap, sinks")
    masks = [
        torch.arange(new * keys).reshape(new, keys) % 3 > 0 for new, keys in zip(NEW, (300, 70, 9, 40), strict=True)
    ]
    masked = partial(_plan, device, 4, 64, torch.float16, masks=masks, custom_mask=True)
    yield Example(STEM, "cuda", masked, "custom masks")
    for case, num_heads, dtype in (("", 16, torch.float16), ("bfloat16, 128 heads", 128, torch.bfloat16)):
        yield Example(MLA, "cuda", partial(_plan_mla, device, num_heads, dtype), case)


def _plan(device, num_heads, head_dim, dtype, *, masks=None, **options):
    """The launch of one mix; the first request has two items, the others one."""
    cache = paged_cache(device, seq_lens=LENGTHS, num_heads=num_heads, head_dim=head_dim, dtype=dtype)
    num_kv_heads, quantised = cache[1].shape[2], options.get("kv_dtype") is not None
    pools = sum(byte_pools(device, cache[1]), []) if quantised else cache[1:3]
    engine = AttentionEngine(num_heads, num_kv_heads, head_dim, dtype=dtype, num_blocks=3, device=device, **options)
    engine.plan(STARTS, LENGTHS, cache[3], masks=masks)
    return engine.launch(random(device, STARTS[-1], num_heads, head_dim, dtype=dtype, seed=5), *pools)


def _plan_mla(device, num_heads, dtype):
    """Decode, append, a request without tokens and one without keys; more rows of heads than an item has."""
    lengths, starts = (300, 70, 9, 0), [0, 1, 6, 6, 7]
    _, pages, _, table, _ = paged_cache(device, seq_lens=lengths, head_dim=ROW_DIM, dtype=dtype)
    engine = MlaEngine(num_heads, dtype=dtype, num_blocks=3, device=device)
    engine.plan(starts, lengths, table)
    return engine.launch(random(device, starts[-1], num_heads, ROW_DIM, dtype=dtype, seed=5), pages[:, :, 0])
