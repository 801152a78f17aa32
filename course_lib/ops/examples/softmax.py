"""Rows of 133 and of 1033 numbers, more than Triton reads at once; two sequences of 37 rows of scores."""

import torch

from .. import softmax as ops
from . import of_steps
from .inputs import random


def examples(device):
    lengths = torch.tensor([53, 20], dtype=torch.int32, device=device)
    for case, num_cols, num_keys in (("", 133, 53), ("1033 columns", 1033, 173)):
        x = random(device, 5, num_cols)
        scores = random(device, 2, 37, num_keys)

        def inputs(variant, x=x, scores=scores):
            if variant == "05_masked":
                return scores, lengths
            return (x.half() if variant == "04_log_sum_exp" else x,)

        yield from of_steps("softmax", ops.VARIANTS, ops.plan, inputs, case=case)
