"""Five tokens at positions in no order: 3 heads of 24 numbers of which 20 turn, and 8 heads of 64 in 16 bits."""

from functools import partial

import torch

from .. import rope as ops
from . import Example
from .inputs import random

POSITIONS = 7, 0, 30, 30, 2
CASES = (
    ("", (3, 1, 24, 20), torch.float32, torch.int64),
    ("heads of 64, bfloat16", (8, 2, 64, 64), torch.bfloat16, torch.int32),
)


def examples(device):
    for case, (num_heads, num_kv_heads, head_dim, rotary_dim), dtype, index in CASES:
        q = random(device, 5, num_heads, head_dim, dtype=dtype)
        k = random(device, 5, num_kv_heads, head_dim, dtype=dtype, seed=1)
        inputs = q, k, torch.tensor(POSITIONS, dtype=index, device=device)
        table = ops.cos_sin_cache(31, rotary_dim, device=device)
        for style in (False, True):
            out = torch.empty_like(q), torch.empty_like(k)
            name = ", ".join(filter(None, (case, "interleaved" if style else "")))
            for language in ("cuda", "triton"):
                planned = partial(ops.plan, *inputs, table, interleaved=style, out=out, language=language)
                yield Example("rope/01_rope", language, planned, name)
