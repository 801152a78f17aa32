"""FlashAttention-3: grouped heads, causal; a ring that wraps, and rows that see no key."""

from functools import partial

import torch

from .. import flash_attention_2
from .. import flash_attention_3 as ops
from . import Example, of_steps
from .inputs import heads, random


def examples(device):
    ladder = (ops.FAMILY, ops.VARIANTS, ops.plan)
    yield from of_steps(*ladder, heads(device, torch.float16, seq_len_kv=400), causal=True)
    wide = heads(device, torch.bfloat16, seq_len_q=150, seq_len_kv=90, head_dim=128)
    yield from of_steps(*ladder, wide, causal=True, case="bfloat16, head_dim 128, rows without keys")
    yield Example(ops.STEM_BACKWARD, "cuda", partial(_backward, heads(device, torch.float16)))
    many = heads(device, torch.float16, num_heads=8)  # four heads share keys: more tiles than the ring of Q holds
    yield Example(ops.STEM_BACKWARD, "cuda", partial(_backward, many), "four heads a head of keys")
    yield Example(ops.STEM_BACKWARD, "cuda", partial(_backward, wide), "bfloat16, head_dim 128, rows without keys")


def _backward(tensors):
    """After a forward pass whose stores the sanitizer's initcheck sees: those of TMA it does not."""
    out, lse = flash_attention_2.flash_attention_2(*tensors, causal=True)
    d_out = random(out.device, *out.shape, dtype=out.dtype, seed=3)
    return ops.plan_backward(*tensors, out, lse, d_out, causal=True)
