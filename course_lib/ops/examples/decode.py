"""Three sequences of up to 53 tokens: one empty, one short, one in several splits; two heads of keys."""

from functools import partial

import torch

from .. import decode as ops
from . import Example, of_steps
from .inputs import random

LENGTHS = 0, 17, 40


def examples(device):
    cases = ("", 4, 64, torch.float16), ("bfloat16, head_dim 128", 8, 128, torch.bfloat16)
    for case, num_heads, head_dim, dtype in cases:
        q = random(device, 3, num_heads, head_dim, dtype=dtype)
        k, v = (random(device, 3, 2, 53, head_dim, dtype=dtype, seed=seed) for seed in (1, 2))
        for b, length in enumerate(LENGTHS):
            k[b, :, length:] = v[b, :, length:] = torch.nan
        lengths = torch.tensor(LENGTHS, dtype=torch.int32, device=device)
        grouped = partial(ops.plan, q, k, v, lengths, num_splits=4, dependent=True)
        yield Example("decode/04_grouped_heads", "cuda", grouped, ", ".join(filter(None, (case, "dependent"))))
        yield from of_steps("decode", ops.VARIANTS, ops.plan, (q, k, v, lengths), case=case, num_splits=4)
