"""Launcher of causal attention of many new tokens over pages (05_paged_prefill).

May import: errors, ops._paged_checks, ops.softmax (Launch), cuda, torch.
"""

import math

import torch

from ..errors import ShapeError, UnsupportedError
from . import _paged_checks as checks
from .softmax import Launch

BLOCK_M = 128  # query rows of a block
BLOCK_N = {64: 64, 128: 32}  # head_dim -> keys of a tile


def paged_prefill(
    q,
    k_pages,
    v_pages,
    block_table,
    seq_lens,
    cu_seqlens_q,
    *,
    max_seq_len_q,
    layout="NHD",
    softmax_scale=None,
    language="cuda",
):
    """Causal attention of the new tokens of each sequence over its pages, which hold them already; one launch.

    Parameters
    ----------
    q : tensor, (total_q, num_heads, head_dim), float16 or bfloat16, head_dim 64 or 128: the new tokens of all
        sequences, one sequence after the other
    k_pages, v_pages, block_table, layout, softmax_scale : as in `ops.paged.paged_attention`
    seq_lens : tensor, (batch_size,), int32: tokens in the pages, the new ones included
    cu_seqlens_q : tensor, (batch_size + 1,), int32: where the queries of each sequence begin; from 0 to total_q
        causal is bottom-right aligned. 2 new tokens, seq_len 5 keeps
        1 1 1 1 0
        1 1 1 1 1
    max_seq_len_q : int, not below the new tokens of any sequence

    Returns
    -------
    out : tensor, shape and dtype of `q`, contiguous; zero for a row that sees nothing
    lse : tensor, (total_q, num_heads), float32, natural log; -inf for a row that sees nothing
    """
    arguments = (q, k_pages, v_pages, block_table, seq_lens, cu_seqlens_q)
    options = {"layout": layout, "softmax_scale": softmax_scale, "language": language}
    launch = plan(*arguments, max_seq_len_q=max_seq_len_q, **options)
    launch.run()
    return launch.outputs


def plan(
    q,
    k_pages,
    v_pages,
    block_table,
    seq_lens,
    cu_seqlens_q,
    *,
    max_seq_len_q,
    layout="NHD",
    softmax_scale=None,
    language="cuda",
):
    """The launch that `paged_prefill` would make, with fresh outputs (out, lse), not yet run."""
    checks.require_language(language)
    batch_size = seq_lens.shape[0]
    strides, page_size, num_kv_heads = checks.pool(k_pages, v_pages, layout)
    one_each = q[:1].expand(batch_size, -1, -1)  # the checks of decoding, which has one query a sequence
    checks.require_queries(one_each, num_kv_heads, k_pages.shape[-1], block_table, seq_lens, k_pages)
    checks.require_rows("q", q, k_pages)
    if cu_seqlens_q.shape != (batch_size + 1,) or cu_seqlens_q.dtype != torch.int32:
        raise ShapeError(
            f"cu_seqlens_q is {cu_seqlens_q.dtype} {tuple(cu_seqlens_q.shape)}; expected int32 ({batch_size + 1},)."
        )
    if max_seq_len_q < 1:
        raise ShapeError(f"max_seq_len_q={max_seq_len_q}; a launch needs at least 1 new token.")
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    if not (math.isfinite(scale) and scale > 0.0):
        raise UnsupportedError(f"softmax_scale={softmax_scale}; these kernels take a finite number above 0.")
    num_heads, head_dim = q.shape[1:]
    inputs = (q, k_pages, v_pages, block_table, seq_lens, cu_seqlens_q)
    sizes = (num_heads // num_kv_heads, page_size, block_table.shape[1])
    all_strides = (*q.stride()[:2], *strides)
    if language == "triton":
        from . import _paged_triton as triton_launches

        return triton_launches.plan_prefill(inputs, sizes, all_strides, scale, int(max_seq_len_q))
    from .. import cuda

    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    lse = q.new_empty(q.shape[:2], dtype=torch.float32)
    defines = {"HEAD_DIM": head_dim, "ELEMENT": checks.ELEMENTS[q.dtype], "BLOCK_N": BLOCK_N[head_dim]}
    kernel = cuda.load("paged/05_paged_prefill.cu", "paged_prefill_kernel", defines=defines)
    arguments = (*inputs, out, lse, *sizes, *all_strides, scale)
    grid = (-(-int(max_seq_len_q) // BLOCK_M), num_heads, batch_size)
    shared_bytes = (BLOCK_M + 2 * BLOCK_N[head_dim]) * head_dim * q.element_size()
    return Launch("cuda", kernel, grid, 128, arguments, {}, (out, lse), shared_bytes)
