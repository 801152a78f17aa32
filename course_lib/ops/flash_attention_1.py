"""Launchers of FlashAttention-1: validate shapes, pick grid and block, call the CUDA kernel or its Triton twin.

May import: errors, cuda.steps, ops._foundation, torch.
"""

import torch

from ..cuda.steps import names
from ..errors import UnsupportedError
from ._foundation.checks import require_attention, require_contiguous, require_step
from ._foundation.launch import cuda_launch, triton_launch
from ._foundation.sizes import power_of_two
from ._foundation.typed import typed

BLOCK_M, BLOCK_N = 32, 32  # query rows and keys of a tile
VARIANTS = names("attention", only="flash_attention_1", without=("backward",))
_NUM_THREADS = 128  # of a block of 06; a block of 07 has BLOCK_M


def flash_attention_1(q, k, v, *, causal=False, softmax_scale=None, variant="06_flash_attention_1", language="cuda"):
    """Exact attention forward in tiles, K and V outside, one launch.

    The matrix of scores never exists in global memory; (m, l, out) of every row travel there and back once a K/V tile.

    Parameters
    ----------
    q : tensor, (batch_size, num_heads, seq_len_q, head_dim), float32, contiguous
    k, v : tensor, (batch_size, num_kv_heads, seq_len_kv, head_dim), like `q`; num_kv_heads divides num_heads
    causal : bool; bottom-right aligned. seq_len_q=2, seq_len_kv=5 keeps
        1 1 1 1 0
        1 1 1 1 1
    softmax_scale : float, dimensionless; default ``head_dim**-0.5``
    variant : "06_flash_attention_1" (a warp a row) or "07_flash_attention_1_rows" (a thread a row, never causal)
    language : "cuda" or "triton" (06 only)

    Returns
    -------
    out : tensor, shape of `q`; zero for a fully masked row
    lse : tensor, (batch_size, num_heads, seq_len_q), float32, natural log; -inf for a fully masked row

    Raises
    ------
    ShapeError        a tensor is not 4-D, contiguous float32 with a size of at least 1, or sizes do not fit
    UnsupportedError  no such variant or language, or 07 with causal
    """
    launch = plan(q, k, v, causal=causal, softmax_scale=softmax_scale, variant=variant, language=language)
    launch.run()
    return launch.outputs[0], launch.outputs[3]


@typed
def plan(
    q,
    k,
    v,
    *,
    causal=False,
    softmax_scale=None,
    block_m=BLOCK_M,
    block_n=BLOCK_N,
    variant="06_flash_attention_1",
    language="cuda",
):
    """The launch that `flash_attention_1` would make, with fresh outputs (out, m, l, lse), not yet run.

    Parameters
    ----------
    block_m, block_n : int, query rows and keys of a tile; the rest as in `flash_attention_1`

    Returns
    -------
    launch : Launch; ``launch.traffic()`` counts its bytes, ``launch.run()`` executes it
    """
    require_attention(q, k, v)
    require_contiguous({"q": q, "k": k, "v": v}, (torch.float32,))
    require_step("attention", variant, VARIANTS, language)
    rows = variant == "07_flash_attention_1_rows"
    if rows and causal:
        raise UnsupportedError("07_flash_attention_1_rows has no mask; take 06_flash_attention_1.")
    batch_size, num_heads, seq_len_q, head_dim = q.shape
    scale = head_dim**-0.5 if softmax_scale is None else float(softmax_scale)
    out = torch.empty_like(q)
    m, l, lse = (q.new_empty(batch_size, num_heads, seq_len_q) for _ in range(3))
    sizes = (num_heads // k.shape[1], seq_len_q, k.shape[2], scale, *(() if rows else (int(causal),)))
    arguments, outputs, grid = (q, k, v, out, m, l, lse, *sizes), (out, m, l, lse), (num_heads, batch_size)
    constants = {"HEAD_DIM": head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n}
    stem = f"attention/{variant}"
    if language == "triton":
        constants["BLOCK_D"] = power_of_two(head_dim)
        return triton_launch(stem, grid, arguments, constants, outputs)
    return cuda_launch(stem, grid, block_m if rows else _NUM_THREADS, arguments, outputs, defines=constants)
