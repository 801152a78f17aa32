"""Kernels that no launcher makes: the accesses whose counters are read, the recordings, the bandwidths.

A row says how such a kernel is launched; benchmarks/counters/counter_cases.py launches the same with more sizes.
"""

from functools import partial

import torch

from . import Example
from .inputs import direct, random


def copies(n, factor=1, extra=0, width=1):
    """Arguments (x, out, n) of a global copy."""
    return lambda: (torch.arange((n * factor + extra) * width, dtype=torch.float32), torch.zeros(n * width), n)


def tiles(blocks, width=1):
    """Arguments (x, out) of a copy through shared memory."""
    n = 32 * blocks * width
    return lambda: (torch.arange(n, dtype=torch.float32), torch.zeros(n))


def divergent_rows():
    return torch.arange(128 * 40, dtype=torch.float32), torch.zeros(128), 40


def _indexed(num_out):
    """Arguments (x, index, out) of a read through a table, short numbers."""
    return lambda: (torch.arange(128).short(), _ints(32), torch.zeros(num_out, dtype=torch.int16))


def _ints(*shape):
    return torch.zeros(*shape, dtype=torch.int32)


def _words():
    return torch.arange(2048, dtype=torch.float32), torch.arange(32, dtype=torch.int32) * 3, torch.zeros(32)


def _chain():
    """(next, out, number of steps) of a pointer chase through 64 elements."""
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0), device="cpu")
    after = torch.empty(64, dtype=torch.int32)
    after[order] = order.roll(-1).to(torch.int32)
    return after, torch.zeros(2, dtype=torch.int64), 64


# (stem, grid, block, arguments, macros[, kernel])
LAUNCHES = (
    ("access/01_global_stride", 8, 128, copies(1024), {"STRIDE": 1}),
    ("access/02_global_offset", 8, 128, copies(1024, extra=1), {"OFFSET": 1}),
    ("access/03_global_vector", 8, 128, copies(1024, width=4), {}),
    ("access/04_shared_stride", 32, 32, tiles(32), {"STRIDE": 1}),
    ("access/05_shared_broadcast", 32, 32, tiles(32), {}),
    ("access/06_shared_vector", 32, 32, tiles(32, width=2), {}, "shared_float2_kernel"),
    ("access/06_shared_vector", 32, 32, tiles(32, width=4), {}, "shared_float4_kernel"),
    ("access/07_divergent_rows", 4, 32, divergent_rows, {}),
    ("access/08_shared_index", 1, 32, _indexed(32), {"ELEMENT": "short"}),
    ("access/09_global_index", 1, 32, _indexed(128), {"ELEMENT": "short"}),
    ("access/10_global_read", 1, 32, _words, {}),
    ("access/11_shared_read", 1, 32, _words, {}),
    (
        "bandwidth/01_shared_read", 2, 64, lambda: (torch.arange(1024.0), torch.zeros(128)), {"STRIDE": 3, "REPEATS": 8}
    ),
    ("bandwidth/02_pointer_chase", 1, 1, _chain, {}),
    ("vector/00_who", 3, 40, lambda: (_ints(120), _ints(120), _ints(120)), {}),
    ("reduction/00_tree_steps", 1, 8, lambda: (torch.arange(8.0), torch.zeros(4, 8)), {"BLOCK": 8}),
    (
        "reduction/04_rows_in_turn", 3, 64, lambda: (random("cpu", 7, 100), torch.zeros(7, 100), 7, 100), {"BLOCK": 64}
    ),
)  # fmt: skip


def examples(device):
    for stem, grid, block, make, defines, *kernel in LAUNCHES:
        plan = partial(direct, device, stem, grid, block, make, defines, *kernel)
        yield Example(stem, "cuda", plan, *kernel)
