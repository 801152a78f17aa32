"""Launchers of the teaching backward pass of FlashAttention-2: validate shapes, pick grid and block, call the kernels.

May import: ops._foundation, torch.
"""

import torch

from .._foundation.checks import require_attention, require_contiguous, require_row_tensors
from .._foundation.launch import Launches, all_ran, cuda_launch
from .._foundation.sizes import ceil_div

STEM_BACKWARD = "flash_attention_2_backward/01_two_walks"
BACKWARD_TILES = 32, 32  # query rows and keys of a tile; 16 for heads wider than 64
_NUM_THREADS, _ROWS_PER_BLOCK = 128, 4  # of the three kernels; rows of one block of row_dot_kernel


def flash_attention_2_backward(q, k, v, out, lse, d_out, *, causal=False, softmax_scale=None):
    """Gradients of attention in tiles, three launches: row_dot, then dk and dv (K/V tile outside), then dq (Q outside).

    Each gradient row is the sum of one owner, so nothing is added in global memory and two runs give the same bits. The
    price over FlashAttention-1's single walk: the weights are computed twice.

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

    Returns
    -------
    dq : tensor, shape of `q`; zero for a fully masked row
    dk, dv : tensors, shape of `k`; sums over the query heads of a group

    Raises
    ------
    ShapeError  a tensor is not contiguous float32, or sizes do not fit
    """
    return all_ran(plan_backward(q, k, v, out, lse, d_out, causal=causal, softmax_scale=softmax_scale))


def plan_backward(q, k, v, out, lse, d_out, *, causal=False, softmax_scale=None, block_m=None, block_n=None):
    """The launches that `flash_attention_2_backward` would make, with fresh outputs (dq, dk, dv), not yet run.

    Parameters
    ----------
    block_m, block_n : int, query rows and keys of a tile, multiples of 4; the rest as in `flash_attention_2_backward`

    Returns
    -------
    launches : Launches of row_dot, dk_dv, dq; ``launches.traffic()`` counts bytes, ``launches.run()`` executes
    """
    require_attention(q, k, v)
    require_contiguous({"q": q, "k": k, "v": v}, (torch.float32,))
    require_row_tensors(q, out, lse, d_out)
    batch_size, num_kv_heads, seq_len_kv, head_dim = k.shape
    num_heads, seq_len_q = q.shape[1:3]
    scale = head_dim**-0.5 if softmax_scale is None else float(softmax_scale)
    shrink = 1 if head_dim <= 64 else 2
    block_m, block_n = (given or side // shrink for given, side in zip((block_m, block_n), BACKWARD_TILES, strict=True))
    row_dot, dq, dk, dv = (torch.empty_like(tensor) for tensor in (lse, q, k, v))
    sizes = (num_heads // num_kv_heads, seq_len_q, seq_len_kv, scale, int(causal))
    given = (q, k, v, d_out, lse, row_dot)
    q_grid = batch_size * num_heads * ceil_div(seq_len_q, block_m)
    kv_grid = batch_size * num_kv_heads * ceil_div(seq_len_kv, block_n)
    steps = (
        ("row_dot_kernel", ceil_div(lse.numel(), _ROWS_PER_BLOCK), (out, d_out, row_dot, lse.numel()), (row_dot,)),
        ("dk_dv_kernel", kv_grid, (*given, dk, dv, *sizes), (dk, dv)),
        ("dq_kernel", q_grid, (*given, dq, *sizes), (dq,)),
    )
    constants = {"HEAD_DIM": head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n}
    launches = tuple(
        cuda_launch(STEM_BACKWARD, (grid,), _NUM_THREADS, arguments, outputs, kernel=kernel, defines=constants)
        for kernel, grid, arguments, outputs in steps
    )
    return Launches(launches, (dq, dk, dv))
