"""Rows of 33 logits, of 1000 in bfloat16 with smoothing, of 8200 in float16; the second row is ignored."""

from functools import partial

import torch

from .. import cross_entropy as ops
from . import Example
from .inputs import random

CASES = (
    ("", 33, torch.float32, 0.0),
    ("1000 classes, bfloat16, smoothed", 1000, torch.bfloat16, 0.1),
    ("8200 classes, float16", 8200, torch.float16, 0.0),
)


def examples(device):
    for case, num_cols, dtype, smoothing in CASES:
        logits = 3.0 * random(device, 3, num_cols, dtype=dtype)
        targets = torch.tensor([7, -100, num_cols - 1], device=device)
        lse = torch.logsumexp(logits.float(), dim=-1)
        d_loss = torch.tensor([0.5, 2.0, 1.5], device=device)
        options = {"label_smoothing": smoothing}
        back = {"out": torch.empty_like(logits)} | options
        for language in ("cuda", "triton"):
            loss = partial(ops.plan, logits, targets, language=language, **options)
            yield Example("cross_entropy/01_online", language, loss, case)
            gradient = partial(ops.plan_backward, d_loss, logits, targets, lse, language=language, **back)
            yield Example("cross_entropy/02_backward", language, gradient, case)
