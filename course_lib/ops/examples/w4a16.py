"""One token with 96 numbers in groups of 32, three with 384 in 64, eight with 2,176 in 128; ragged rows of weights.
Nine, 20 and 70 tokens in the three tiles of the product of many, and 20 and 70 by wgmma, in one block and in two."""

from functools import partial

import torch

from .. import w4a16 as ops
from . import Example
from .inputs import random


def examples(device):
    for num_tokens, size_n, size_k, group, dtype in (
        (1, 20, 96, 32, torch.float16),
        (3, 33, 384, 64, torch.bfloat16),
        (8, 17, 2176, 128, torch.float16),
        (9, 33, 640, 32, torch.bfloat16),
        (20, 33, 256, 64, torch.float16),
        (70, 140, 384, 128, torch.bfloat16),
    ):
        tensors = _tensors(device, num_tokens, size_n, size_k, group, dtype)
        case = "" if group == 32 else f"groups of {group}"
        if num_tokens <= ops.MAX_TOKENS:
            yield Example("w4a16/01_gemv", "cuda", partial(ops.plan, *tensors), case)
        else:
            tiles = next(tiles for tokens, tiles in ops.TILES.items() if tokens >= min(num_tokens, 64))
            yield Example("w4a16/02_gemm", "cuda", partial(ops.plan_gemm, *tensors, tiles=tiles), case)
    for num_tokens, num_splits, group in ((20, 1, 64), (70, 2, 128)):
        x, *weights = _tensors(device, num_tokens, 144, 384, group, torch.bfloat16)
        block_m = 32 if num_tokens < 32 else 128
        options = {"tiles": ops.WGMMA_TILES[block_m], "num_splits": num_splits}
        yield Example("w4a16/03_wgmma", "cuda", partial(ops.plan_wgmma, x, *weights, **options), f"groups of {group}")


def _tensors(device, num_tokens, size_n, size_k, group, dtype):
    """(x, packed, scales, zeros) of random weights."""
    x = random(device, num_tokens, size_k, dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    drawn = {"dtype": torch.uint8, "generator": generator, "device": "cpu"}
    q = torch.randint(0, 16, (size_n, size_k), **drawn)
    zeros = torch.randint(0, 16, (size_k // group, size_n), **drawn)
    scales = 0.01 * (1.0 + random(device, size_k // group, size_n, dtype=dtype).abs())
    return x, ops.pack(q.to(device)), scales, zeros.to(device)
