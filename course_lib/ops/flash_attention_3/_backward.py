"""Launcher of the backward pass on Hopper: validate, make tensor maps and scratch, pick grids and shared memory.

May import: errors, cuda, device, ops._foundation, _ladder, torch.
"""

from functools import partial

import torch

from ... import device
from ...errors import ShapeError, UnsupportedError
from .._foundation.checks import positive_scale, require_attention
from .._foundation.launch import Launches, all_ran, cuda_launch
from .._foundation.sizes import CHUNK, ELEMENTS, ceil_div, steps_of
from ._ladder import L2_BYTES, PANEL_COLS, WARPGROUP_ROWS, _aligned, _require_hopper_rows

STEM_BACKWARD = "flash_attention_3_backward/01_keys_as_rows"
BLOCK_N, NUM_CONSUMERS = 128, 2  # keys of a block; warpgroups that compute
_Q_STAGES, _NUM_STAGES = 3, 2  # of Q and its row stats; of dO and of dS
_CHUNK_FLOATS = WARPGROUP_ROWS * PANEL_COLS  # of dQ, that one consumer computes at a time
_STATS_THREADS, _BLOCK_THREADS, _DQ_THREADS = 256, 128 * (NUM_CONSUMERS + 1), 128


def flash_attention_3_backward(q, k, v, out, lse, d_out, *, causal=False, softmax_scale=None):
    """Gradients of attention on Hopper's own instructions, three launches: row_stats, gradients, dq.

    One walk: the block that owns 128 keys computes the weights once, in five wgmma products a tile. dk and dv stay in
    its registers; its part of dq is added in global memory, in float32, by the copy engine.

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, seq_len_q, head_dim), half or bfloat16, head_dim 64 or 128; any strides of
        batch, head and row that are multiples of 16 bytes; rows contiguous
    k, v : tensor, (batch_size, num_kv_heads, seq_len_kv, head_dim), like `q`; num_kv_heads divides num_heads
    out, lse : tensors, what the forward pass returned; out like `q`, lse (batch_size, num_heads, seq_len_q), float32,
        contiguous, natural log
    d_out : tensor, like `q`: the gradient that arrives
    causal : bool; bottom-right aligned. seq_len_q=2, seq_len_kv=5 keeps
        1 1 1 1 0
        1 1 1 1 1
    softmax_scale : float above 0, dimensionless; default ``head_dim**-0.5``

    Returns
    -------
    dq : tensor, shape and dtype of `q`, contiguous; 0 for a fully masked row; two runs may differ in the last bits
    dk, dv : tensors, shape and dtype of `k`, contiguous; sums over the query heads of a group

    Raises
    ------
    ShapeError        shapes, dtypes or layouts that do not fit
    UnsupportedError  a head_dim or scale that the kernels do not take; a GPU that is not a Hopper

    Notes
    -----
    Cost      10 * B * H * Nq * Nkv * D FLOP in the five products, half of it when causal and Nq == Nkv
    Memory    4 * D + 8 bytes a row of q (rounded up to whole tiles) beside the gradients
    Numerics  all sums in float32; probs and d_scores rounded to the dtype of `q` before their products

    Source: J. Shah et al., "FlashAttention-3", 2024, algorithm 3, arXiv:2407.08608
    """
    return all_ran(plan_backward(q, k, v, out, lse, d_out, causal=causal, softmax_scale=softmax_scale))


