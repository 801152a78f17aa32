import triton
import triton.language as tl


@triton.jit
def d_v_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float or half, contiguous
    k_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM), like q
    d_out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads, seq_len_q) float, natural log; -inf for a row that saw no key
    d_v_ptr,  # like k
    num_q_per_kv, seq_len_q, seq_len_kv, softmax_scale, causal,  # causal: 0 or 1; bottom-right
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,  # BLOCK_D: HEAD_DIM rounded up to a power of two, at least 16
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_M: query rows of a tile; BLOCK_N: keys of a tile
):  # fmt: skip
    """d_v = P^T d_out, P recomputed from lse. Grid (ceil(seq_len_kv / BLOCK_N), num_kv_heads, batch_size)."""
    kv_head = tl.program_id(2).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)  # over all batches
    keys, d = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)[None, :]
    kv_offsets = (kv_head * seq_len_kv + keys[:, None]) * HEAD_DIM + d  # (BLOCK_N, BLOCK_D)
    kv_mask = (keys[:, None] < seq_len_kv) & (d < HEAD_DIM)
    k = tl.load(k_ptr + kv_offsets, mask=kv_mask, other=0.0)
    offset = tl.where(causal != 0, seq_len_kv - seq_len_q, seq_len_kv)  # query q_row sees keys up to q_row + offset
    ### BEGIN SOLUTION
    d_v = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    for q_head in range(kv_head * num_q_per_kv, (kv_head + 1) * num_q_per_kv):
        for q_start in range(0, seq_len_q, BLOCK_M):
            rows = q_start + tl.arange(0, BLOCK_M)  # (BLOCK_M,)
            q_offsets = (q_head * seq_len_q + rows[:, None]) * HEAD_DIM + d  # (BLOCK_M, BLOCK_D)
            q_mask = (rows[:, None] < seq_len_q) & (d < HEAD_DIM)
            q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)
            d_out = tl.load(d_out_ptr + q_offsets, mask=q_mask, other=0.0)
            lse = tl.load(lse_ptr + q_head * seq_len_q + rows, mask=rows < seq_len_q, other=0.0)
            scores_t = tl.dot(k, tl.trans(q), input_precision="ieee") * softmax_scale  # (BLOCK_N, BLOCK_M)
            visible_t = keys[:, None] <= rows[None, :] + offset
            probs_t = tl.where(visible_t, tl.exp(scores_t - lse[None, :]), 0.0)
            d_v += tl.dot(probs_t.to(d_out.dtype), d_out, input_precision="ieee")
    tl.store(d_v_ptr + kv_offsets, d_v.to(d_v_ptr.dtype.element_ty), mask=kv_mask)
    ### END SOLUTION
