"""Launchers of FlashAttention-2 forward, step by step: validate, pick grid, tiles and shared memory, call either twin.

May import: errors, device, cuda.steps, ops._foundation, _triton, torch.
"""

import math

import torch

from ... import device
from ...cuda.steps import names
from ...errors import ShapeError, UnsupportedError
from .._foundation.checks import (
    positive_scale,
    require_attention,
    require_capability,
    require_contiguous,
    require_half,
    require_step,
)
from .._foundation.launch import all_ran, cuda_launch
from .._foundation.sizes import CHUNK, ELEMENTS, attention_outputs, ceil_div, heads_in_turns, steps_of
from .._foundation.typed import typed
from . import _triton as triton_launches

VARIANTS = names("flash_attention_2")
BLOCK_M = 128  # query rows of a block of 02 to 10
BLOCK_N = {64: 64, 128: 32}  # head_dim -> keys of a tile, 02 to 08
BLOCK_N_WIDE = {64: 64, 128: 48}  # of 09 and 10: the fastest of 6 widths on an H200
L2_BYTES = 50 << 20  # of an H100, where the device in hand does not say
_NUM_THREADS = 128


@typed
def flash_attention_2(q, k, v, *, causal=False, softmax_scale=None, variant="10_heavy_first", language="cuda"):
    """Exact attention forward, one launch, the Q tile outside.

    A block owns a tile of query rows and walks over the keys; (m, l, acc) stay in registers, so out and lse are written
    once. 01 computes in float32 without tensor cores; 02 to 10 are the ladder to the speed of the official kernel.

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, seq_len_q, head_dim)
        02 to 10: half or bfloat16, head_dim 64 or 128, any strides; rows contiguous, from multiples of 16 bytes on
        01: contiguous; float32 in CUDA, float32 or half in Triton
    k, v : tensor, (batch_size, num_kv_heads, seq_len_kv, head_dim), dtype of `q`; num_kv_heads divides num_heads
    causal : bool; bottom-right aligned. seq_len_q=2, seq_len_kv=5 keeps
        1 1 1 1 0
        1 1 1 1 1
    softmax_scale : float above 0, dimensionless; default ``head_dim**-0.5``
    variant : one of VARIANTS
    language : "cuda", or "triton" for the steps that have a twin

    Returns
    -------
    out : tensor, shape and dtype of `q`, contiguous in CUDA; zero for a fully masked row
    lse : tensor, (batch_size, num_heads, seq_len_q), float32, natural log; -inf for a fully masked row

    Raises
    ------
    ShapeError        shapes, dtypes or layouts that do not fit the step or each other
    UnsupportedError  no such variant or language; a head_dim, scale or size that the step does not take; an older GPU

    Notes
    -----
    Cost      4 * B * H * Nq * Nkv * D FLOP in the two products, half of it when causal and Nq == Nkv
    Numerics  scores, m, l and acc in float32; 02 to 10 round the weights to the dtype of `q` before the second product
    Launch    02 to 10: grid (ceil(Nq / 128) * H * B), 128 threads, (128 + 2 * block_n) * D * 2 bytes of shared memory

    Source: T. Dao, "FlashAttention-2", 2023, algorithm 1, arXiv:2307.08691
    """
    return all_ran(plan(q, k, v, causal=causal, softmax_scale=softmax_scale, variant=variant, language=language))


@typed
def plan(
    q,
    k,
    v,
    *,
    causal=False,
    softmax_scale=None,
    variant="10_heavy_first",
    language="cuda",
    block_m=None,
    block_n=None,
    heads_together=None,
):
    """The launch that `flash_attention_2` would make, with fresh outputs (out, lse), not yet run.

    Parameters
    ----------
    block_m, block_n : int or None; query rows and keys of a tile, for 01 alone
    heads_together : int or None; heads whose blocks run side by side, for 10 in CUDA alone

    Returns
    -------
    launch : Launch; ``launch.traffic()`` counts its bytes, ``launch.run()`` executes it
    """
    require_step("flash_attention_2", variant, VARIANTS, language)
    require_attention(q, k, v)
    if math.prod(q.shape[:3]) >= 2**31:
        raise UnsupportedError(f"q has {math.prod(q.shape[:3])} rows in all; these kernels number them with 31 bits.")
    scale = positive_scale(q, softmax_scale)
    if language == "triton":
        return _plan_triton(q, k, v, causal, scale, variant, block_m, block_n)
    if variant == "01_loop_order":
        return _plan_loop_order(q, k, v, causal, scale, block_m, block_n)
    return _plan_tensor_cores(q, k, v, causal, scale, variant, heads_together)


