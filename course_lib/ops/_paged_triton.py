"""Launches of the Triton twins over pages: tiles, splits, the second launch.

May import: ops.softmax and ops.first_kernels (the launches), triton_kernels, torch.
"""

import torch

from .first_kernels import Launches
from .softmax import Launch

BLOCK_N = 32  # keys of a tile of 02 and 03
GROUPED = {"BLOCK_N": 64, "num_warps": 2, "num_stages": 3}  # 04: the fastest of 11 shapes on an H200, with WAVES = 2
WAVES = 2
INTERPRETED = {"BLOCK_N": 128}  # an operation costs the interpreter a millisecond, however large the tile
BLOCK_S = 16  # partitions that the second launch merges at a time
PARTITION_LEN = 512


def plan(inputs, num_kv_heads, sizes, strides, scale, variant, longest, split_len, tuning=None):
    """The launches of one decode variant, as `ops.paged.plan` has checked it."""
    q, seq_lens = inputs[0], inputs[4]
    batch_size, num_heads, head_dim = q.shape
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    lse = q.new_empty(q.shape[:2], dtype=torch.float32)
    constants = {"HEAD_DIM": head_dim}
    if variant == "02_paged_v1":
        arguments = (*inputs, out, lse, num_heads // num_kv_heads, *sizes, *strides, scale)
        constants |= {"BLOCK_N": BLOCK_N}
        return Launch("triton", _load(variant), (num_heads, batch_size), 0, arguments, constants, (out, lse))
    if variant == "03_paged_v2":
        split_len = split_len or PARTITION_LEN
    elif split_len is None:
        split_len = _split_len(q, num_kv_heads, longest)
    num_splits = -(-longest // split_len)
    partial_out = q.new_empty(batch_size, num_heads, num_splits, head_dim, dtype=torch.float32)
    partial_lse = q.new_empty(batch_size, num_heads, num_splits, dtype=torch.float32)
    parts = (partial_out, partial_lse)
    if variant == "03_paged_v2":
        arguments = (*inputs, *parts, num_heads // num_kv_heads, *sizes, split_len, *strides, scale)
        grid, more = (num_heads, num_splits, batch_size), {"BLOCK_N": BLOCK_N}
    else:
        arguments = (*inputs, *parts, num_kv_heads, *sizes, num_splits, split_len, *strides, scale)
        grid = (batch_size * num_splits * num_kv_heads,)
        more = {"NUM_Q_PER_KV": num_heads // num_kv_heads} | (tuning or (GROUPED if q.is_cuda else INTERPRETED))
    first = Launch("triton", _load(f"{variant}/partition"), grid, 0, arguments, constants | more, parts)
    arguments = (*parts, seq_lens, out, lse, num_splits, split_len)
    constants = constants | {"BLOCK_S": BLOCK_S}
    last = Launch("triton", _load(f"{variant}/reduce"), (num_heads, batch_size), 0, arguments, constants, (out, lse))
    return Launches((first, last), (out, lse))


def plan_reshape_and_cache(arguments, pools):
    """The launch of 01_reshape_and_cache."""
    num_kv_heads, head_dim = arguments[5:7]
    constants = {"BLOCK": 1 << (num_kv_heads * head_dim - 1).bit_length()}
    function, grid = _load("01_reshape_and_cache"), (arguments[0].shape[0],)
    return Launch("triton", function, grid, 0, arguments, constants, pools)


def _split_len(q, num_kv_heads, longest):
    from . import paged

    return paged.choose_split_len(q.shape[0] * num_kv_heads, longest, paged.places(q), WAVES)


def _load(step):
    from ..triton_kernels import load

    return load(f"paged/{step}")
