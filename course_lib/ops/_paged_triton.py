"""Launches of the Triton twins over pages: tiles, splits, the second launch.

May import: ops._foundation, torch.
"""

import torch

from ._foundation.launch import Launches, interprets, is_hopper, triton_launch
from ._foundation.sizes import attention_outputs, ceil_div, power_of_two
from ._foundation.splits import choose_split_len, partials, slots

BLOCK_N = 32  # keys of a tile of 02 and 03
GROUPED = {"BLOCK_N": 64, "num_warps": 2, "num_stages": 3}  # 04: the fastest of 11 shapes on an H200, with WAVES = 2
WAVES, BLOCKS_PER_SM, MIN_SPLIT_LEN = 2, 2, 256  # 04 and 06: see choose_split_len
INTERPRETED = {"BLOCK_N": 128}  # an operation costs the interpreter a millisecond, however large the tile
BLOCK_S = 16  # partitions that the second launch merges at a time
PARTITION_LEN = 512
LARGEST, MIN_SCALE = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}, 1e-4  # 08, as in its .cu
COPY_BLOCK = 4096  # numbers that a program of 07 copies at a time
PREFILL = {"BLOCK_M": 128, "BLOCK_N": 32, "num_warps": 4, "num_stages": 3}  # 05: the fastest of 3 on an H200
PREFILL_GENERAL = PREFILL | {"num_warps": 8}  # other cards, never timed: with 4 warps head_dim 128 spills on sm_80


def plan(inputs, num_kv_heads, sizes, strides, scale, variant, longest, split_len, tuning=None):
    """The launches of one decode variant, as `ops.paged.plan` has checked it."""
    q, seq_lens = inputs[0], inputs[4]
    batch_size, num_heads, head_dim = q.shape
    out, lse = attention_outputs(q)
    stem, constants = f"paged/{variant}", {"HEAD_DIM": head_dim}
    if variant == "02_paged_v1":
        arguments = (*inputs, out, lse, num_heads // num_kv_heads, *sizes, *strides, scale)
        constants |= {"BLOCK_N": BLOCK_N}
        return triton_launch(stem, (num_heads, batch_size), arguments, constants, (out, lse))
    if variant == "03_paged_v2":
        split_len = split_len or PARTITION_LEN
    elif split_len is None:
        split_len = _split_len(q, num_kv_heads, longest)
    num_splits = ceil_div(longest, split_len)
    parts = partials(q, num_splits)
    if variant == "03_paged_v2":
        arguments = (*inputs, *parts, num_heads // num_kv_heads, *sizes, split_len, *strides, scale)
        grid, more, kernel = (num_heads, num_splits, batch_size), {"BLOCK_N": BLOCK_N}, "paged_v2_kernel"
    else:
        arguments = (*inputs, *parts, num_kv_heads, *sizes, num_splits, split_len, *strides, scale)
        grid, kernel = (batch_size * num_splits * num_kv_heads,), "paged_grouped_kernel"
        more = {"NUM_Q_PER_KV": num_heads // num_kv_heads} | (tuning or (INTERPRETED if interprets(q) else GROUPED))
    first = triton_launch(stem, grid, arguments, constants | more, parts, kernel=kernel)
    return Launches((first, _reduce(stem, q, parts, seq_lens, (out, lse), split_len)), (out, lse))


def _reduce(stem, q, parts, seq_lens, outputs, split_len):
    """The second launch: partitions to one row."""
    grid, constants = q.shape[1::-1], {"HEAD_DIM": q.shape[2], "BLOCK_S": BLOCK_S}
    arguments = (*parts, seq_lens, *outputs, parts[1].shape[2], split_len)
    return triton_launch(stem, grid, arguments, constants, outputs, kernel="reduce_kernel")


def plan_reshape_and_cache(arguments, pools):
    """The launch of 01_reshape_and_cache."""
    num_kv_heads, head_dim = arguments[5:7]
    constants, grid = {"BLOCK": power_of_two(num_kv_heads * head_dim)}, (arguments[0].shape[0],)
    return triton_launch("paged/01_reshape_and_cache", grid, arguments, constants, pools)


def _split_len(q, num_kv_heads, longest):
    num_slots = slots(q, BLOCKS_PER_SM)
    return choose_split_len(len(q) * num_kv_heads, longest, num_slots, WAVES, min_split_len=MIN_SPLIT_LEN)


def plan_quantised(inputs, num_kv_heads, sizes, strides, scale, longest, split_len, tuning=None):
    """The launches of 06_quantised_kv, as `ops.paged_quantised.plan` has checked it."""
    q, seq_lens = inputs[0], inputs[6]
    batch_size, num_heads, head_dim = q.shape
    split_len = split_len or _split_len(q, num_kv_heads, longest)
    num_splits = ceil_div(longest, split_len)
    out, lse = attention_outputs(q)
    parts = partials(q, num_splits)
    arguments = (*inputs, *parts, num_kv_heads, *sizes, num_splits, split_len, *strides, scale)
    constants = {"HEAD_DIM": head_dim, "NUM_Q_PER_KV": num_heads // num_kv_heads}
    constants |= tuning or (INTERPRETED if interprets(q) else GROUPED)
    stem, grid = "paged/06_quantised_kv", (batch_size * num_splits * num_kv_heads,)
    first = triton_launch(stem, grid, arguments, constants, parts, kernel="quantised_kv_kernel")
    return Launches((first, _reduce(stem, q, parts, seq_lens, (out, lse), split_len)), (out, lse))


def plan_write(arguments, outputs, per):
    """The launch of 08_quantised_write."""
    k, num_kv_heads = arguments[0], arguments[7]
    constants = {
        "HEAD_DIM": k.shape[-1],
        "BLOCK_H": power_of_two(num_kv_heads, least=1),
        "LARGEST": LARGEST[outputs[0].dtype],
        "MIN_SCALE": MIN_SCALE,
        "PER_TOKEN": per == "token",
    }
    return triton_launch("paged/08_quantised_write", (k.shape[0],), arguments, constants, outputs)


def plan_copy_pages(k_pages, v_pages, copies):
    """The launch of 07_copy_pages: bytes are copied as integers of their width."""
    integer = {1: torch.int8, 2: torch.int16}[k_pages.element_size()]
    pools = tuple(pool.view(integer) for pool in (k_pages, v_pages))
    arguments = (*pools, copies, pools[0][0].numel(), pools[0].stride(0))
    grid = (len(copies), 2)
    return triton_launch("paged/07_copy_pages", grid, arguments, {"BLOCK": COPY_BLOCK}, (k_pages, v_pages))


def plan_prefill(inputs, sizes, strides, scale, variant, max_seq_len_q):
    """The launch of 05_paged_prefill or 09_tuned_prefill, which share their twin."""
    q = inputs[0]
    out, lse = attention_outputs(q)
    tiles = PREFILL if is_hopper(q) else PREFILL_GENERAL
    if interprets(q):
        tiles = {"BLOCK_M": 64, "BLOCK_N": 64}
    grid = (ceil_div(max_seq_len_q, tiles["BLOCK_M"]), q.shape[1], inputs[4].shape[0])
    arguments = (*inputs, out, lse, *sizes, *strides, scale)
    return triton_launch(f"paged/{variant}", grid, arguments, {"HEAD_DIM": q.shape[2]} | tiles, (out, lse))
