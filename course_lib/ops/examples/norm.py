"""Rows of 133 numbers, of 1000 in bfloat16, of 2056 in float16 with strides; three of each."""

from functools import partial

import torch

from .. import norm as ops
from .. import norm_backward
from . import Example
from .inputs import random

CASES = (
    ("", 133, 133, torch.float32),
    ("1000 columns, bfloat16", 1000, 1000, torch.bfloat16),
    ("2056 of 2064 columns, float16", 2056, 2064, torch.float16),
)


def examples(device):
    for case, num_cols, stride, dtype in CASES:
        x, residual = (random(device, 3, stride, dtype=dtype, seed=seed)[:, :num_cols] for seed in (0, 1))
        weight, bias = (random(device, num_cols, dtype=dtype, seed=seed) for seed in (2, 3))
        plans = {
            "norm/01_rms_norm": partial(ops.plan_rms_norm, x, weight),
            "norm/02_layer_norm": partial(ops.plan_layer_norm, x, weight, bias),
            "norm/03_add_rms_norm": partial(_add, x, residual, weight),
            "norm/04_rms_norm_backward": partial(_walk, norm_backward.plan_rms_norm_backward, residual, x, weight),
            "norm/05_layer_norm_backward": partial(_walk, norm_backward.plan_layer_norm_backward, residual, x, weight),
            "norm/06_column_sums": partial(norm_backward.column_sums, random(device, 2, 70, num_cols, seed=4), dtype),
        }
        for stem, plan in plans.items():
            for language in ("cuda", "triton"):
                yield Example(stem, language, partial(plan, language=language), case)


def _walk(plan, d_out, x, weight, language):
    """The first launch of a gradient: three rows in two blocks."""
    return plan(d_out, x, weight, num_blocks=2, language=language).launches[0]


def _add(x, residual, weight, language):
    """The launch on tensors of its own, since it replaces them."""
    return ops.plan_add_rms_norm(x.clone(), residual.clone(), weight, language=language)
