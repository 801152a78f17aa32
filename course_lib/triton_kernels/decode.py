"""Triton twins of kernels_cu/decode: one query a sequence, a head, a split of its keys or a group of heads a program.

What the compiler does with a tile of keys (16-byte loads, tensor cores, several tiles under way) is what
04_grouped_heads.cu writes out. Keys at and past the end are masked: their rows are undefined and never enter.

May import: triton, notation, state.
"""

import triton
import triton.language as tl

from .. import notation
from .state import take_in, take_in_rows

LOG2_E = tl.constexpr(notation.LOG2_E)


# fmt: off
@triton.jit
def _one_head(
    q, k_ptr, v_ptr, start, end, stride_kv_token, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, NUM_STAGES: tl.constexpr
):
# fmt: on
    """(m, l, acc) of one query over the keys start .. end; m in units of log2, -inf for no key."""
    # region: walk
    d = tl.arange(0, HEAD_DIM)[None, :]
    m, l, acc = -float("inf"), 0.0, tl.zeros((HEAD_DIM,), tl.float32)
    for tile in tl.range(start, end, BLOCK_N, num_stages=NUM_STAGES):  # tiles under way; unasked, only tl.dot has them
        keys = tile + tl.arange(0, BLOCK_N)
        offsets = keys[:, None].to(tl.int64) * stride_kv_token + d  # 64 bits: a cache may hold more than 2^31 elements
        k = tl.load(k_ptr + offsets, mask=(keys < end)[:, None], other=0.0).to(tl.float32)  # (BLOCK_N, HEAD_DIM)
        v = tl.load(v_ptr + offsets, mask=(keys < end)[:, None], other=0.0).to(tl.float32)
        scores = tl.where(keys < end, tl.sum(q[None, :] * k, axis=1) * scale_log2, -float("inf"))
        m, l, acc = take_in(m, l, acc, scores, v)
    # endregion
    return m, l, acc


@triton.jit
def _merged(partial_out_ptr, partial_lse_ptr, row, num_splits, count, HEAD_DIM: tl.constexpr, BLOCK_S: tl.constexpr):
    """(out, lse) of one row from its first `count` splits; of a split with lse -inf nothing else is read."""
    # region: combine
    d = tl.arange(0, HEAD_DIM)[None, :]
    m, l, acc = -float("inf"), 0.0, tl.zeros((HEAD_DIM,), tl.float32)
    for start in range(0, count, BLOCK_S):
        splits = start + tl.arange(0, BLOCK_S)
        part = row * num_splits + splits
        # .cg reads from L2: this multiprocessor's L1 may hold what another one has overwritten since
        lse = tl.load(partial_lse_ptr + part, mask=splits < count, other=-float("inf"), cache_modifier=".cg") * LOG2_E
        full = (lse > -float("inf"))[:, None]
        out = tl.load(partial_out_ptr + part[:, None] * HEAD_DIM + d, mask=full, other=0.0, cache_modifier=".cg")
        m_new = tl.maximum(m, tl.max(lse, axis=0))
        m_safe = tl.where(m_new > -float("inf"), m_new, 0.0)  # nothing but empty splits so far: weights 0, not NaN
        alpha, weight = tl.exp2(m - m_safe), tl.exp2(lse - m_safe)
        l = l * alpha + tl.sum(weight, axis=0)
        acc = acc * alpha + tl.sum(weight[:, None] * out, axis=0)
        m = m_new
    # endregion
    l_safe = tl.where(l == 0.0, 1.0, l)
    return acc / l_safe, (m + tl.log2(l_safe)) / LOG2_E


