"""Triton twins of paged/06_quantised_kv and paged/08_quantised_write: pages of one byte a number, read and written.

`tl.float8e4nv` is e4m3; Triton has it from compute capability 8.9 on, int8 everywhere.

May import: triton, triton_kernels.paged.
"""

import triton
import triton.language as tl

from .paged import LOG2_E

MAGIC = tl.constexpr(12582912.0)  # 1.5 * 2^23: a float that large has no fraction, so adding it rounds


# fmt: off
@triton.jit
def _one_group(
    q, k_pages_ptr, v_pages_ptr, k_scales_ptr, v_scales_ptr, block_table_ptr, start, end, page_size, stride_page,
    stride_slot, stride_scale_page, stride_scale_slot, scale_log2, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr
):
# fmt: on
    """(m, l, acc) of the 16 rows of `q` (16, HEAD_DIM) over the keys start .. end of one head; m in units of log2."""
    d = tl.arange(0, HEAD_DIM)[None, :]
    m, l = tl.full((16,), -float("inf"), tl.float32), tl.zeros((16,), tl.float32)
    acc = tl.zeros((16, HEAD_DIM), tl.float32)
    # region: loop
    for tile in range(start, end, BLOCK_N):
        keys = tile + tl.arange(0, BLOCK_N)
        page = tl.load(block_table_ptr + keys // page_size, mask=keys < end, other=0).to(tl.int64)
        slot = (keys % page_size).to(tl.int64)
        offsets = (page * stride_page + slot * stride_slot)[:, None] + d
        scale_offsets = page * stride_scale_page + slot * stride_scale_slot
        k = tl.load(k_pages_ptr + offsets, mask=(keys < end)[:, None], other=0.0)  # (BLOCK_N, HEAD_DIM)
        v = tl.load(v_pages_ptr + offsets, mask=(keys < end)[:, None], other=0.0)  # one byte a number
        k_scale = tl.load(k_scales_ptr + scale_offsets, mask=keys < end, other=0.0)
        v_scale = tl.load(v_scales_ptr + scale_offsets, mask=keys < end, other=0.0)
        scores = tl.dot(q, tl.trans(k.to(tl.float16)))  # (16, BLOCK_N); the conversion is exact
        scores *= (k_scale * scale_log2)[None, :]
        scores = tl.where((keys < end)[None, :], scores, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        alpha, probs_unnorm = tl.exp2(m - m_new), tl.exp2(scores - m_new[:, None])
        l = l * alpha + tl.sum(probs_unnorm, axis=1)
        weights = (probs_unnorm * v_scale[None, :]).to(tl.float16)  # they take the scales of V, l does not
        acc = tl.dot(weights, v.to(tl.float16), acc * alpha[:, None])
        m = m_new
    # endregion
    return m, l, acc


@triton.jit
def quantised_kv_kernel(
    q_ptr,  # (batch_size, num_heads, HEAD_DIM) half, any stride of batch and head
    k_pages_ptr,  # int8 or float8: page p, slot s, head h at p * stride_page + s * stride_slot + h * stride_kv_head
    v_pages_ptr,  # like k_pages
    k_scales_ptr, v_scales_ptr,  # float: page p, slot s, head h likewise, with strides of its own
    block_table_ptr,  # (batch_size, max_pages) int32
    seq_lens_ptr,  # (batch_size,) int32
    partial_out_ptr,  # (batch_size, num_heads, num_splits, HEAD_DIM) float
    partial_lse_ptr,  # (batch_size, num_heads, num_splits) float, natural log
    num_kv_heads, page_size, max_pages, num_splits, split_len,
    stride_q_batch, stride_q_head, stride_page, stride_slot, stride_kv_head, stride_scale_page, stride_scale_slot,
    stride_scale_head, softmax_scale,
    NUM_Q_PER_KV: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_N: keys of a tile
):  # fmt: skip
    """06_quantised_kv, a split of the keys for a whole group. Grid (batch_size * num_splits * num_kv_heads,)."""
    kv_head, split = tl.program_id(0) % num_kv_heads, tl.program_id(0) // num_kv_heads % num_splits
    batch = (tl.program_id(0) // num_kv_heads // num_splits).to(tl.int64)
    seq_len, start = tl.load(seq_lens_ptr + batch), split * split_len
    if start < seq_len:
        end = tl.minimum(seq_len, start + split_len)
        rows, d = tl.arange(0, 16), tl.arange(0, HEAD_DIM)[None, :]  # 16 rows: the least that tl.dot takes
        head, is_head = kv_head * NUM_Q_PER_KV + rows, rows < NUM_Q_PER_KV
        q_offsets = batch * stride_q_batch + head[:, None].to(tl.int64) * stride_q_head + d
        q = tl.load(q_ptr + q_offsets, mask=is_head[:, None], other=0.0).to(tl.float16)  # (16, HEAD_DIM)
        block_table_ptr += batch * max_pages
        k_pages_ptr += kv_head.to(tl.int64) * stride_kv_head
        v_pages_ptr += kv_head.to(tl.int64) * stride_kv_head
        k_scales_ptr += kv_head.to(tl.int64) * stride_scale_head
        v_scales_ptr += kv_head.to(tl.int64) * stride_scale_head
        m, l, acc = _one_group(
            q, k_pages_ptr, v_pages_ptr, k_scales_ptr, v_scales_ptr, block_table_ptr, start, end, page_size,
            stride_page, stride_slot, stride_scale_page, stride_scale_slot, softmax_scale * LOG2_E, HEAD_DIM, BLOCK_N,
        )  # fmt: skip
        row = (batch * (num_kv_heads * NUM_Q_PER_KV) + head) * num_splits + split
        tl.store(partial_out_ptr + row[:, None] * HEAD_DIM + d, acc / l[:, None], mask=is_head[:, None])
        tl.store(partial_lse_ptr + row, (m + tl.log2(l)) / LOG2_E, mask=is_head)


# fmt: off
@triton.jit
def _write(
    x_ptr, pages_ptr, scales_ptr, scale_offsets, mask,
    LARGEST: tl.constexpr, MIN_SCALE: tl.constexpr, PER_TOKEN: tl.constexpr
):
# fmt: on
    """Round the rows of one token; `x_ptr`, `pages_ptr` (heads, HEAD_DIM), `scale_offsets`, `mask` (heads, 1)."""
    x = tl.load(x_ptr, mask=mask, other=0.0).to(tl.float32)
    if PER_TOKEN:
        largest = tl.max(tl.abs(x), axis=1, keep_dims=True)
        scale = tl.maximum(tl.div_rn(largest, tl.full(largest.shape, LARGEST, tl.float32)), MIN_SCALE)
        tl.store(scales_ptr + scale_offsets, scale, mask=mask)
    else:
        scale = tl.load(scales_ptr + scale_offsets, mask=mask, other=1.0)
    x = tl.div_rn(x, tl.broadcast_to(scale, x.shape))  # IEEE: what `/` gives may be off by two units
    x = tl.minimum(tl.maximum(x, -LARGEST), LARGEST)
    if pages_ptr.dtype.element_ty == tl.int8:
        x = (x + MAGIC) - MAGIC  # to the nearest, ties to even
    tl.store(pages_ptr, x.to(pages_ptr.dtype.element_ty), mask=mask)


@triton.jit
def quantised_write_kernel(
    k_ptr, v_ptr,  # (num_tokens, num_kv_heads, HEAD_DIM) half, any strides of tokens and heads
    k_pages_ptr, v_pages_ptr,  # int8 or float8, as in quantised_kv_kernel
    k_scales_ptr, v_scales_ptr,  # float, as in quantised_kv_kernel
    slot_mapping_ptr,  # (num_tokens,) int64; a negative one is not stored
    num_kv_heads, page_size,
    stride_k_token, stride_k_head, stride_v_token, stride_v_head, stride_page, stride_slot, stride_kv_head,
    stride_scale_page, stride_scale_slot, stride_scale_head,
    HEAD_DIM: tl.constexpr, BLOCK_H: tl.constexpr,  # BLOCK_H: num_kv_heads rounded up to a power of two
    LARGEST: tl.constexpr, MIN_SCALE: tl.constexpr, PER_TOKEN: tl.constexpr,
):  # fmt: skip
    """08_quantised_write. Grid (num_tokens,)."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token)
    head, d = tl.arange(0, BLOCK_H)[:, None].to(tl.int64), tl.arange(0, HEAD_DIM)[None, :]
    mask = (head < num_kv_heads) & (slot >= 0)
    page, page_slot = slot // page_size, slot % page_size
    offsets = page * stride_page + page_slot * stride_slot + head * stride_kv_head + d
    scale_offsets = page * stride_scale_page + page_slot * stride_scale_slot + head * stride_scale_head
    k_ptr += token * stride_k_token + head * stride_k_head + d
    v_ptr += token * stride_v_token + head * stride_v_head + d
    _write(k_ptr, k_pages_ptr + offsets, k_scales_ptr, scale_offsets, mask, LARGEST, MIN_SCALE, PER_TOKEN)
    _write(v_ptr, v_pages_ptr + offsets, v_scales_ptr, scale_offsets, mask, LARGEST, MIN_SCALE, PER_TOKEN)
