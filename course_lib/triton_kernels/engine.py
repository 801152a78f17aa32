"""Triton twins of engine/01_work_list: a program for each item of the same schedule, and one for each row to merge.

May import: triton, triton_kernels.paged.
"""

import triton
import triton.language as tl

from .paged import LOG2_E, _token_offsets

ITEM_INTS: tl.constexpr = tl.constexpr(12)  # of kernels_cu/common/work_item.cuh


@triton.jit
def _with_sink(lse_log2, sinks_ptr, head, HAS_SINKS: tl.constexpr):
    """log2 of the sum of the weights, a sink included: a score without a value, once a row."""
    if HAS_SINKS:
        sink = tl.load(sinks_ptr + head) * LOG2_E
        largest = tl.maximum(lse_log2, sink)
        shift = tl.where(largest == -float("inf"), 0.0, largest)  # never -inf minus -inf
        lse_log2 = shift + tl.log2(tl.exp2(lse_log2 - shift) + tl.exp2(sink - shift))
    return lse_log2


@triton.jit
def _attend(
    item_ptr, q_ptr, k_pages_ptr, v_pages_ptr, block_table_ptr, token_parts_ptr, out_ptr, lse_ptr, part_out_ptr,
    part_lse_ptr, sinks_ptr, num_heads, page_size, max_pages, stride_q_token, stride_q_head, stride_page, stride_slot,
    stride_kv_head, softmax_scale, causal, window_left,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HAS_SINKS: tl.constexpr,
):  # fmt: skip
    """One item, up to BLOCK_M rows of it."""
    # region: item
    request, kv_head = tl.load(item_ptr).to(tl.int64), tl.load(item_ptr + 1)
    first_token, num_rows = tl.load(item_ptr + 2).to(tl.int64), tl.load(item_ptr + 3)
    first_key, end_key, first_position = tl.load(item_ptr + 4), tl.load(item_ptr + 5), tl.load(item_ptr + 6)
    part, whole = tl.load(item_ptr + 7), tl.load(item_ptr + 8) != 0
    rows, d = tl.arange(0, BLOCK_M), tl.arange(0, HEAD_DIM)[None, :]
    mask, token, head = rows < num_rows, first_token + rows // GROUP, kv_head * GROUP + rows % GROUP
    position = first_position + rows // GROUP
    last_key = tl.where(causal != 0, tl.minimum(position, end_key - 1), end_key - 1)  # that each row may see
    begin = tl.where(window_left < 0, 0, position - window_left)
    # endregion
    q_offsets = token[:, None] * stride_q_token + head.to(tl.int64)[:, None] * stride_q_head + d
    q = tl.load(q_ptr + q_offsets, mask=mask[:, None], other=0.0)  # (BLOCK_M, HEAD_DIM)
    kv_offset = kv_head.to(tl.int64) * stride_kv_head
    m, l = tl.full((BLOCK_M,), -float("inf"), tl.float32), tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    # region: loop
    for tile in range(first_key, end_key, BLOCK_N):
        keys = tile + tl.arange(0, BLOCK_N)
        table_ptr = block_table_ptr + request * max_pages
        offsets = _token_offsets(table_ptr, keys, end_key, page_size, stride_page, stride_slot)[:, None] + kv_offset + d
        k = tl.load(k_pages_ptr + offsets, mask=(keys < end_key)[:, None], other=0.0)  # (BLOCK_N, HEAD_DIM)
        v = tl.load(v_pages_ptr + offsets, mask=(keys < end_key)[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(k)) * (softmax_scale * LOG2_E)  # (BLOCK_M, BLOCK_N)
        visible = (keys[None, :] <= last_key[:, None]) & (keys[None, :] >= begin[:, None])
        scores = tl.where(visible, scores, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        alpha, probs_unnorm = tl.exp2(m - shift), tl.exp2(scores - shift[:, None])
        l = l * alpha + tl.sum(probs_unnorm, axis=1)
        acc = tl.dot(probs_unnorm.to(v.dtype), v, acc * alpha[:, None])
        m = m_new
    # endregion
    # region: store
    l_safe = tl.where(l > 0.0, l, 1.0)  # a row that sees nothing: m stays -inf
    own_lse = m + tl.log2(l_safe)
    shift = tl.where(m == -float("inf"), 0.0, m)
    if whole:
        lse_log2 = _with_sink(own_lse, sinks_ptr, tl.where(mask, head, 0), HAS_SINKS)
        scale = tl.exp2(shift - tl.where(m == -float("inf"), 0.0, lse_log2))
        row = token * num_heads + head
        out = (acc * scale[:, None]).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + row[:, None] * HEAD_DIM + d, out, mask=mask[:, None])
        tl.store(lse_ptr + row, lse_log2 / LOG2_E, mask=mask)
    else:
        row = (tl.load(token_parts_ptr + token, mask=mask, other=0).to(tl.int64) + part) * num_heads + head
        tl.store(part_out_ptr + row[:, None] * HEAD_DIM + d, acc / l_safe[:, None], mask=mask[:, None])
        tl.store(part_lse_ptr + row, own_lse, mask=mask)
    # endregion


@triton.jit
def work_item_kernel(
    q_ptr,  # (total_q, num_heads, HEAD_DIM) half, any strides of tokens and heads
    k_pages_ptr, v_pages_ptr,  # page p, slot s, head h begins at p * stride_page + s * stride_slot + h * stride_kv_head
    block_table_ptr,  # (batch_size, max_pages) int32
    items_ptr,  # (num_items, 12) int32, as common/work_item.cuh has them
    token_parts_ptr,  # (total_q + 1,) int32
    out_ptr,  # (total_q, num_heads, HEAD_DIM), contiguous
    lse_ptr,  # (total_q, num_heads) float, natural log
    part_out_ptr,  # (parts, num_heads, HEAD_DIM) float: scratch
    part_lse_ptr,  # (parts, num_heads) float, in units of log2: scratch
    sinks_ptr,  # (num_heads,) float, natural; read with HAS_SINKS alone
    num_items, num_heads, page_size, max_pages,
    stride_q_token, stride_q_head, stride_page, stride_slot, stride_kv_head, softmax_scale, causal, window_left,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, HAS_SINKS: tl.constexpr,
    BLOCK_M: tl.constexpr,  # rows of an item, at most
    BLOCK_N: tl.constexpr,  # keys of a tile
):  # fmt: skip
    """01_work_list, one item. Grid (num_items,)."""
    item_ptr = items_ptr + tl.program_id(0) * ITEM_INTS
    if tl.program_id(0) < num_items:
        if tl.load(item_ptr + 9) != 0:  # narrow: 16 rows, the least that tl.dot takes
            _attend(
                item_ptr, q_ptr, k_pages_ptr, v_pages_ptr, block_table_ptr, token_parts_ptr, out_ptr, lse_ptr,
                part_out_ptr, part_lse_ptr, sinks_ptr, num_heads, page_size, max_pages, stride_q_token, stride_q_head,
                stride_page, stride_slot, stride_kv_head, softmax_scale, causal, window_left,
                GROUP, HEAD_DIM, 16, BLOCK_N, HAS_SINKS,
            )  # fmt: skip
        else:
            _attend(
                item_ptr, q_ptr, k_pages_ptr, v_pages_ptr, block_table_ptr, token_parts_ptr, out_ptr, lse_ptr,
                part_out_ptr, part_lse_ptr, sinks_ptr, num_heads, page_size, max_pages, stride_q_token, stride_q_head,
                stride_page, stride_slot, stride_kv_head, softmax_scale, causal, window_left,
                GROUP, HEAD_DIM, BLOCK_M, BLOCK_N, HAS_SINKS,
            )  # fmt: skip


@triton.jit
def merge_parts_kernel(
    part_out_ptr,  # (parts, num_heads, HEAD_DIM) float
    part_lse_ptr,  # (parts, num_heads) float, in units of log2
    token_parts_ptr,  # (total_q + 1,) int32: where the parts of each token begin; a token without is left alone
    out_ptr, lse_ptr,  # as in work_item_kernel
    sinks_ptr,
    HEAD_DIM: tl.constexpr, HAS_SINKS: tl.constexpr,
):  # fmt: skip
    """01_work_list, the merge of a row's parts, in their order. Grid (total_q, num_heads)."""
    token, head, num_heads = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    first, end = tl.load(token_parts_ptr + token), tl.load(token_parts_ptr + token + 1)
    d = tl.arange(0, HEAD_DIM)
    m, l, acc = -float("inf"), 0.0, tl.zeros((HEAD_DIM,), tl.float32)
    for part in range(0, end - first):
        row = (first.to(tl.int64) + part) * num_heads + head
        lse_part = tl.load(part_lse_ptr + row)
        m_new = tl.maximum(m, lse_part)
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        alpha, weight = tl.exp2(m - shift), tl.exp2(lse_part - shift)
        acc = acc * alpha + weight * tl.load(part_out_ptr + row * HEAD_DIM + d)
        l = l * alpha + weight
        m = m_new
    if end > first:
        own_lse = m + tl.log2(tl.where(l > 0.0, l, 1.0))
        lse_log2 = _with_sink(own_lse, sinks_ptr, head, HAS_SINKS)
        scale = tl.where(m == -float("inf"), 0.0, tl.exp2(m - lse_log2))
        row = token.to(tl.int64) * num_heads + head
        tl.store(out_ptr + row * HEAD_DIM + d, (acc * scale).to(out_ptr.dtype.element_ty))
        tl.store(lse_ptr + row, lse_log2 / LOG2_E)
