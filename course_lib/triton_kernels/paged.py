"""Triton twins of kernels_cu/paged: the cache in pages, decoding a head, a partition or a group of heads a program.

A tile of keys is gathered: one page number a key, 64-bit offsets from there on. What the compiler does with it (16-byte
loads, tensor cores, several tiles under way) is what 04_paged_grouped.cu writes out.

May import: triton, notation, state.
"""

import triton
import triton.language as tl

from .. import notation
from .state import take_in, take_in_rows

LOG2_E = tl.constexpr(notation.LOG2_E)


@triton.jit
def reshape_and_cache_kernel(
    k_ptr, v_ptr,  # (num_tokens, num_kv_heads, head_dim), any strides of tokens and heads
    k_pages_ptr, v_pages_ptr,  # page p, slot s, head h begins at p * stride_page + s * stride_slot + h * stride_kv_head
    slot_mapping_ptr,  # (num_tokens,) int64; a negative one is not stored
    num_kv_heads, head_dim, page_size,
    stride_k_token, stride_k_head, stride_v_token, stride_v_head, stride_page, stride_slot, stride_kv_head,
    BLOCK: tl.constexpr,  # num_kv_heads * head_dim, rounded up to a power of two
):  # fmt: skip
    """01_reshape_and_cache. Grid (num_tokens,)."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token)
    i = tl.arange(0, BLOCK)
    kv_head, d = i // head_dim, i % head_dim
    mask = (i < num_kv_heads * head_dim) & (slot >= 0)
    offsets = slot // page_size * stride_page + slot % page_size * stride_slot + kv_head * stride_kv_head + d
    k = tl.load(k_ptr + token * stride_k_token + kv_head * stride_k_head + d, mask=mask)
    v = tl.load(v_ptr + token * stride_v_token + kv_head * stride_v_head + d, mask=mask)
    tl.store(k_pages_ptr + offsets, k, mask=mask)
    tl.store(v_pages_ptr + offsets, v, mask=mask)


@triton.jit
def _token_offsets(block_table_ptr, keys, end, page_size, stride_page, stride_slot):
    """Offsets of the rows of `keys`, (BLOCK_N,) int64; a key at or past `end` reads no table entry."""
    page = tl.load(block_table_ptr + keys // page_size, mask=keys < end, other=0)
    return page.to(tl.int64) * stride_page + (keys % page_size).to(tl.int64) * stride_slot


# fmt: off
@triton.jit
def _one_head(
    q, k_pages_ptr, v_pages_ptr, block_table_ptr, start, end, page_size, stride_page, stride_slot, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr
):
# fmt: on
    """(m, l, acc) of one query over the keys start .. end; m in units of log2."""
    # BLOCK_N states side by side, one for each key of a tile, as the lanes of the CUDA twin keep them
    d = tl.arange(0, HEAD_DIM)[None, :]
    m, l, acc = -float("inf"), 0.0, tl.zeros((HEAD_DIM,), tl.float32)
    for tile in range(start, end, BLOCK_N):
        keys = tile + tl.arange(0, BLOCK_N)
        offsets = _token_offsets(block_table_ptr, keys, end, page_size, stride_page, stride_slot)[:, None] + d
        mask = (keys < end)[:, None]
        k = tl.load(k_pages_ptr + offsets, mask=mask, other=0.0).to(tl.float32)  # (BLOCK_N, HEAD_DIM)
        v = tl.load(v_pages_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        scores = tl.where(keys < end, tl.sum(q[None, :] * k, axis=1) * scale_log2, -float("inf"))
        m, l, acc = take_in(m, l, acc, scores, v)
    return m, l, acc


@triton.jit
def paged_v1_kernel(
    q_ptr,  # (batch_size, num_heads, HEAD_DIM) half, any stride of batch and head
    k_pages_ptr, v_pages_ptr,  # page p, slot s, head h begins at p * stride_page + s * stride_slot + h * stride_kv_head
    block_table_ptr,  # (batch_size, max_pages) int32
    seq_lens_ptr,  # (batch_size,) int32
    out_ptr,  # (batch_size, num_heads, HEAD_DIM), contiguous
    lse_ptr,  # (batch_size, num_heads) float, natural log
    num_q_per_kv, page_size, max_pages,
    stride_q_batch, stride_q_head, stride_page, stride_slot, stride_kv_head, softmax_scale,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_N: keys of a tile
):  # fmt: skip
    """02_paged_v1. Grid (num_heads, batch_size)."""
    head, batch = tl.program_id(0), tl.program_id(1).to(tl.int64)
    d, kv_offset = tl.arange(0, HEAD_DIM), (head // num_q_per_kv).to(tl.int64) * stride_kv_head
    q = tl.load(q_ptr + batch * stride_q_batch + head * stride_q_head + d).to(tl.float32)
    m, l, acc = _one_head(
        q, k_pages_ptr + kv_offset, v_pages_ptr + kv_offset, block_table_ptr + batch * max_pages, 0,
        tl.load(seq_lens_ptr + batch), page_size, stride_page, stride_slot, softmax_scale * LOG2_E, HEAD_DIM, BLOCK_N,
    )  # fmt: skip
    l_safe = tl.where(l == 0.0, 1.0, l)  # a sequence without tokens: 0 / 1, and m stays -inf
    row = batch * tl.num_programs(0) + head
    tl.store(out_ptr + row * HEAD_DIM + d, (acc / l_safe).to(out_ptr.dtype.element_ty))
    tl.store(lse_ptr + row, (m + tl.log2(l_safe)) / LOG2_E)


@triton.jit
def paged_v2_kernel(
    q_ptr, k_pages_ptr, v_pages_ptr, block_table_ptr, seq_lens_ptr,  # as in paged_v1_kernel
    partial_out_ptr,  # (batch_size, num_heads, num_partitions, HEAD_DIM) float
    partial_lse_ptr,  # (batch_size, num_heads, num_partitions) float, natural log
    num_q_per_kv, page_size, max_pages, partition_len,
    stride_q_batch, stride_q_head, stride_page, stride_slot, stride_kv_head, softmax_scale,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """03_paged_v2, a partition of the keys. Grid (num_heads, num_partitions, batch_size)."""
    head, part, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    seq_len, start = tl.load(seq_lens_ptr + batch), part * partition_len
    if start < seq_len:
        d, kv_offset = tl.arange(0, HEAD_DIM), (head // num_q_per_kv).to(tl.int64) * stride_kv_head
        q = tl.load(q_ptr + batch * stride_q_batch + head * stride_q_head + d).to(tl.float32)
        m, l, acc = _one_head(
            q, k_pages_ptr + kv_offset, v_pages_ptr + kv_offset, block_table_ptr + batch * max_pages, start,
            tl.minimum(seq_len, start + partition_len), page_size, stride_page, stride_slot, softmax_scale * LOG2_E,
            HEAD_DIM, BLOCK_N,
        )  # fmt: skip
        row = (batch * tl.num_programs(0) + head) * tl.num_programs(1) + part
        tl.store(partial_out_ptr + row * HEAD_DIM + d, acc / l)
        tl.store(partial_lse_ptr + row, (m + tl.log2(l)) / LOG2_E)


@triton.jit
def reduce_kernel(
    partial_out_ptr,  # (batch_size, num_heads, num_partitions, HEAD_DIM) float
    partial_lse_ptr,  # (batch_size, num_heads, num_partitions) float, natural log
    seq_lens_ptr,  # (batch_size,) int32
    out_ptr,  # (batch_size, num_heads, HEAD_DIM)
    lse_ptr,  # (batch_size, num_heads) float, natural log
    num_partitions, partition_len,
    HEAD_DIM: tl.constexpr, BLOCK_S: tl.constexpr,  # BLOCK_S: partitions that are merged at a time
):  # fmt: skip
    """The second launch of 03 and 04: partitions to one row. Grid (num_heads, batch_size)."""
    batch = tl.program_id(1).to(tl.int64)
    row, d = batch * tl.num_programs(0) + tl.program_id(0), tl.arange(0, HEAD_DIM)
    count = tl.cdiv(tl.load(seq_lens_ptr + batch), partition_len)  # partitions that were written
    m, l, acc = -float("inf"), 0.0, tl.zeros((HEAD_DIM,), tl.float32)
    for start in range(0, count, BLOCK_S):
        parts = start + tl.arange(0, BLOCK_S)
        offsets = row * num_partitions + parts
        lse = tl.load(partial_lse_ptr + offsets, mask=parts < count, other=-float("inf")) * LOG2_E
        mask = (parts < count)[:, None]
        out = tl.load(partial_out_ptr + offsets[:, None] * HEAD_DIM + d[None, :], mask=mask, other=0.0)
        m, l, acc = take_in(m, l, acc, lse, out)
    l_safe = tl.where(l == 0.0, 1.0, l)
    tl.store(out_ptr + row * HEAD_DIM + d, (acc / l_safe).to(out_ptr.dtype.element_ty))
    tl.store(lse_ptr + row, (m + tl.log2(l_safe)) / LOG2_E)


@triton.jit
def paged_grouped_kernel(
    q_ptr, k_pages_ptr, v_pages_ptr, block_table_ptr, seq_lens_ptr,  # as in paged_v1_kernel
    partial_out_ptr,  # (batch_size, num_heads, num_splits, HEAD_DIM) float
    partial_lse_ptr,  # (batch_size, num_heads, num_splits) float, natural log
    num_kv_heads, page_size, max_pages, num_splits, split_len,
    stride_q_batch, stride_q_head, stride_page, stride_slot, stride_kv_head, softmax_scale,
    NUM_Q_PER_KV: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_N: keys of a tile
):  # fmt: skip
    """04_paged_grouped, a split of the keys for a whole group. Grid (batch_size * num_splits * num_kv_heads,)."""
    # region: heads
    kv_head, split = tl.program_id(0) % num_kv_heads, tl.program_id(0) // num_kv_heads % num_splits
    batch = (tl.program_id(0) // num_kv_heads // num_splits).to(tl.int64)
    seq_len, start = tl.load(seq_lens_ptr + batch), split * split_len
    if start < seq_len:
        end = tl.minimum(seq_len, start + split_len)
        rows, d = tl.arange(0, 16), tl.arange(0, HEAD_DIM)[None, :]  # 16 rows: the least that tl.dot takes
        head, is_head = kv_head * NUM_Q_PER_KV + rows, rows < NUM_Q_PER_KV
        q_offsets = batch * stride_q_batch + head[:, None].to(tl.int64) * stride_q_head + d
        q = tl.load(q_ptr + q_offsets, mask=is_head[:, None], other=0.0)  # (16, HEAD_DIM)
        block_table_ptr += batch * max_pages
        k_pages_ptr += kv_head.to(tl.int64) * stride_kv_head
        v_pages_ptr += kv_head.to(tl.int64) * stride_kv_head
        # endregion
        m, l = tl.full((16,), -float("inf"), tl.float32), tl.zeros((16,), tl.float32)
        acc = tl.zeros((16, HEAD_DIM), tl.float32)
        # region: loop
        for tile in range(start, end, BLOCK_N):
            keys = tile + tl.arange(0, BLOCK_N)
            offsets = _token_offsets(block_table_ptr, keys, end, page_size, stride_page, stride_slot)[:, None] + d
            k = tl.load(k_pages_ptr + offsets, mask=(keys < end)[:, None], other=0.0)  # (BLOCK_N, HEAD_DIM)
            v = tl.load(v_pages_ptr + offsets, mask=(keys < end)[:, None], other=0.0)
            scores = tl.dot(q, tl.trans(k)) * (softmax_scale * LOG2_E)  # (16, BLOCK_N)
            scores = tl.where((keys < end)[None, :], scores, -float("inf"))
            m, l, acc = take_in_rows(m, l, acc, scores, v)
        # endregion
        row = (batch * (num_kv_heads * NUM_Q_PER_KV) + head) * num_splits + split
        tl.store(partial_out_ptr + row[:, None] * HEAD_DIM + d, acc / l[:, None], mask=is_head[:, None])
        tl.store(partial_lse_ptr + row, (m + tl.log2(l)) / LOG2_E, mask=is_head)


@triton.jit
def copy_pages_kernel(
    k_pages_ptr,  # page p begins at p * stride_page, page_numel numbers without a gap
    v_pages_ptr,  # like k_pages
    copies_ptr,  # (num_copies, 2) int64: from page, to page
    page_numel,
    stride_page,
    BLOCK: tl.constexpr,
):
    """07_copy_pages. Grid (num_copies, 2): keys, values."""
    source, target = tl.load(copies_ptr + 2 * tl.program_id(0)), tl.load(copies_ptr + 2 * tl.program_id(0) + 1)
    for start in range(0, page_numel, BLOCK):
        i = start + tl.arange(0, BLOCK)
        if tl.program_id(1) == 0:
            part = tl.load(k_pages_ptr + source * stride_page + i, mask=i < page_numel)
            tl.store(k_pages_ptr + target * stride_page + i, part, mask=i < page_numel)
        else:
            part = tl.load(v_pages_ptr + source * stride_page + i, mask=i < page_numel)
            tl.store(v_pages_ptr + target * stride_page + i, part, mask=i < page_numel)
