import triton
import triton.language as tl


@triton.jit
def paged_partitions_kernel(
    q_ptr,  # (batch_size, num_heads, HEAD_DIM) float, contiguous
    k_pages_ptr,  # float: page p, slot s, head h begins at p * stride_page + s * stride_slot + h * stride_kv_head
    v_pages_ptr,  # like k_pages
    block_table_ptr,  # (batch_size, max_pages) int32
    seq_lens_ptr,  # (batch_size,) int32
    out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads) float, natural log
    partial_out_ptr,  # (batch_size, num_heads, num_partitions, HEAD_DIM) float, normalised within its partition
    partial_lse_ptr,  # (batch_size, num_heads, num_partitions) float, natural log; -inf without a key
    counters_ptr,  # (batch_size, num_heads) int32, zero on entry
    num_q_per_kv, max_pages, partition_len,  # partition_len: keys of a partition, any number from 1 on
    stride_page, stride_slot, stride_kv_head, softmax_scale,
    HEAD_DIM: tl.constexpr, PAGE_SIZE: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_N: keys of a tile
    BLOCK_P: tl.constexpr,  # num_partitions, rounded up to a power of two
):  # fmt: skip
    """Decode attention, a partition a program; the last one of a row reduces. Grid (num_heads, num_partitions, B)."""
    head, part, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    row, d = batch * tl.num_programs(0) + head, tl.arange(0, HEAD_DIM)
    num_partitions, seq_len = tl.num_programs(1), tl.load(seq_lens_ptr + batch)
    ### BEGIN SOLUTION
    first = part * partition_len  # the partition's first key
    end = tl.minimum(seq_len, first + partition_len)  # one past its last key
    num_parts = tl.maximum(tl.cdiv(seq_len, partition_len), 1)  # programs that take part; one for an empty sequence
    ### END SOLUTION
    if part < num_parts:
        q = tl.load(q_ptr + row * HEAD_DIM + d)
        kv_offsets = (head // num_q_per_kv).to(tl.int64) * stride_kv_head + d[None, :]
        m, l, acc = -float("inf"), 0.0, tl.zeros((HEAD_DIM,), tl.float32)
        for start in range(first, end, BLOCK_N):
            keys = start + tl.arange(0, BLOCK_N)
            page = tl.load(block_table_ptr + batch * max_pages + keys // PAGE_SIZE, mask=keys < end, other=0)
            offsets = page.to(tl.int64)[:, None] * stride_page + (keys % PAGE_SIZE)[:, None] * stride_slot + kv_offsets
            k = tl.load(k_pages_ptr + offsets, mask=(keys < end)[:, None], other=0.0)
            v = tl.load(v_pages_ptr + offsets, mask=(keys < end)[:, None], other=0.0)
            scores = tl.where(keys < end, tl.sum(q[None, :] * k, axis=1) * softmax_scale, -float("inf"))
            m_new = tl.maximum(m, tl.max(scores, axis=0))
            alpha, probs_unnorm = tl.exp(m - m_new), tl.exp(scores - m_new)
            l = l * alpha + tl.sum(probs_unnorm, axis=0)
            acc = acc * alpha + tl.sum(probs_unnorm[:, None] * v, axis=0)
            m = m_new
        l_safe = tl.where(l > 0.0, l, 1.0)
        offset = row * num_partitions + part
        tl.store(partial_out_ptr + offset * HEAD_DIM + d, acc / l_safe)
        tl.store(partial_lse_ptr + offset, m + tl.log(l_safe))
        tl.debug_barrier()  # the stores of all threads come before the count of one
        arrived = tl.atomic_add(counters_ptr + row, 1, sem="acq_rel")
        if arrived == num_parts - 1:  # the last one: all partitions of this row are written
            parts = tl.arange(0, BLOCK_P)
            ### BEGIN SOLUTION unmarked
            mask = parts < num_parts
            rows = row * num_partitions + parts  # of partial_out and partial_lse
            part_lse = tl.load(partial_lse_ptr + rows, mask=mask, other=-float("inf"))  # (BLOCK_P,)
            part_out = tl.load(partial_out_ptr + rows[:, None] * HEAD_DIM + d[None, :], mask=mask[:, None], other=0.0)
            largest = tl.max(part_lse, axis=0)
            weights = tl.where(part_lse > -float("inf"), tl.exp(part_lse - largest), 0.0)
            total = tl.sum(weights, axis=0)
            total = tl.where(total > 0.0, total, 1.0)  # an empty sequence: 0 / 1, and largest is -inf
            tl.store(out_ptr + row * HEAD_DIM + d, tl.sum(weights[:, None] * part_out, axis=0) / total)
            tl.store(lse_ptr + row, largest + tl.log(total))
            ### END SOLUTION
