import triton
import triton.language as tl


@triton.jit
def d_q_d_k_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float or half, contiguous
    k_ptr, v_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM), like q
    out_ptr, d_out_ptr, lse_ptr,  # like q; lse (batch_size, num_heads, seq_len_q) float, natural log, -inf: no key seen
    d_q_ptr, d_k_ptr, num_q_per_kv, seq_len_q, seq_len_kv, softmax_scale,  # d_q like q, d_k like k
    causal, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """d_q of a tile of queries, d_k of one of keys; causal is 0 or 1. Grid (enough tiles, num_heads, batch_size)."""
    tile, q_head = tl.program_id(0), tl.program_id(2).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
    kv_head, d = q_head // num_q_per_kv, tl.arange(0, BLOCK_D)[None, :]
    offset = tl.where(causal != 0, seq_len_kv - seq_len_q, seq_len_kv)  # query q_row sees keys up to q_row + offset
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)  # a fixed tile of queries, a loop over keys
    q_offsets = (q_head * seq_len_q + rows[:, None]) * HEAD_DIM + d  # (BLOCK_M, BLOCK_D)
    q_mask = (rows[:, None] < seq_len_q) & (d < HEAD_DIM)
    q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)
    d_out = tl.load(d_out_ptr + q_offsets, mask=q_mask, other=0.0)
    out = tl.load(out_ptr + q_offsets, mask=q_mask, other=0.0)
    lse = tl.load(lse_ptr + q_head * seq_len_q + rows, mask=rows < seq_len_q, other=0.0)  # (BLOCK_M,)
    d_q = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for kv_start in range(0, seq_len_kv, BLOCK_N):
        keys = kv_start + tl.arange(0, BLOCK_N)
        kv_offsets = (kv_head * seq_len_kv + keys[:, None]) * HEAD_DIM + d  # (BLOCK_N, BLOCK_D)
        kv_mask = (keys[:, None] < seq_len_kv) & (d < HEAD_DIM)
        k = tl.load(k_ptr + kv_offsets, mask=kv_mask, other=0.0)
        v = tl.load(v_ptr + kv_offsets, mask=kv_mask, other=0.0)
        ### BEGIN SOLUTION
        row_dot = tl.sum(d_out.to(tl.float32) * out.to(tl.float32), axis=1)  # D, (BLOCK_M,)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * softmax_scale  # (BLOCK_M, BLOCK_N)
        probs = tl.where(keys[None, :] <= rows[:, None] + offset, tl.exp(scores - lse[:, None]), 0.0)
        d_probs = tl.dot(d_out, tl.trans(v), input_precision="ieee")
        d_scores = probs * (d_probs - row_dot[:, None]) * softmax_scale
        d_q += tl.dot(d_scores.to(k.dtype), k, input_precision="ieee")
        ### END SOLUTION
    tl.store(d_q_ptr + q_offsets, d_q.to(d_q_ptr.dtype.element_ty), mask=q_mask)
    if q_head % num_q_per_kv == 0:  # a fixed tile of keys, a loop over the group's queries; one program of it is enough
        keys = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        kv_offsets = (kv_head * seq_len_kv + keys[:, None]) * HEAD_DIM + d
        kv_mask = (keys[:, None] < seq_len_kv) & (d < HEAD_DIM)
        k = tl.load(k_ptr + kv_offsets, mask=kv_mask, other=0.0)
        v = tl.load(v_ptr + kv_offsets, mask=kv_mask, other=0.0)
        d_k = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
        for one_head in range(q_head, q_head + num_q_per_kv):
            for q_start in range(0, seq_len_q, BLOCK_M):
                rows = q_start + tl.arange(0, BLOCK_M)
                q_offsets = (one_head * seq_len_q + rows[:, None]) * HEAD_DIM + d
                q_mask = (rows[:, None] < seq_len_q) & (d < HEAD_DIM)
                q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)
                d_out = tl.load(d_out_ptr + q_offsets, mask=q_mask, other=0.0)
                out = tl.load(out_ptr + q_offsets, mask=q_mask, other=0.0)
                lse = tl.load(lse_ptr + one_head * seq_len_q + rows, mask=rows < seq_len_q, other=0.0)
                ### BEGIN SOLUTION unmarked
                row_dot = tl.sum(d_out.to(tl.float32) * out.to(tl.float32), axis=1)
                scores_t = tl.dot(k, tl.trans(q), input_precision="ieee") * softmax_scale  # (BLOCK_N, BLOCK_M)
                visible_t = keys[:, None] <= rows[None, :] + offset
                probs_t = tl.where(visible_t, tl.exp(scores_t - lse[None, :]), 0.0)
                d_probs_t = tl.dot(v, tl.trans(d_out), input_precision="ieee")
                d_scores_t = probs_t * (d_probs_t - row_dot[None, :]) * softmax_scale
                d_k += tl.dot(d_scores_t.to(q.dtype), q, input_precision="ieee")
                ### END SOLUTION
        tl.store(d_k_ptr + kv_offsets, d_k.to(d_k_ptr.dtype.element_ty), mask=kv_mask)
