"""Launchers of the backward pass of FlashAttention-1: validate shapes, pick grid and block, call either twin.

May import: ops._foundation, the tiles of ops.flash_attention_1, torch.
"""

import torch

from ._foundation.checks import require_attention, require_contiguous, require_language, require_row_tensors
from ._foundation.launch import Launches, all_ran, cuda_launch, triton_launch
from ._foundation.sizes import ceil_div, power_of_two
from ._foundation.typed import typed
from .flash_attention_1 import BLOCK_M, BLOCK_N

STEM = "attention/08_flash_attention_1_backward"
_ROW_DOT, _BACKWARD = "row_dot_kernel", "flash_attention_1_backward_kernel"
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
    return all_ran(plan(q, k, v, out, lse, d_out, causal=causal, softmax_scale=softmax_scale, language=language))


@typed
def plan(
    q, k, v, out, lse, d_out, *, causal=False, softmax_scale=None, block_m=BLOCK_M, block_n=BLOCK_N, language="cuda"
):
    """The launches that `flash_attention_1_backward` would make, with fresh outputs (dq, dk, dv), not yet run.

    Parameters
    ----------
    block_m, block_n : int, query rows and keys of a tile; the rest as in `flash_attention_1_backward`

    Returns
    -------
    launches : Launches; ``launches.traffic()`` counts their bytes, ``launches.run()`` executes them
    """
    require_attention(q, k, v)
    require_contiguous({"q": q, "k": k, "v": v}, (torch.float32,))
    require_row_tensors(q, out, lse, d_out)
    require_language(language)
    batch_size, num_kv_heads, seq_len_kv, head_dim = k.shape
    scale = head_dim**-0.5 if softmax_scale is None else float(softmax_scale)
    row_dot, dq, dk, dv = (torch.empty_like(tensor) for tensor in (lse, q, k, v))
    sizes = (q.shape[1] // num_kv_heads, q.shape[2], seq_len_kv, scale, int(causal))
    row_dot_arguments, num_rows = (out, d_out, row_dot, lse.numel()), lse.numel()
    arguments, grid = (q, k, v, d_out, lse, row_dot, dq, dk, dv, *sizes), (num_kv_heads, batch_size)
    tiles = {"HEAD_DIM": head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n}
    if language == "triton":
        both = {"HEAD_DIM": head_dim, "BLOCK_D": power_of_two(head_dim), "BLOCK_M": block_m}
        row_grid = (ceil_div(num_rows, block_m),)
        rows = triton_launch(STEM, row_grid, row_dot_arguments, both, (row_dot,), kernel=_ROW_DOT)
        backward = triton_launch(STEM, grid, arguments, both | tiles, (dq, dk, dv), kernel=_BACKWARD)
    else:
        row_grid = (ceil_div(num_rows, _ROWS_PER_BLOCK),)
        common = {"defines": tiles}
        rows = cuda_launch(STEM, row_grid, _NUM_THREADS, row_dot_arguments, (row_dot,), kernel=_ROW_DOT, **common)
        backward = cuda_launch(STEM, grid, _NUM_THREADS, arguments, (dq, dk, dv), kernel=_BACKWARD, **common)
    return Launches((rows, backward), (dq, dk, dv))
