import triton
import triton.language as tl


@triton.jit
def grouped_kernel(
    q_ptr,  # (batch_size, num_heads, HEAD_DIM) half, contiguous
    k_ptr,  # (batch_size, num_kv_heads, capacity, HEAD_DIM) half, contiguous
    v_ptr,  # like k
    seq_lens_ptr,  # (batch_size,) int, 0 to capacity: valid keys of each sequence
    out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads) float, natural log
    num_q_per_kv,  # 1 to ROWS
    capacity,
    softmax_scale,
    HEAD_DIM: tl.constexpr,  # a power of two, at least 16
    ROWS: tl.constexpr,  # rows of a product on tensor cores: 16
    BLOCK_N: tl.constexpr,  # keys of a tile
):
    """Decode attention, the query heads of a group as the rows of one tile. Grid (num_kv_heads, batch_size)."""
    kv_head = tl.program_id(1).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)  # over all batches
    seq_len = tl.load(seq_lens_ptr + tl.program_id(1))
    rows, d = tl.arange(0, ROWS), tl.arange(0, HEAD_DIM)[None, :]  # (ROWS,), (1, HEAD_DIM)
    ### BEGIN SOLUTION
    heads = kv_head * num_q_per_kv + rows  # the group's query heads are contiguous; counted over all batches
    q_offsets, q_mask = heads[:, None] * HEAD_DIM + d, rows[:, None] < num_q_per_kv  # (ROWS, HEAD_DIM), (ROWS, 1)
    q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)
    m, l = tl.full((ROWS,), -float("inf"), tl.float32), tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, HEAD_DIM), tl.float32)
    for start in range(0, seq_len, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        kv_offsets = (kv_head * capacity + keys[:, None]) * HEAD_DIM + d  # (BLOCK_N, HEAD_DIM)
        k = tl.load(k_ptr + kv_offsets, mask=keys[:, None] < seq_len, other=0.0)
        v = tl.load(v_ptr + kv_offsets, mask=keys[:, None] < seq_len, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * softmax_scale  # (ROWS, BLOCK_N)
        scores = tl.where(keys[None, :] < seq_len, scores, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        probs_unnorm = tl.exp(scores - m_new[:, None])
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(probs_unnorm, axis=1)
        acc = acc * alpha[:, None] + tl.dot(probs_unnorm.to(v.dtype), v)
        m = m_new
    l_safe = tl.where(l > 0.0, l, 1.0)  # a sequence without keys: 0 / 1, and m stays -inf
    tl.store(out_ptr + q_offsets, (acc / l_safe[:, None]).to(out_ptr.dtype.element_ty), mask=q_mask)
    tl.store(lse_ptr + heads, m + tl.log(l_safe), mask=rows < num_q_per_kv)
    ### END SOLUTION
