"""Launchers of FlashAttention-1: validate shapes, pick grid and block, call the CUDA kernel or its Triton twin.

May import: errors, ops.softmax (Launch), cuda, triton_kernels, torch.
"""

import torch

from ..errors import ShapeError, UnsupportedError
from .softmax import Launch

BLOCK_M, BLOCK_N = 32, 32  # query rows and keys of a tile
VARIANTS = ("06_flash_attention_1", "07_flash_attention_1_rows")
_ENTRIES = {
    "06_flash_attention_1": "flash_attention_1_kernel",
    "07_flash_attention_1_rows": "flash_attention_1_rows_kernel",
}
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
    _require(q, k, v)
    if variant not in VARIANTS:
        raise UnsupportedError(f"variant={variant!r} is unknown; choose one of {', '.join(VARIANTS)}.")
    if language not in ("cuda", "triton"):
        raise UnsupportedError(f'language={language!r} is unknown; choose "cuda" or "triton".')
    rows = variant == "07_flash_attention_1_rows"
    if rows and (causal or language == "triton"):
        raise UnsupportedError("07_flash_attention_1_rows has no mask and no Triton twin; take 06_flash_attention_1.")
    batch_size, num_heads, seq_len_q, head_dim = q.shape
    scale = head_dim**-0.5 if softmax_scale is None else float(softmax_scale)
    out = torch.empty_like(q)
    m, l, lse = (q.new_empty(batch_size, num_heads, seq_len_q) for _ in range(3))
    sizes = (num_heads // k.shape[1], seq_len_q, k.shape[2], scale, *(() if rows else (int(causal),)))
    arguments, outputs, grid = (q, k, v, out, m, l, lse, *sizes), (out, m, l, lse), (num_heads, batch_size)
    constants = {"HEAD_DIM": head_dim, "BLOCK_M": block_m, "BLOCK_N": block_n}
    if language == "triton":
        from ..triton_kernels import load

        constants["BLOCK_D"] = max(16, 1 << (head_dim - 1).bit_length())
        return Launch("triton", load(f"attention/{variant}"), grid, 0, arguments, constants, outputs)
    from .. import cuda

    kernel = cuda.load(f"attention/{variant}.cu", _ENTRIES[variant], defines=constants)
    return Launch("cuda", kernel, grid, block_m if rows else _NUM_THREADS, arguments, {}, outputs)


def _require(q, k, v):
    """The contract of the tensors, as sentences."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.ndim != 4 or tensor.numel() == 0:
            raise ShapeError(f"{name} has the shape {tuple(tensor.shape)}; expected 4 dimensions, each at least 1.")
        if tensor.dtype != torch.float32 or not tensor.is_contiguous():
            raise ShapeError(
                f"{name} must be contiguous torch.float32; it is {tensor.dtype}, strides {tensor.stride()}."
            )
    if k.shape != v.shape:
        raise ShapeError(f"k is {tuple(k.shape)} and v is {tuple(v.shape)}; this kernel takes one shape for both.")
    if (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
        raise ShapeError(f"q is {tuple(q.shape)} and k is {tuple(k.shape)}; batch_size and head_dim must agree.")
    if q.shape[1] % k.shape[1]:
        raise ShapeError(f"k has num_kv_heads={k.shape[1]}; num_heads={q.shape[1]} must be a multiple of it.")
