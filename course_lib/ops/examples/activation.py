"""Rows of 133 numbers, of 1000 in bfloat16, of 4104 in float16 as halves of wider rows."""

from functools import partial

import torch

from .. import activation as ops
from . import Example
from .inputs import random

CASES = (
    ("", 133, torch.float32, "silu"),
    ("1000 columns, bfloat16", 1000, torch.bfloat16, "gelu_tanh"),
    ("4104 columns, float16", 4104, torch.float16, "silu"),
)


def examples(device):
    for case, num_cols, dtype, activation in CASES:
        both = 3.0 * random(device, 3, 2 * num_cols, dtype=dtype)
        d_out = random(device, 3, num_cols, dtype=dtype, seed=1)
        x, _ = both.chunk(2, dim=-1)
        plans = {
            "01_gelu_tanh": partial(ops.plan_gelu_tanh, x),
            "02_swiglu": partial(ops.plan_swiglu, both, activation=activation),
            "03_gelu_tanh_backward": partial(ops.plan_gelu_tanh_backward, d_out, x),
            "04_swiglu_backward": partial(ops.plan_swiglu_backward, d_out, both, activation=activation),
        }
        for step, plan in plans.items():
            for language in ("cuda", "triton"):
                yield Example(f"activation/{step}", language, partial(plan, language=language), case)
