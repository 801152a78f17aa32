"""Launches of the Triton twins over pages: tiles, splits, the second launch.

May import: ops.paged (splits, scratch), ops.softmax and ops.first_kernels (the launches), triton_kernels, torch.
"""

import torch

from .first_kernels import Launches
from .paged import choose_split_len, places, scratch
from .softmax import Launch

BLOCK_N = 32  # keys of a tile of 02 and 03
GROUPED = {"BLOCK_N": 64, "num_warps": 2, "num_stages": 3}  # 04: the fastest of 11 shapes on an H200, with WAVES = 2
WAVES = 2
INTERPRETED = {"BLOCK_N": 128}  # an operation costs the interpreter a millisecond, however large the tile
BLOCK_S = 16  # partitions that the second launch merges at a time
PARTITION_LEN = 512
LARGEST, MIN_SCALE = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}, 1e-4  # 08, as in its .cu
COPY_BLOCK = 4096  # numbers that a program of 07 copies at a time
PREFILL = {"BLOCK_M": 128, "BLOCK_N": 32, "num_warps": 4, "num_stages": 3}  # 05: the fastest of 3 on an H200


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
    return choose_split_len(q.shape[0] * num_kv_heads, longest, places(q), WAVES)


def _load(step):
    from ..triton_kernels import load

    return load(f"paged/{step}")


def plan_quantised(inputs, num_kv_heads, sizes, strides, scale, longest, split_len, tuning=None):
    """The launches of 06_quantised_kv, as `ops.paged_quantised.plan` has checked it."""
    q, seq_lens = inputs[0], inputs[6]
    batch_size, num_heads, head_dim = q.shape
    split_len = split_len or _split_len(q, num_kv_heads, longest)
    num_splits = -(-longest // split_len)
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    lse = q.new_empty(q.shape[:2], dtype=torch.float32)
    parts = scratch(q, num_kv_heads, num_splits)[:2]
    arguments = (*inputs, *parts, num_kv_heads, *sizes, num_splits, split_len, *strides, scale)
    constants = {"HEAD_DIM": head_dim, "NUM_Q_PER_KV": num_heads // num_kv_heads}
    constants |= tuning or (GROUPED if q.is_cuda else INTERPRETED)
    function, grid = _load("06_quantised_kv/partition"), (batch_size * num_splits * num_kv_heads,)
    first = Launch("triton", function, grid, 0, arguments, constants, parts)
    arguments = (*parts, seq_lens, out, lse, num_splits, split_len)
    constants = {"HEAD_DIM": head_dim, "BLOCK_S": BLOCK_S}
    function, grid = _load("06_quantised_kv/reduce"), (num_heads, batch_size)
    return Launches((first, Launch("triton", function, grid, 0, arguments, constants, (out, lse))), (out, lse))


def plan_write(arguments, outputs, per):
    """The launch of 08_quantised_write."""
    k, num_kv_heads = arguments[0], arguments[7]
    constants = {
        "HEAD_DIM": k.shape[-1],
        "BLOCK_H": 1 << (num_kv_heads - 1).bit_length(),
        "LARGEST": LARGEST[outputs[0].dtype],
        "MIN_SCALE": MIN_SCALE,
        "PER_TOKEN": per == "token",
    }
    return Launch("triton", _load("08_quantised_write"), (k.shape[0],), 0, arguments, constants, outputs)


def plan_copy_pages(k_pages, v_pages, copies):
    """The launch of 07_copy_pages: bytes are copied as integers of their width."""
    integer = {1: torch.int8, 2: torch.int16}[k_pages.element_size()]
    pools = tuple(pool.view(integer) for pool in (k_pages, v_pages))
    arguments = (*pools, copies, pools[0][0].numel(), pools[0].stride(0))
    grid = (len(copies), 2)
    return Launch("triton", _load("07_copy_pages"), grid, 0, arguments, {"BLOCK": COPY_BLOCK}, (k_pages, v_pages))


def plan_prefill(inputs, sizes, strides, scale, max_seq_len_q):
    """The launch of 05_paged_prefill."""
    q = inputs[0]
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    lse = q.new_empty(q.shape[:2], dtype=torch.float32)
    constants = {"HEAD_DIM": q.shape[2]} | (PREFILL if q.is_cuda else {"BLOCK_M": 64, "BLOCK_N": 64})
    grid = (-(-max_seq_len_q // constants["BLOCK_M"]), q.shape[1], inputs[4].shape[0])
    arguments = (*inputs, out, lse, *sizes, *strides, scale)
    return Launch("triton", _load("05_paged_prefill"), grid, 0, arguments, constants, (out, lse))
