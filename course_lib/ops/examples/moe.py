"""Two of five experts for 37 tokens, one expert without any; eight of 40 for 70 in bfloat16."""

from functools import partial

import torch

from .. import moe as ops
from . import Example
from .inputs import random


def examples(device):
    for num_tokens, num_experts, top_k, dtype in ((37, 5, 2, torch.float16), (70, 40, 8, torch.bfloat16)):
        logits = random(device, num_tokens, num_experts, dtype=dtype)
        logits[:, 3] = -20.0
        weights, experts = torch.topk(torch.softmax(logits.float().cpu(), -1), top_k)  # a GPU breaks ties otherwise
        weights, experts = weights.to(device), experts.int().to(device)
        pairs = _sorted(experts, num_experts, ops.BLOCK_M)
        x, w = random(device, num_tokens, 40, dtype=dtype), random(device, num_experts, 18, 40, dtype=dtype)
        y = random(device, experts.numel(), 33, dtype=dtype)
        case = "" if num_experts == 5 else "40 experts, bfloat16"
        yield Example("moe/01_route", "cuda", partial(ops.plan_route, logits, top_k), case)
        yield Example("moe/02_sort", "cuda", partial(ops.plan_sort, experts, num_experts), case)
        yield Example("moe/04_combine", "cuda", partial(ops.plan_combine, y, pairs.places, weights), case)
        yield Example("moe/03_grouped", "cuda", partial(ops.plan_grouped, x, w, pairs, gather=True), case)
        for block_m in ops.BLOCKS_M:
            tiled = _sorted(experts, num_experts, block_m)
            product = partial(ops.plan_grouped, x, w, tiled, gather=True, language="triton")
            yield Example("moe/03_grouped", "triton", product, ", ".join(filter(None, (case, f"{block_m} rows"))))


def _sorted(experts, num_experts, block_m):
    """What 02_sort gives, by torch."""
    order = torch.sort(experts.flatten(), stable=True).indices
    places = torch.empty_like(order).index_copy_(0, order, torch.arange(len(order), device=order.device))
    counts = torch.bincount(experts.flatten(), minlength=num_experts).tolist()
    starts = [sum(counts[:e]) for e in range(num_experts + 1)]
    tiles = [(e, starts[e] + i) for e in range(num_experts) for i in range(0, counts[e], block_m)] + [(-1, 0)]
    ints = partial(torch.tensor, dtype=torch.int32, device=order.device)
    return ops.Sorted(ints(starts), order.int(), places.int().view(experts.shape), ints(tiles), block_m)
