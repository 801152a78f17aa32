"""Triton twin of paged/05_paged_prefill: FlashAttention-2 whose keys lie in pages.

May import: triton, triton_kernels.paged.
"""

import triton
import triton.language as tl

from .paged import LOG2_E, _token_offsets


# fmt: off
@triton.jit
def _walk_pages(
    q, k_pages_ptr, v_pages_ptr, block_table_ptr, last_key, kv_end, page_size, stride_page, stride_slot, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
# fmt: on
    """(m, l, acc) of the rows of `q` (BLOCK_M, HEAD_DIM), each over the keys up to its `last_key`; m in log2 units."""
    d = tl.arange(0, HEAD_DIM)[None, :]
    m, l = tl.full((BLOCK_M,), -float("inf"), tl.float32), tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    # region: loop
    for tile in range(0, kv_end, BLOCK_N):
        keys = tile + tl.arange(0, BLOCK_N)
        offsets = _token_offsets(block_table_ptr, keys, kv_end, page_size, stride_page, stride_slot)[:, None] + d
        k = tl.load(k_pages_ptr + offsets, mask=(keys < kv_end)[:, None], other=0.0)  # (BLOCK_N, HEAD_DIM)
        v = tl.load(v_pages_ptr + offsets, mask=(keys < kv_end)[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale_log2  # (BLOCK_M, BLOCK_N)
        visible = keys[None, :] <= tl.minimum(last_key, kv_end - 1)[:, None]
        scores = tl.where(visible, scores, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)  # never -inf minus -inf
        alpha, probs_unnorm = tl.exp2(m - shift), tl.exp2(scores - shift[:, None])
        l = l * alpha + tl.sum(probs_unnorm, axis=1)
        acc = tl.dot(probs_unnorm.to(v.dtype), v, acc * alpha[:, None])
        m = m_new
    # endregion
    return m, l, acc


@triton.jit
def paged_prefill_kernel(
    q_ptr,  # (total_q, num_heads, HEAD_DIM) half, any strides of tokens and heads
    k_pages_ptr, v_pages_ptr,  # page p, slot s, head h begins at p * stride_page + s * stride_slot + h * stride_kv_head
    block_table_ptr,  # (batch_size, max_pages) int32
    seq_lens_ptr,  # (batch_size,) int32, the new tokens included
    cu_seqlens_q_ptr,  # (batch_size + 1,) int32: where the queries of each sequence begin
    out_ptr,  # (total_q, num_heads, HEAD_DIM), contiguous
    lse_ptr,  # (total_q, num_heads) float, natural log
    num_q_per_kv, page_size, max_pages,
    stride_q_token, stride_q_head, stride_page, stride_slot, stride_kv_head, softmax_scale,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,  # BLOCK_M: query rows of a tile
    BLOCK_N: tl.constexpr,  # keys of a tile
):  # fmt: skip
    """05_paged_prefill, causal bottom-right. Grid (cdiv(longest n, BLOCK_M), num_heads, batch_size)."""
    # region: heads
    head, batch = tl.program_id(1), tl.program_id(2).to(tl.int64)
    first_token = tl.load(cu_seqlens_q_ptr + batch).to(tl.int64)
    seq_len_q = tl.load(cu_seqlens_q_ptr + batch + 1) - first_token.to(tl.int32)
    seq_len_kv = tl.load(seq_lens_ptr + batch)
    q_start = tl.program_id(0) * BLOCK_M
    # endregion
    if q_start < seq_len_q:
        rows, d = q_start + tl.arange(0, BLOCK_M), tl.arange(0, HEAD_DIM)[None, :]
        mask, token = rows < seq_len_q, first_token + rows
        q_offsets = token[:, None] * stride_q_token + head.to(tl.int64) * stride_q_head + d
        q = tl.load(q_ptr + q_offsets, mask=mask[:, None], other=0.0)  # (BLOCK_M, HEAD_DIM)
        kv_offset = (head // num_q_per_kv).to(tl.int64) * stride_kv_head
        k_pages_ptr += kv_offset
        v_pages_ptr += kv_offset
        block_table_ptr += batch * max_pages
        last_key = rows + (seq_len_kv - seq_len_q)  # that each row may see
        kv_end = tl.minimum(seq_len_kv, tl.minimum(q_start + BLOCK_M, seq_len_q) + seq_len_kv - seq_len_q)
        m, l, acc = _walk_pages(
            q, k_pages_ptr, v_pages_ptr, block_table_ptr, last_key, kv_end, page_size, stride_page, stride_slot,
            softmax_scale * LOG2_E, HEAD_DIM, BLOCK_M, BLOCK_N,
        )  # fmt: skip
        l_safe = tl.where(l == 0.0, 1.0, l)  # a row that sees nothing: 0 / 1, and m stays -inf
        row = token * tl.num_programs(1) + head
        tl.store(
            out_ptr + row[:, None] * HEAD_DIM + d, (acc / l_safe[:, None]).to(out_ptr.dtype.element_ty),
            mask=mask[:, None],
        )  # fmt: skip
        tl.store(lse_ptr + row, (m + tl.log2(l_safe)) / LOG2_E, mask=mask)
