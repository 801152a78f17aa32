"""37 queries, 53 keys, grouped heads, causal: the ladder, its backward pass, and the kernel of one warp."""

from functools import partial

import torch

from .. import flash_attention_1, flash_attention_2
from ..flash_attention_2 import _triton as triton_launches
from . import Example, of_steps
from .inputs import direct, heads, random


def examples(device):
    first, ladder = flash_attention_2.VARIANTS[:1], flash_attention_2.VARIANTS[1:]
    family, plan = "flash_attention_2", partial(flash_attention_2.plan, causal=True)
    yield from of_steps(family, first, plan, heads(device, head_dim=24))
    halves = heads(device, torch.float16)
    yield from of_steps(family, first, plan, halves, case="float16", languages=("triton",))
    yield from of_steps(family, ladder, plan, halves)
    wide = heads(device, torch.bfloat16, head_dim=128)
    yield from of_steps(family, ladder, plan, wide, case="bfloat16, head_dim 128")
    keyless = heads(device, torch.float16, seq_len_q=150, seq_len_kv=20, head_dim=128)  # whole tiles of rows see no key
    yield from of_steps(family, ladder, plan, keyless, case="head_dim 128, rows without keys", languages=("cuda",))
    stem = flash_attention_2.STEM_BACKWARD
    yield Example(stem, "cuda", partial(_backward, "cuda", heads(device, head_dim=24)))
    yield Example(stem, "triton", partial(_backward, "triton", halves))
    yield Example("flash_attention_2_warp/01_warp_tile", "cuda", partial(_one_warp, device))


def _one_warp(device):
    """Two heads share one of k and v; no mask."""

    def make():
        q, k, v = heads("cpu", torch.float16)
        return q, k, v, torch.zeros_like(q), torch.zeros(q.shape[:3]), 2, 37, 53, 0.125

    return direct(device, "flash_attention_2_warp/01_warp_tile", (3, 4, 1), 32, make)


def _backward(language, tensors):
    out, lse = flash_attention_1.flash_attention_1(*(x.float() for x in tensors), causal=True)
    out = out.to(tensors[0].dtype)
    d_out = random(out.device, *out.shape, dtype=out.dtype, seed=3)
    if language == "cuda":
        return flash_attention_2.plan_backward(*tensors, out, lse, d_out, causal=True)
    options = {"causal": True, "softmax_scale": out.shape[3] ** -0.5}
    return triton_launches.plan_backward(*tensors, out, lse, d_out, **options)
