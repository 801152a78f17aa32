"""Four rows, one greedy, one with every filter: 5 tokens, 1000 in bfloat16, 9001 in float16; all greedy and counted."""

from functools import partial

import torch

from .. import sampling as ops
from . import Example
from .inputs import random


def examples(device):
    for num_cols, dtype in ((5, torch.float32), (1000, torch.bfloat16), (9001, torch.float16)):
        logits = 3.0 * random(device, 4, num_cols, dtype=dtype)
        temperature, noise = (torch.tensor(x, device=device) for x in ((0.0, 0.7, 1.0, 1.5), (0.1, 0.4, 0.0, 0.999)))
        filters = {
            "top_k": torch.tensor([0, 3, 0, 50], dtype=torch.int32, device=device),
            "top_p": torch.tensor([1.0, 0.8, 0.9, 1.0], device=device),
            "min_p": torch.tensor([0.0, 0.05, 0.0, 0.1], device=device),
        }
        case = "" if num_cols == 5 else f"{num_cols} tokens"
        yield Example("sampling/01_pivots", "cuda", partial(ops.plan, logits, temperature, noise, **filters), case)
    counts = torch.zeros(24, dtype=torch.int32, device=device)
    history = torch.zeros(2, 4, dtype=torch.int64, device=device)
    counted = partial(ops.plan, random(device, 4, 1000), counts=counts, history=history)
    yield Example("sampling/01_pivots", "cuda", counted, "counted")
