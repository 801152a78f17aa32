"""FlashAttention-3: grouped heads, causal; a ring that wraps, and rows that see no key."""

import torch

from .. import flash_attention_3 as ops
from . import of_steps
from .inputs import heads


def examples(device):
    ladder = (ops.FAMILY, ops.VARIANTS, ops.plan)
    yield from of_steps(*ladder, heads(device, torch.float16, seq_len_kv=400), causal=True)
    wide = heads(device, torch.bfloat16, seq_len_q=150, seq_len_kv=90, head_dim=128)
    yield from of_steps(*ladder, wide, causal=True, case="bfloat16, head_dim 128, rows without keys")
