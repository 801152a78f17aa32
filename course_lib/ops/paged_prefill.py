"""Launcher of causal attention of many new tokens over pages (05_paged_prefill, 09_tuned_prefill).

May import: errors, cuda.steps, ops._foundation, ops._paged_checks, ops._paged_triton, torch.
"""

import math

import torch

from ..cuda.steps import names
from ..errors import ShapeError
from . import _paged_checks as checks
from . import _paged_triton as triton_launches
from ._foundation.checks import positive_scale, require_rows, require_step
from ._foundation.launch import all_ran, cuda_launch
from ._foundation.sizes import ELEMENTS, attention_outputs, ceil_div
from ._foundation.typed import typed
from ._foundation.values import require_lengths, require_pages, require_starts

BLOCK_M = 128  # query rows of a block
BLOCK_N = {64: 64, 128: 32}  # head_dim -> keys of a tile
WIDER_TILE = 48  # of 09 with head_dim 128, where the registers last: before compute capability 10.0
VARIANTS = names("paged", only="prefill")


def paged_prefill(
    q, k_pages, v_pages, block_table, seq_lens, cu_seqlens_q, *, max_seq_len_q, layout="NHD", softmax_scale=None,
    variant="09_tuned_prefill", language="cuda", validate=False,
):  # fmt: skip
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
    variant : one of VARIANTS, the same in Triton: 05 is the one to read, 09 has the speed
    validate : bool; check the values of `seq_lens`, `block_table` and `cu_seqlens_q`
        on a GPU too, which waits for it; on the CPU they are checked always

    Returns
    -------
    out : tensor, shape and dtype of `q`, contiguous; zero for a row that sees nothing
    lse : tensor, (total_q, num_heads), float32, natural log; -inf for a row that sees nothing
    """
    arguments = (q, k_pages, v_pages, block_table, seq_lens, cu_seqlens_q)
    options = {"layout": layout, "softmax_scale": softmax_scale, "variant": variant, "language": language}
    return all_ran(plan(*arguments, max_seq_len_q=max_seq_len_q, validate=validate, **options))


@typed
def plan(
    q, k_pages, v_pages, block_table, seq_lens, cu_seqlens_q, *, max_seq_len_q, layout="NHD", softmax_scale=None,
    variant="09_tuned_prefill", language="cuda", validate=False,
):  # fmt: skip
    """The launch that `paged_prefill` would make, with fresh outputs (out, lse), not yet run."""
    require_step("paged", variant, VARIANTS, language)
    if seq_lens.ndim != 1 or q.ndim != 3:
        raise ShapeError(
            f"seq_lens is {tuple(seq_lens.shape)} and q {tuple(q.shape)}; expected (batch_size,) and "
            "(total_q, num_heads, head_dim)."
        )
    batch_size = seq_lens.shape[0]
    strides, page_size, num_kv_heads = checks.pool(k_pages, v_pages, layout)
    one_each = q[:1].expand(batch_size, -1, -1)  # the checks of decoding, which has one query a sequence
    checks.require_queries(one_each, num_kv_heads, k_pages.shape[-1], block_table, seq_lens, k_pages)
    require_rows("q", q, k_pages)
    fits = cu_seqlens_q.shape == (batch_size + 1,) and cu_seqlens_q.dtype == torch.int32
    if not fits or not cu_seqlens_q.is_contiguous():
        raise ShapeError(
            f"cu_seqlens_q is {cu_seqlens_q.dtype} {tuple(cu_seqlens_q.shape)}; expected contiguous int32 "
            f"({batch_size + 1},)."
        )
    require_lengths(seq_lens, block_table.shape[1] * page_size, None, validate, most_name="max_pages * page_size")
    require_pages(block_table, seq_lens, page_size, len(k_pages), validate)
    require_starts(cu_seqlens_q, len(q), max_seq_len_q, validate)
    if max_seq_len_q < 1:
        raise ShapeError(f"max_seq_len_q={max_seq_len_q}; a launch needs at least 1 new token.")
    scale = positive_scale(q, softmax_scale)
    num_heads, head_dim = q.shape[1:]
    inputs = (q, k_pages, v_pages, block_table, seq_lens, cu_seqlens_q)
    sizes = (num_heads // num_kv_heads, page_size, block_table.shape[1])
    all_strides = (*q.stride()[:2], *strides)
    if language == "triton":
        return triton_launches.plan_prefill(inputs, sizes, all_strides, scale, variant, int(max_seq_len_q))
    return _plan_cuda(inputs, sizes, all_strides, scale, variant, int(max_seq_len_q))


def _plan_cuda(inputs, sizes, strides, scale, variant, max_seq_len_q):
    q, seq_lens = inputs[0], inputs[4]
    num_heads, head_dim = q.shape[1:]
    out, lse = attention_outputs(q)
    block_n, num_tiles = BLOCK_N[head_dim], ceil_div(max_seq_len_q, BLOCK_M)
    grid = (num_tiles, num_heads, seq_lens.shape[0])
    if variant == "09_tuned_prefill":
        wide = head_dim == 128 and (not q.is_cuda or torch.cuda.get_device_capability(q.device) < (10, 0))
        block_n = WIDER_TILE if wide else block_n
        grid, scale = (num_heads, num_tiles, seq_lens.shape[0]), scale * math.log2(math.e)
    defines = {"HEAD_DIM": head_dim, "ELEMENT": ELEMENTS[q.dtype], "BLOCK_N": block_n}
    arguments = (*inputs, out, lse, *sizes, *strides, scale)
    shared_bytes = (BLOCK_M + 2 * block_n) * head_dim * q.element_size()
    return cuda_launch(f"paged/{variant}", grid, 128, arguments, (out, lse), defines=defines, shared_bytes=shared_bytes)