def plan_backward(q, k, v, out, lse, d_out, *, causal=False, softmax_scale=None, heads_together=None):
    """The launches that `flash_attention_3_backward` would make, with fresh outputs (dq, dk, dv), not yet run.

    Parameters
    ----------
    heads_together : int or None; key heads whose tiles are taken side by side; the rest as in the function above

    Returns
    -------
    launches : Launches of row_stats, gradients, dq; ``launches.run()`` executes them
    """
    require_attention(q, k, v)
    _require_hopper_rows(q, k, v)
    _require_rows(q, out, lse, d_out)
    num_kv_heads, seq_len_kv = k.shape[1:3]
    batch_size, num_heads, seq_len_q, head_dim = q.shape
    scale = positive_scale(q, softmax_scale)
    block_m = 128 if head_dim == 64 else 64
    num_tiles = ceil_div(seq_len_q, block_m) * batch_size * num_heads
    if num_tiles * NUM_CONSUMERS >= 2**31:
        raise UnsupportedError(f"q has {num_tiles} tiles of {block_m} rows; these kernels number them with 30 bits.")
    stats = q.new_empty(num_tiles * 2 * block_m, dtype=torch.float32)
    dq_acc = q.new_empty(num_tiles * block_m * head_dim, dtype=torch.float32)
    dq, dk, dv = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    maps = _tensor_maps([(q, block_m), (k, BLOCK_N), (v, BLOCK_N), (d_out, block_m)] + _stored(dk, dv))
    sizes = (num_kv_heads, num_heads // num_kv_heads, seq_len_q, seq_len_kv, heads_together or _together(q, k, causal))
    kv_heads = batch_size * num_kv_heads
    launch = partial(cuda_launch, STEM_BACKWARD, defines={"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[q.dtype]})
    row_stats = (out, d_out, lse, stats, dq_acc, num_heads, seq_len_q, *steps_of(out), *steps_of(d_out))
    walk = (*maps, stats, dq_acc, kv_heads, *sizes, scale, int(causal))
    dq_rows = (dq_acc, *_tensor_maps(_stored(dq)), num_heads, seq_len_q, scale)
    kv_grid, shared_bytes = (ceil_div(seq_len_kv, BLOCK_N) * kv_heads,), _shared_bytes(block_m, head_dim)
    launches = (
        launch((num_tiles,), _STATS_THREADS, row_stats, (stats, dq_acc), kernel="row_stats_kernel"),
        launch(kv_grid, _BLOCK_THREADS, walk, (dk, dv), kernel="gradients_kernel", shared_bytes=shared_bytes),
        launch((num_tiles * NUM_CONSUMERS,), _DQ_THREADS, dq_rows, (dq,), kernel="dq_kernel"),
    )
    return Launches(launches, (dq, dk, dv))


def _shared_bytes(block_m, head_dim):
    """Dynamic shared memory of a block of gradients_kernel: its struct Tiles."""
    rows = 2 * BLOCK_N + (_Q_STAGES + _NUM_STAGES) * block_m
    halves = rows * head_dim + _NUM_STAGES * BLOCK_N * block_m
    return 2 * halves + 4 * NUM_CONSUMERS * _CHUNK_FLOATS + 4 * _Q_STAGES * 2 * block_m


def _stored(*outputs):
    """What TMA stores, with the rows of a box: 64 of a consumer."""
    return [(output, WARPGROUP_ROWS) for output in outputs]


def _tensor_maps(tensors_and_rows):
    """Maps with boxes of 64 columns, the swizzle's 128 bytes."""
    from ...cuda import tensor_map

    return tuple(tensor_map(tensor, box=(1, 1, rows, PANEL_COLS), swizzle="128B") for tensor, rows in tensors_and_rows)


def _together(q, k, causal):
    """Key heads whose tiles are taken side by side: under a causal mask as many as L2 holds Q, dO and the float32 sums
    of dQ of, in turns of equal size; without a mask one, whose tiles share them best."""
    if not causal:
        return 1
    q_bytes = q.shape[2] * q.shape[3] * (2 * q.element_size() + 4)
    num_heads = q.shape[0] * k.shape[1]
    fitting = max(1, (device.current().l2_bytes or L2_BYTES) // q_bytes)
    return ceil_div(num_heads, ceil_div(num_heads, fitting))


def _require_rows(q, out, lse, d_out):
    """What the backward pass asks of the tensors that belong to the rows of `q`."""
    for name, tensor in (("out", out), ("d_out", d_out)):
        if tensor.shape != q.shape or tensor.dtype != q.dtype or tensor.device != q.device:
            raise ShapeError(
                f"{name} is {tuple(tensor.shape)}, {tensor.dtype} on {tensor.device}; it must be like q: "
                f"{tuple(q.shape)}, {q.dtype} on {q.device}."
            )
        if tensor.stride(3) != 1 or not _aligned(tensor):
            raise ShapeError(
                f"{name} has the strides {tensor.stride()} and starts {tensor.data_ptr() % 16} bytes past a multiple "
                f"of 16; rows must be contiguous and start at such multiples: strides of {CHUNK} elements, none 0."
            )
    if lse.shape != q.shape[:3] or lse.dtype != torch.float32 or not lse.is_contiguous():
        raise ShapeError(
            f"lse is {tuple(lse.shape)}, {lse.dtype}, strides {lse.stride()}; expected {tuple(q.shape[:3])}, float32, "
            "contiguous."
        )
