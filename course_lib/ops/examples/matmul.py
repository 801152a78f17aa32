"""(37 x 40) times (40 x 53), and where rows are copied 16 bytes at a time (40 x 56), and five tiles of k."""

from .. import matmul as ops
from . import of_steps
from .inputs import random

SMALL_TILES = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}  # several tiles, and nothing for autotune to time


def examples(device):
    for variant, (*_, dtype) in ops.STEPS.items():
        size_n = 56 if variant in ops.CHUNKED_VARIANTS else 53
        pair = random(device, 37, 40, dtype=dtype), random(device, 40, size_n, dtype=dtype, seed=1)
        yield from of_steps("matmul", (variant,), ops.plan_matmul, pair, languages=("cuda",))
        if variant in ops.CHUNKED_VARIANTS:  # rings wrap, and a stage is filled again
            deep = random(device, 37, 296, dtype=dtype), random(device, 296, size_n, dtype=dtype, seed=1)
            yield from of_steps(
                "matmul", (variant,), ops.plan_matmul, deep, case="five tiles of k", languages=("cuda",)
            )
        tiles = {"tiles": SMALL_TILES, "languages": ("triton",)}
        yield from of_steps("matmul", (variant,), ops.plan_matmul, pair, **tiles)
