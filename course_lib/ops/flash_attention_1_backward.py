"""Launchers of the backward pass of FlashAttention-1: validate shapes, pick grid and block, call either twin.

May import: errors, ops.softmax, ops.first_kernels and ops.flash_attention_1, cuda, triton_kernels, torch.
"""

import torch

from ..errors import ShapeError, UnsupportedError
from .first_kernels import Launches
from .flash_attention_1 import BLOCK_M, BLOCK_N, _require
from .softmax import Launch

STEM = "attention/08_flash_attention_1_backward"
_ENTRIES = ("row_dot_kernel", "flash_attention_1_backward_kernel")
_NUM_THREADS, _ROWS_PER_BLOCK = 128, 4  # of both CUDA kernels; rows of one block of row_dot_kernel


def flash_attention_1_backward(q, k, v, out, lse, d_out, *, causal=False, softmax_scale=None, language="cuda"):
    """Gradients of attention in tiles, K and V outside, two launches: row_dot, then everything else.

    No weight was stored by the forward pass: exp(score - lse) makes it again. dk and dv of a tile stay on chip, dq
    travels to global memory and back once a K/V tile.

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, seq_len_q, head_dim), float32, contiguous
    k, v : tensor, (batch_size, num_kv_heads, seq_len_kv, head_dim), like `q`; num_kv_heads divides num_heads
    out, lse : tensors, what the forward pass returned; lse (batch_size, num_heads, seq_len_q), float32, natural log
    d_out : tensor, like `q`: the gradient that arrives
    causal : bool; bottom-right aligned. seq_len_q=2, seq_len_kv=5 keeps
        1 1 1 1 0
        1 1 1 1 1
    softmax_scale : float, dimensionless; default ``head_dim**-0.5``
    language : "cuda" or "triton"

    Returns
    -------
    dq : tensor, shape of `q`; zero for a fully masked row
    dk, dv : tensors, shape of `k`; sums over the query heads of a group

    Raises
    ------
    ShapeError        a tensor is not contiguous float32, or sizes do not fit
    UnsupportedError  no such language
    """
    launches = plan(q, k, v, out, lse, d_out, causal=causal, softmax_scale=softmax_scale, language=language)
    launches.run()
    return launches.outputs


def plan(
    q,
    k,
    v,
    out,
    lse,
    d_out,
    *,
    causal=False,
    softmax_scale=None,
    block_m=BLOCK_M,
    block_n=BLOCK_N,
    language="cuda",
):
    """The launches that `flash_attention_1_backward` would make, with fresh outputs (dq, dk, dv), not yet run.

    Parameters
    ----------
    block_m, block_n : int, query rows and keys of a tile; the rest as in `flash_attention_1_backward`

    Returns
    -------
    launches : Launches; ``launches.traffic()`` counts their bytes, ``launches.run()`` executes them
    """
    _require(q, k, v)
    _require_rows(q, out, lse, d_out)
    if language not in ("cuda", "triton"):
        raise UnsupportedError(f'language={language!r} is unknown; choose "cuda" or "triton".')
    batch_size, num_kv_heads, seq_len_kv, head_dim = k.shape
    scale = head_dim**-0.5 if softmax_scale is None else float(softmax_scale)
    row_dot, dq, dk, dv = (torch.empty_like(tensor) for tensor in (lse, q, k, v))
    sizes = (q.shape[1] // num_kv_heads, q.shape[2], seq_len_kv, scale, int(causal))
    row_dot_arguments, num_rows = (out, d_out, row_dot, lse.numel()), lse.numel()
    arguments, grid = (q, k, v, d_out, lse, row_dot, dq, dk, dv, *sizes), (num_kv_heads, batch_size)
    if language == "triton":
        from ..triton_kernels import load

        both = {"HEAD_DIM": head_dim, "BLOCK_D": max(16, 1 << (head_dim - 1).bit_length()), "BLOCK_M": block_m}
        rows = Launch(
            "triton", load(f"{STEM}/row_dot"), (-(-num_rows // block_m),), 0, row_dot_arguments, both, (row_dot,)
        )
        tiles = both | {"BLOCK_N": block_n}
        backward = Launch("triton", load(f"{STEM}/backward"), grid, 0, arguments, tiles, (dq, dk, dv))
    else:
        from .. import cuda

        tiles = {"HEAD_DIM": head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n}
        kernels = [cuda.load(f"{STEM}.cu", entry, defines=tiles) for entry in _ENTRIES]
        row_grid = (-(-num_rows // _ROWS_PER_BLOCK),)
        rows = Launch("cuda", kernels[0], row_grid, _NUM_THREADS, row_dot_arguments, {}, (row_dot,))
        backward = Launch("cuda", kernels[1], grid, _NUM_THREADS, arguments, {}, (dq, dk, dv))
    return Launches((rows, backward), (dq, dk, dv))


def _require_rows(q, out, lse, d_out):
    """The contract of what belongs to the rows of q, as sentences."""
    for name, tensor, shape in (("out", out, q.shape), ("d_out", d_out, q.shape), ("lse", lse, q.shape[:3])):
        if tensor.shape != shape:
            raise ShapeError(f"{name} has the shape {tuple(tensor.shape)}; q asks for {tuple(shape)}.")
        if tensor.dtype != torch.float32 or not tensor.is_contiguous():
            raise ShapeError(
                f"{name} must be contiguous torch.float32; it is {tensor.dtype}, strides {tensor.stride()}."
            )
