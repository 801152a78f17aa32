"""One, three and eight tokens; ragged columns and rows of weights, which stream or are under way at once; both norms,
GELU, SwiGLU, a token without a slot."""

from functools import partial

import torch

from .. import decode_linear as ops
from ..rope import cos_sin_cache
from . import Example
from .inputs import random


def examples(device):
    sizes = (1, 21, 96, torch.float16), (8, 10, 136, torch.bfloat16), (1, 6, 6160, torch.bfloat16)
    for num_tokens, size_n, size_k, dtype in sizes:
        x, weight, norm_weight, bias, residual = _tensors(device, num_tokens, size_n, size_k, dtype)
        case = "streams" if size_k > 6144 else "" if num_tokens == 1 else f"{num_tokens} tokens"
        planned = partial(ops.plan, x, weight, bias=bias, residual=residual)
        yield Example("decode_linear/01_linear", "cuda", planned, case)
        layer = {"norm": "layer", "norm_bias": norm_weight, "bias": bias, "activation": "gelu"}
        options = layer if case == "" else {"activation": "swiglu"}
        planned = partial(ops.plan_norm, x, norm_weight, weight, **options)
        yield Example("decode_linear/02_norm_linear", "cuda", planned, case)
    for num_tokens, norm, dtype in ((1, "layer", torch.float16), (3, "rms", torch.bfloat16)):
        x, weight, norm_weight, bias, _ = _tensors(device, num_tokens, 4 * 16, 72, dtype)
        caches = (torch.zeros(5, 1, 16, dtype=dtype, device=device) for _ in range(2))
        slots = torch.tensor([4, -1, 0], device=device)[:num_tokens]
        options = {"norm": "layer", "norm_bias": norm_weight, "bias": bias}
        if norm == "rms":
            positions = torch.tensor([3, 0, 7], dtype=torch.int32, device=device)
            options = {"positions": positions, "cos_sin": cos_sin_cache(8, 16, device=device)}
        planned = partial(ops.plan_qkv, x, norm_weight, weight, *caches, slots, num_heads=2, **options)
        yield Example("decode_linear/03_norm_qkv", "cuda", planned, "" if norm == "layer" else "turned")


def _tensors(device, num_tokens, size_n, size_k, dtype):
    """(x, weight, norm_weight, bias, residual)"""
    x, norm_weight = random(device, num_tokens, size_k, dtype=dtype), random(device, size_k, dtype=dtype, seed=1)
    weight = random(device, size_n, size_k, dtype=dtype, seed=2) / size_k**0.5
    return (
        x,
        weight,
        norm_weight,
        random(device, size_n, dtype=dtype, seed=3),
        random(device, num_tokens, size_n, dtype=dtype, seed=4),
    )
