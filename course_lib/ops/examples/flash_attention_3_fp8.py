"""FlashAttention-3 in e4m3: the quantising kernels, and attention over what they give."""

from functools import partial

import torch

from ..flash_attention_3 import _fp8 as ops
from . import Example
from .inputs import heads


def examples(device):
    halves = heads(device, torch.float16, seq_len_kv=400)
    wide = heads(device, torch.bfloat16, seq_len_q=150, seq_len_kv=90, head_dim=128)
    for case, tensors in (("", halves), ("bfloat16, head_dim 128, rows without keys", wide)):
        yield Example(f"{ops.FAMILY_QUANTISE}/01_rotate_rows", "cuda", partial(_quantise, tensors, 0), case)
        yield Example(f"{ops.FAMILY_QUANTISE}/02_transpose_values", "cuda", partial(_quantise, tensors, 2), case)
        yield Example(ops.STEM_FP8, "cuda", partial(_attention, tensors), case)


def _quantise(tensors, number):
    """One of the three launches that quantise: of q (0), k (1), v (2)."""
    return ops.plan_quantise(*tensors).launches[number]


def _attention(tensors):
    """Attention over q, k and v, which are quantised here."""
    quantising = ops.plan_quantise(*tensors)
    quantising.run()
    return ops.plan_fp8(quantising.outputs, tensors[1].shape[2], tensors[0].dtype, causal=True)
