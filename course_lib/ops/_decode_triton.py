"""Launches of the Triton twins of decode: tiles, splits, the second launch.

May import: ops._foundation.
"""

from ._foundation.launch import Launches, interprets, triton_launch
from ._foundation.sizes import attention_outputs, ceil_div
from ._foundation.splits import choose_num_splits, scratch, slots

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
    outputs = attention_outputs(q)
    group, shape = num_heads // num_kv_heads, {"BLOCK_N": TILE // head_dim} | BY_HEAD
    if variant == "04_grouped_heads":
        shape = {"NUM_Q_PER_KV": group, "BLOCK_S": BLOCK_S} | GROUPED
    constants = {"HEAD_DIM": head_dim} | shape | (INTERPRETED if interprets(q) else {}) | (tuning or {})
    stem = f"decode/{variant}"
    if variant == "01_single_pass":
        arguments = (*inputs, *outputs, group, *strides, scale)
        return triton_launch(stem, (num_heads, batch_size), arguments, constants, outputs)
    heads = num_kv_heads if variant == "04_grouped_heads" else num_heads  # a block each, if there is one split
    if num_splits is None:
        num_splits = choose_num_splits(batch_size * heads, longest, slots(q, BLOCKS_PER_SM[variant]))
    split_len = ceil_div(longest, num_splits)
    *parts, counters = scratch(q, heads, num_splits)
    grid, merge = (num_heads, num_splits, batch_size), {"BLOCK_S": BLOCK_S}
    if variant == "02_split_kv":
        arguments = (*inputs, *parts, group, split_len, *strides, scale)
        first = triton_launch(stem, grid, arguments, constants, tuple(parts), kernel="split_kv_kernel")
        arguments, constants = (*parts, *outputs, num_splits), {"HEAD_DIM": head_dim} | merge
        last = triton_launch(stem, grid[::2], arguments, constants, outputs, kernel="combine_kernel")
        return Launches((first, last), outputs)
    if variant == "03_fused_combine":
        arguments = (*inputs, *outputs, *parts, counters, group, split_len, *strides, scale)
        return triton_launch(stem, grid, arguments, merge | constants, outputs)
    arguments = (*inputs, *outputs, *parts, counters, num_kv_heads, num_splits, split_len, *strides, scale)
    return triton_launch(stem, (batch_size * num_splits * num_kv_heads,), arguments, constants, outputs)
