import triton
import triton.language as tl


@triton.jit
def window_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float, contiguous
    k_ptr, v_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM) float, contiguous
    out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads, seq_len_q) float, natural log
    num_q_per_kv, seq_len_q, seq_len_kv, softmax_scale,
    window_left, soft_cap,  # keys before its own that a query sees; the bound of a score
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,  # BLOCK_D: HEAD_DIM rounded up to a power of two, at least 16
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_M: query rows of a tile; BLOCK_N: keys of a tile
):  # fmt: skip
    """Attention in a causal window (bottom-right), scores capped. Grid (ceil(seq_len_q / BLOCK_M), H, B)."""
    num_heads, head = tl.num_programs(1), tl.program_id(1)
    q_head = tl.program_id(2).to(tl.int64) * num_heads + head  # over all batches
    kv_head = tl.program_id(2).to(tl.int64) * (num_heads // num_q_per_kv) + head // num_q_per_kv
    q_start = tl.program_id(0) * BLOCK_M
    rows, d = q_start + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)[None, :]  # (BLOCK_M,), (1, BLOCK_D)
    q_offsets = (q_head * seq_len_q + rows[:, None]) * HEAD_DIM + d  # (BLOCK_M, BLOCK_D)
    q_mask = (rows[:, None] < seq_len_q) & (d < HEAD_DIM)
    q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)
    m, l = tl.full((BLOCK_M,), -float("inf"), tl.float32), tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    offset = seq_len_kv - seq_len_q
    positions = rows + offset  # of the queries among the keys: each sees the keys up to its own position
    kv_end = tl.minimum(q_start + BLOCK_M, seq_len_q) + offset  # one past the last key that the tile's last row sees
    ### BEGIN SOLUTION
    # GIVEN: kv_begin = 0
    kv_begin = tl.maximum(q_start + offset - window_left, 0) // BLOCK_N * BLOCK_N  # of the first key that row 0 sees
    ### END SOLUTION

    for kv_start in range(kv_begin, kv_end, BLOCK_N):
        keys = kv_start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        kv_offsets = (kv_head * seq_len_kv + keys[:, None]) * HEAD_DIM + d  # (BLOCK_N, BLOCK_D)
        kv_mask = (keys[:, None] < seq_len_kv) & (d < HEAD_DIM)
        k = tl.load(k_ptr + kv_offsets, mask=kv_mask, other=0.0)
        v = tl.load(v_ptr + kv_offsets, mask=kv_mask, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * softmax_scale  # (BLOCK_M, BLOCK_N)
        ### BEGIN SOLUTION unmarked
        # GIVEN: visible = (keys[None, :] < seq_len_kv) & (keys[None, :] <= positions[:, None])
        scores = soft_cap * (2.0 * tl.sigmoid(2.0 * scores / soft_cap) - 1.0)
        visible = (keys[None, :] <= positions[:, None]) & (keys[None, :] >= positions[:, None] - window_left)
        ### END SOLUTION
        scores = tl.where(visible, scores, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)  # never -inf minus -inf
        probs_unnorm, alpha = tl.exp(scores - shift[:, None]), tl.exp(m - shift)
        l = l * alpha + tl.sum(probs_unnorm, axis=1)
        acc = acc * alpha[:, None] + tl.dot(probs_unnorm, v, input_precision="ieee")
        m = m_new

    l_safe = tl.where(l > 0.0, l, 1.0)  # a fully masked row: 0 / 1, and m stays -inf
    tl.store(out_ptr + q_offsets, acc / l_safe[:, None], mask=q_mask)
    tl.store(lse_ptr + q_head * seq_len_q + rows, m + tl.log(l_safe), mask=rows < seq_len_q)