def _plan_triton(q, k, v, causal, scale, variant, block_m, block_n):
    """One of the two Triton twins."""
    if variant == "01_loop_order":
        require_contiguous({"q": q, "k": k, "v": v}, (torch.float32, *ELEMENTS))
        tiles = {"block_m": block_m, "block_n": block_n}
        return triton_launches.plan_teaching(q, k, v, causal=causal, softmax_scale=scale, **tiles)
    return triton_launches.plan_forward(q, k, v, causal=causal, softmax_scale=scale)


def _plan_loop_order(q, k, v, causal, scale, block_m, block_n):
    """01: float32, a warp a row."""
    require_contiguous({"q": q, "k": k, "v": v}, (torch.float32,))
    head_dim, seq_len_q = q.shape[3], q.shape[2]
    block_m, block_n = block_m or (32 if head_dim <= 64 else 16), block_n or 32
    constants = {"HEAD_DIM": head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n}
    out, lse = attention_outputs(q)
    arguments = (q, k, v, out, lse, q.shape[1] // k.shape[1], seq_len_q, k.shape[2], scale, int(causal))
    grid = (ceil_div(seq_len_q, block_m) * q.shape[0] * q.shape[1],)
    stem = "flash_attention_2/01_loop_order"
    return cuda_launch(stem, grid, _NUM_THREADS, arguments, (out, lse), defines=constants)


def _plan_tensor_cores(q, k, v, causal, scale, variant, heads_together):
    """02 to 10."""
    _require_rows(q, k, v)
    batch_size, num_heads, seq_len_q, head_dim = q.shape
    step = VARIANTS.index(variant) + 1
    block_n = (BLOCK_N_WIDE if step >= 9 else BLOCK_N)[head_dim]
    constants = {"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[q.dtype], "BLOCK_N": block_n}
    out, lse = attention_outputs(q)
    sizes = (num_heads, num_heads // k.shape[1], seq_len_q, k.shape[2])
    strides = [stride for x in (q, k, v) for stride in steps_of(x)]
    together = (heads_together or _heads_together(q, k, causal),) if step >= 10 else ()
    last = (*together, scale * math.log2(math.e) if step >= 6 else scale, int(causal))
    grid = (ceil_div(seq_len_q, BLOCK_M) * num_heads * batch_size,)
    shared_bytes = (BLOCK_M + 2 * block_n) * head_dim * q.element_size()
    arguments = (q, k, v, out, lse, *sizes, *strides, *last)
    return cuda_launch(
        f"flash_attention_2/{variant}", grid, _NUM_THREADS, arguments, (out, lse), defines=constants,
        shared_bytes=shared_bytes,
    )  # fmt: skip


def _heads_together(q, k, causal):
    """Heads whose blocks run side by side. Under a causal mask the heavy blocks should go first, of so many heads that
    L2 holds half of their K and V (1, 2, 4 … 64 heads tried on an H200), and in turns of equal size: a small last turn
    would begin with heavy blocks when the card runs empty. Without a mask all blocks are alike, and those of one head
    share its K and V best."""
    if not causal:
        return 1
    return heads_in_turns(q, k, 2 * (device.current().l2_bytes or L2_BYTES))


def _require_rows(q, k, v):
    """What 02 to 10 ask of dtype, head_dim and layout."""
    require_half(q, "the tensor-core steps")
    require_capability(q, "01_loop_order runs on every card; mma.m16n8k16 needs")
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        strides = steps_of(tensor)
        if tensor.stride(3) != 1:
            raise ShapeError(f"{name} has the strides {tensor.stride()}; the last dimension must be contiguous.")
        if tensor.data_ptr() % 16 or any(stride % CHUNK for stride in strides):
            raise ShapeError(
                f"{name} has the strides {tensor.stride()} and starts {tensor.data_ptr() % 16} bytes past a multiple "
                f"of 16; rows are copied 16 bytes at a time, so each must start at such a multiple, {CHUNK} elements."
            )
        if strides[2] >= 2**31:
            raise ShapeError(f"{name} has rows {strides[2]} elements apart; the kernels take less than 2^31.")
