import triton
import triton.language as tl


@triton.jit
def flash_attention_2_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float or half, contiguous
    k_ptr, v_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM), like q
    out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads, seq_len_q) float, natural log
    num_q_per_kv, seq_len_q, seq_len_kv, softmax_scale,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,  # BLOCK_D: HEAD_DIM rounded up to a power of two, at least 16
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_M: query rows of a tile; BLOCK_N: keys of a tile
):  # fmt: skip
    """Attention forward, no mask. Grid (ceil(seq_len_q / BLOCK_M), num_heads, batch_size)."""
    num_heads, head = tl.num_programs(1), tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)  # (BLOCK_M,)
    d = tl.arange(0, BLOCK_D)  # (BLOCK_D,)
    ### BEGIN SOLUTION
    q_head = tl.program_id(2).to(tl.int64) * num_heads + head  # over all batches
    kv_head = tl.program_id(2).to(tl.int64) * (num_heads // num_q_per_kv) + head // num_q_per_kv
    q_offsets = (q_head * seq_len_q + rows[:, None]) * HEAD_DIM + d[None, :]  # (BLOCK_M, BLOCK_D)
    q_mask = (rows[:, None] < seq_len_q) & (d[None, :] < HEAD_DIM)
    q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for kv_start in range(0, seq_len_kv, BLOCK_N):
        keys = kv_start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        kv_offsets = (kv_head * seq_len_kv + keys[None, :]) * HEAD_DIM + d[:, None]  # (BLOCK_D, BLOCK_N): tiles on end
        kv_mask = (keys[None, :] < seq_len_kv) & (d[:, None] < HEAD_DIM)
        k_t = tl.load(k_ptr + kv_offsets, mask=kv_mask, other=0.0)
        scores = tl.dot(q, k_t, input_precision="ieee") * softmax_scale  # (BLOCK_M, BLOCK_N)
        scores = tl.where(keys[None, :] < seq_len_kv, scores, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        probs_unnorm = tl.exp(scores - m_new[:, None])
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(probs_unnorm, axis=1)
        v_t = tl.load(v_ptr + kv_offsets, mask=kv_mask, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(probs_unnorm.to(v_t.dtype), tl.trans(v_t), input_precision="ieee")
        m = m_new
    tl.store(out_ptr + q_offsets, (acc / l[:, None]).to(out_ptr.dtype.element_ty), mask=q_mask)
    tl.store(lse_ptr + q_head * seq_len_q + rows, m + tl.log(l), mask=rows < seq_len_q)
    ### END SOLUTION
