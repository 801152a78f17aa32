import triton
import triton.language as tl


@triton.jit
def flash_attention_1_causal_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float, contiguous
    k_ptr, v_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM) float, contiguous
    out_ptr,  # like q
    m_ptr, l_ptr, lse_ptr,  # (batch_size, num_heads, seq_len_q) float; lse: natural log
    num_q_per_kv, seq_len_q, seq_len_kv, softmax_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,  # BLOCK_D: HEAD_DIM rounded up to a power of two, at least 16
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_M: query rows of a tile; BLOCK_N: keys of a tile
):  # fmt: skip
    """FlashAttention-1, causal (bottom-right). Grid (num_heads, batch_size)."""
    num_heads = tl.num_programs(0)
    head = tl.program_id(1).to(tl.int64) * num_heads + tl.program_id(0)  # of q, over all batches
    kv_head = tl.program_id(1).to(tl.int64) * (num_heads // num_q_per_kv) + tl.program_id(0) // num_q_per_kv
    q_row_0, kv_row_0 = head * seq_len_q, kv_head * seq_len_kv  # rows before this head's own
    d, offset = tl.arange(0, BLOCK_D)[None, :], seq_len_kv - seq_len_q  # query q_row sees the keys up to q_row + offset

    for kv_start in range(0, seq_len_kv, BLOCK_N):
        keys = kv_start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        kv_offsets = (kv_row_0 + keys[:, None]) * HEAD_DIM + d  # (BLOCK_N, BLOCK_D)
        kv_mask = (keys[:, None] < seq_len_kv) & (d < HEAD_DIM)
        k = tl.load(k_ptr + kv_offsets, mask=kv_mask, other=0.0)
        v = tl.load(v_ptr + kv_offsets, mask=kv_mask, other=0.0)
        ### BEGIN SOLUTION
        # GIVEN: first_row = 0
        first_row = tl.where(kv_start > 0, tl.maximum(kv_start - offset, 0), 0)  # tile 0 is where every row begins
        ### END SOLUTION
        tl.debug_barrier()  # separates the writes of (m, l, out) in the tile before from the reads below
        for q_start in range(first_row // BLOCK_M * BLOCK_M, seq_len_q, BLOCK_M):
            rows = q_start + tl.arange(0, BLOCK_M)  # (BLOCK_M,)
            row_mask, not_first = rows < seq_len_q, kv_start > 0
            q_offsets = (q_row_0 + rows[:, None]) * HEAD_DIM + d  # (BLOCK_M, BLOCK_D)
            q_mask = row_mask[:, None] & (d < HEAD_DIM)
            q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)
            scores = tl.dot(q, tl.trans(k), input_precision="ieee") * softmax_scale  # (BLOCK_M, BLOCK_N)
            ### BEGIN SOLUTION unmarked
            # GIVEN: visible = keys[None, :] < seq_len_kv
            visible = (keys[None, :] < seq_len_kv) & (keys[None, :] <= rows[:, None] + offset)
            ### END SOLUTION
            scores = tl.where(visible, scores, -float("inf"))

            m_old = tl.load(m_ptr + q_row_0 + rows, mask=row_mask & not_first, other=-float("inf"))  # (BLOCK_M,)
            l_old = tl.load(l_ptr + q_row_0 + rows, mask=row_mask & not_first, other=0.0)
            m_new = tl.maximum(m_old, tl.max(scores, axis=1))
            shift = tl.where(m_new == -float("inf"), 0.0, m_new)  # never -inf minus -inf
            probs_unnorm, old_sum = tl.exp(scores - shift[:, None]), l_old * tl.exp(m_old - shift)  # l_old * alpha
            l_new = old_sum + tl.sum(probs_unnorm, axis=1)
            acc = tl.load(out_ptr + q_offsets, mask=q_mask & not_first, other=0.0) * old_sum[:, None]
            acc += tl.dot(probs_unnorm, v, input_precision="ieee")  # (BLOCK_M, BLOCK_D)
            l_safe = tl.where(l_new > 0.0, l_new, 1.0)  # a fully masked row: 0 / 1
            tl.store(out_ptr + q_offsets, acc / l_safe[:, None], mask=q_mask)
            tl.store(m_ptr + q_row_0 + rows, m_new, mask=row_mask)
            tl.store(l_ptr + q_row_0 + rows, l_new, mask=row_mask)

    tl.debug_barrier()  # separates the last writes of m and l from these reads
    for q_start in range(0, seq_len_q, BLOCK_M):
        rows = q_start + tl.arange(0, BLOCK_M)
        l = tl.load(l_ptr + q_row_0 + rows, mask=rows < seq_len_q, other=1.0)
        m = tl.load(m_ptr + q_row_0 + rows, mask=rows < seq_len_q, other=0.0)
        lse = m + tl.log(tl.where(l > 0.0, l, 1.0))  # a fully masked row: m is -inf, and so is the sum
        tl.store(lse_ptr + q_row_0 + rows, lse, mask=rows < seq_len_q)