# fmt: off
@triton.jit
def _one_group(
    q, k_ptr, v_ptr, start, end, stride_kv_token, scale_log2, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr
):
# fmt: on
    """(m, l, acc) of the 16 rows of `q` (16, HEAD_DIM) over the keys start .. end; m in units of log2."""
    m, l = tl.full((16,), -float("inf"), tl.float32), tl.zeros((16,), tl.float32)
    acc = tl.zeros((16, HEAD_DIM), tl.float32)
    # region: walk
    for tile in range(start, end, BLOCK_N):
        keys = tile + tl.arange(0, BLOCK_N)
        offsets = keys[:, None].to(tl.int64) * stride_kv_token + tl.arange(0, HEAD_DIM)[None, :]
        k = tl.load(k_ptr + offsets, mask=(keys < end)[:, None], other=0.0)  # (BLOCK_N, HEAD_DIM), once a group
        v = tl.load(v_ptr + offsets, mask=(keys < end)[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale_log2  # (16, BLOCK_N)
        scores = tl.where((keys < end)[None, :], scores, -float("inf"))
        m, l, acc = take_in_rows(m, l, acc, scores, v)
    # endregion
    return m, l, acc


@triton.jit
def single_pass_kernel(
    q_ptr,  # (batch_size, num_heads, HEAD_DIM) half, any stride of batch and head
    k_ptr,  # sequence b, head h, token t begins at b * stride_kv_batch + h * stride_kv_head + t * stride_kv_token
    v_ptr,  # like k
    seq_lens_ptr,  # (batch_size,) int32
    out_ptr,  # (batch_size, num_heads, HEAD_DIM), contiguous
    lse_ptr,  # (batch_size, num_heads) float, natural log
    num_q_per_kv,
    stride_q_batch, stride_q_head, stride_kv_batch, stride_kv_token, stride_kv_head, softmax_scale,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_N: keys of a tile
    NUM_STAGES: tl.constexpr,  # tiles under way
):  # fmt: skip
    """01_single_pass. Grid (num_heads, batch_size)."""
    head, batch = tl.program_id(0), tl.program_id(1).to(tl.int64)
    d = tl.arange(0, HEAD_DIM)
    kv_offset = batch * stride_kv_batch + (head // num_q_per_kv).to(tl.int64) * stride_kv_head
    q = tl.load(q_ptr + batch * stride_q_batch + head * stride_q_head + d).to(tl.float32)
    m, l, acc = _one_head(
        q, k_ptr + kv_offset, v_ptr + kv_offset, 0, tl.load(seq_lens_ptr + batch), stride_kv_token,
        softmax_scale * LOG2_E, HEAD_DIM, BLOCK_N, NUM_STAGES,
    )  # fmt: skip
    l_safe = tl.where(l == 0.0, 1.0, l)  # a sequence without tokens: 0 / 1, and m stays -inf
    row = batch * tl.num_programs(0) + head
    tl.store(out_ptr + row * HEAD_DIM + d, (acc / l_safe).to(out_ptr.dtype.element_ty))
    tl.store(lse_ptr + row, (m + tl.log2(l_safe)) / LOG2_E)


@triton.jit
def split_kv_kernel(
    q_ptr, k_ptr, v_ptr, seq_lens_ptr,  # as in single_pass_kernel
    partial_out_ptr,  # (batch_size, num_heads, num_splits, HEAD_DIM) float; not written for an empty split
    partial_lse_ptr,  # (batch_size, num_heads, num_splits) float, natural log; -inf for an empty split
    num_q_per_kv, split_len,
    stride_q_batch, stride_q_head, stride_kv_batch, stride_kv_token, stride_kv_head, softmax_scale,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, NUM_STAGES: tl.constexpr,
):  # fmt: skip
    """02_split_kv, one split of the keys. Grid (num_heads, num_splits, batch_size)."""
    head, split, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    row = (batch * tl.num_programs(0) + head) * tl.num_programs(1) + split
    seq_len, start = tl.load(seq_lens_ptr + batch), split * split_len
    if start < seq_len:
        d = tl.arange(0, HEAD_DIM)
        kv_offset = batch * stride_kv_batch + (head // num_q_per_kv).to(tl.int64) * stride_kv_head
        q = tl.load(q_ptr + batch * stride_q_batch + head * stride_q_head + d).to(tl.float32)
        m, l, acc = _one_head(
            q, k_ptr + kv_offset, v_ptr + kv_offset, start, tl.minimum(seq_len, start + split_len), stride_kv_token,
            softmax_scale * LOG2_E, HEAD_DIM, BLOCK_N, NUM_STAGES,
        )  # fmt: skip
        tl.store(partial_out_ptr + row * HEAD_DIM + d, acc / l)
        tl.store(partial_lse_ptr + row, (m + tl.log2(l)) / LOG2_E)
    else:
        tl.store(partial_lse_ptr + row, -float("inf"))


@triton.jit
def combine_kernel(
    partial_out_ptr,  # (batch_size, num_heads, num_splits, HEAD_DIM) float
    partial_lse_ptr,  # (batch_size, num_heads, num_splits) float, natural log
    out_ptr,  # (batch_size, num_heads, HEAD_DIM)
    lse_ptr,  # (batch_size, num_heads) float, natural log
    num_splits,
    HEAD_DIM: tl.constexpr,
    BLOCK_S: tl.constexpr,  # splits that are merged at a time
):
    """The second launch of 02: splits to one row. Grid (num_heads, batch_size)."""
    row = tl.program_id(1).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
    out, lse = _merged(partial_out_ptr, partial_lse_ptr, row, num_splits, num_splits, HEAD_DIM, BLOCK_S)
    tl.store(out_ptr + row * HEAD_DIM + tl.arange(0, HEAD_DIM), out.to(out_ptr.dtype.element_ty))
    tl.store(lse_ptr + row, lse)


@triton.jit
def fused_combine_kernel(
    q_ptr, k_ptr, v_ptr, seq_lens_ptr, out_ptr, lse_ptr,  # as in single_pass_kernel
    partial_out_ptr,  # (batch_size, num_heads, num_splits, HEAD_DIM) float
    partial_lse_ptr,  # (batch_size, num_heads, num_splits) float, natural log
    counters_ptr,  # (batch_size, num_heads) int32, 0 before and after every launch
    num_q_per_kv, split_len,
    stride_q_batch, stride_q_head, stride_kv_batch, stride_kv_token, stride_kv_head, softmax_scale,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, NUM_STAGES: tl.constexpr,
    BLOCK_S: tl.constexpr,  # splits that are merged at a time
):  # fmt: skip
    """03_fused_combine. Grid (num_heads, num_splits, batch_size); the last program of a head to finish merges."""
    head, split, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    seq_len, start = tl.load(seq_lens_ptr + batch), split * split_len
    splits_here = tl.maximum(tl.cdiv(seq_len, split_len), 1)  # those that have keys; the first one always counts
    if split < splits_here:
        d, row = tl.arange(0, HEAD_DIM), batch * tl.num_programs(0) + head
        kv_offset = batch * stride_kv_batch + (head // num_q_per_kv).to(tl.int64) * stride_kv_head
        q = tl.load(q_ptr + batch * stride_q_batch + head * stride_q_head + d).to(tl.float32)
        m, l, acc = _one_head(
            q, k_ptr + kv_offset, v_ptr + kv_offset, start, tl.minimum(seq_len, start + split_len), stride_kv_token,
            softmax_scale * LOG2_E, HEAD_DIM, BLOCK_N, NUM_STAGES,
        )  # fmt: skip
        l_safe = tl.where(l == 0.0, 1.0, l)  # a sequence without tokens
        part = row * tl.num_programs(1) + split
        tl.store(partial_out_ptr + part * HEAD_DIM + d, acc / l_safe)
        tl.store(partial_lse_ptr + part, (m + tl.log2(l_safe)) / LOG2_E)
        # region: last
        tl.debug_barrier()  # separates this program's part, which many threads wrote, from its being counted
        if tl.atomic_add(counters_ptr + row, 1, sem="acq_rel") == splits_here - 1:
            tl.store(counters_ptr + row, 0)  # ready for the next launch
            num_splits = tl.num_programs(1)
            out, lse = _merged(partial_out_ptr, partial_lse_ptr, row, num_splits, splits_here, HEAD_DIM, BLOCK_S)
            tl.store(out_ptr + row * HEAD_DIM + d, out.to(out_ptr.dtype.element_ty))
            tl.store(lse_ptr + row, lse)
        # endregion


@triton.jit
def grouped_heads_kernel(
    q_ptr, k_ptr, v_ptr, seq_lens_ptr, out_ptr, lse_ptr,  # as in single_pass_kernel
    partial_out_ptr,  # (batch_size, num_heads, num_splits, HEAD_DIM) float
    partial_lse_ptr,  # (batch_size, num_heads, num_splits) float, natural log
    counters_ptr,  # (batch_size, num_kv_heads) int32, 0 before and after every launch
    num_kv_heads, num_splits, split_len,
    stride_q_batch, stride_q_head, stride_kv_batch, stride_kv_token, stride_kv_head, softmax_scale,
    NUM_Q_PER_KV: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_N: keys of a tile
    BLOCK_S: tl.constexpr,  # splits that are merged at a time
):  # fmt: skip
    """04_grouped_heads, a split of the keys for a whole group. Grid (batch_size * num_splits * num_kv_heads,)."""
    # region: heads
    kv_head, split = tl.program_id(0) % num_kv_heads, tl.program_id(0) // num_kv_heads % num_splits
    batch = (tl.program_id(0) // num_kv_heads // num_splits).to(tl.int64)
    seq_len, start = tl.load(seq_lens_ptr + batch), split * split_len
    splits_here = tl.maximum(tl.cdiv(seq_len, split_len), 1)
    if split < splits_here:
        end = tl.minimum(seq_len, start + split_len)
        rows, d = tl.arange(0, 16), tl.arange(0, HEAD_DIM)[None, :]  # 16 rows: the least that tl.dot takes
        is_head = rows < NUM_Q_PER_KV
        q_offsets = batch * stride_q_batch + (kv_head * NUM_Q_PER_KV + rows[:, None]).to(tl.int64) * stride_q_head + d
        q = tl.load(q_ptr + q_offsets, mask=is_head[:, None], other=0.0)  # (16, HEAD_DIM)
        k_ptr += batch * stride_kv_batch + kv_head.to(tl.int64) * stride_kv_head
        v_ptr += batch * stride_kv_batch + kv_head.to(tl.int64) * stride_kv_head
        # endregion
        m, l, acc = _one_group(
            q, k_ptr, v_ptr, start, end, stride_kv_token, softmax_scale * LOG2_E, HEAD_DIM, BLOCK_N
        )
        # region: store
        l_safe = tl.where(l == 0.0, 1.0, l)
        first_row = (batch * num_kv_heads + kv_head) * NUM_Q_PER_KV  # of out and lse: the group's first head
        part = (first_row + rows) * num_splits + split
        tl.store(partial_out_ptr + part[:, None] * HEAD_DIM + d, acc / l_safe[:, None], mask=is_head[:, None])
        tl.store(partial_lse_ptr + part, (m + tl.log2(l_safe)) / LOG2_E, mask=is_head)
        # endregion
        # region: last
        tl.debug_barrier()  # separates this program's part, which many threads wrote, from its being counted
        counter_ptr = counters_ptr + batch * num_kv_heads + kv_head
        if tl.atomic_add(counter_ptr, 1, sem="acq_rel") == splits_here - 1:
            tl.store(counter_ptr, 0)  # ready for the next launch
            for row in range(first_row, first_row + NUM_Q_PER_KV):
                out, lse = _merged(partial_out_ptr, partial_lse_ptr, row, num_splits, splits_here, HEAD_DIM, BLOCK_S)
                tl.store(out_ptr + row * HEAD_DIM + tl.arange(0, HEAD_DIM), out.to(out_ptr.dtype.element_ty))
                tl.store(lse_ptr + row, lse)
        # endregion
