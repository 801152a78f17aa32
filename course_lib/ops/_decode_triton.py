"""Launches of the Triton twins of decode: tiles, splits, the second launch.

May import: ops.softmax and ops.first_kernels (the launches), ops.paged (its scratch), triton_kernels, torch.
"""

import torch

from .first_kernels import Launches
from .paged import scratch
from .softmax import Launch

BY_HEAD = {"num_warps": 1, "NUM_STAGES": 3}  # 01 to 03: sums over keys stay in a warp, no shared memory between
TILE = 1024  # 01 to 03: numbers of a tile of keys, 32 a thread
GROUPED = {"BLOCK_N": 32, "num_warps": 2, "num_stages": 3, "BLOCK_S": 64}  # 04
INTERPRETED = {"BLOCK_N": 128}  # an operation costs the interpreter a millisecond, however large the tile
BLOCK_S = 16  # splits that are merged at a time
BLOCKS_PER_SM = {"02_split_kv": 16, "03_fused_combine": 16, "04_grouped_heads": 2}  # the fastest on an H200


def plan(inputs, num_kv_heads, strides, scale, variant, longest, num_splits, tuning=None):
    """The launches of one decode variant, as `ops.decode.plan` has checked it; `tuning` replaces constants."""
    q = inputs[0]
    batch_size, num_heads, head_dim = q.shape
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    outputs = out, q.new_empty(q.shape[:2], dtype=torch.float32)
    group, shape = num_heads // num_kv_heads, {"BLOCK_N": TILE // head_dim} | BY_HEAD
    if variant == "04_grouped_heads":
        shape = {"NUM_Q_PER_KV": group, "BLOCK_S": BLOCK_S} | GROUPED
    constants = {"HEAD_DIM": head_dim} | shape | ({} if q.is_cuda else INTERPRETED) | (tuning or {})
    if variant == "01_single_pass":
        arguments = (*inputs, *outputs, group, *strides, scale)
        return Launch("triton", _load(variant), (num_heads, batch_size), 0, arguments, constants, outputs)
    heads = num_kv_heads if variant == "04_grouped_heads" else num_heads  # a block each, if there is one split
    num_splits = num_splits or _num_splits(q, heads, longest, variant)
    split_len = -(-longest // num_splits)
    *parts, counters = scratch(q, heads, num_splits)
    grid, merge = (num_heads, num_splits, batch_size), {"BLOCK_S": BLOCK_S}
    if variant == "02_split_kv":
        arguments = (*inputs, *parts, group, split_len, *strides, scale)
        first = Launch("triton", _load(f"{variant}/split"), grid, 0, arguments, constants, tuple(parts))
        arguments, constants = (*parts, *outputs, num_splits), {"HEAD_DIM": head_dim} | merge
        last = Launch("triton", _load(f"{variant}/combine"), grid[::2], 0, arguments, constants, outputs)
        return Launches((first, last), outputs)
    if variant == "03_fused_combine":
        arguments = (*inputs, *outputs, *parts, counters, group, split_len, *strides, scale)
        return Launch("triton", _load(variant), grid, 0, arguments, merge | constants, outputs)
    arguments = (*inputs, *outputs, *parts, counters, num_kv_heads, num_splits, split_len, *strides, scale)
    return Launch("triton", _load(variant), (batch_size * num_splits * num_kv_heads,), 0, arguments, constants, outputs)


def _num_splits(q, heads, longest, variant):
    from . import decode

    return decode.choose_num_splits(q.shape[0] * heads, longest, decode.places(q, BLOCKS_PER_SM[variant]))


def _load(step):
    from ..triton_kernels import load

    return load(f"decode/{step}")
