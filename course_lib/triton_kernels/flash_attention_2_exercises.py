"""Chapter 07's exercises in Triton, solved: other mappings than the kernels that the lecture reads.

Nobody launches these but the judge and the tests; their launches stand in grading/exercises/.

May import: triton.
"""

import triton
import triton.language as tl


@triton.jit
def flash_attention_2_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float or half, contiguous
    k_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM), like q
    v_ptr,  # like k
    out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads, seq_len_q) float, natural log
    num_q_per_kv,
    seq_len_q,
    seq_len_kv,
    softmax_scale,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,  # HEAD_DIM rounded up to a power of two, at least 16
    BLOCK_M: tl.constexpr,  # query rows of a tile
    BLOCK_N: tl.constexpr,  # keys of a tile
):
    """Attention forward, no mask. Grid (ceil(seq_len_q / BLOCK_M), num_heads, batch_size)."""
    num_heads, head = tl.num_programs(1), tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)  # (BLOCK_M,)
    d = tl.arange(0, BLOCK_D)  # (BLOCK_D,)
    ### BEGIN SOLUTION
    q_head = tl.program_id(2).to(tl.int64) * num_heads + head  # over all batches
    kv_head = tl.program_id(2).to(tl.int64) * (num_heads // num_q_per_kv) + head // num_q_per_kv
    q_at = (q_head * seq_len_q + rows[:, None]) * HEAD_DIM + d[None, :]  # (BLOCK_M, BLOCK_D)
    q_there = (rows[:, None] < seq_len_q) & (d[None, :] < HEAD_DIM)
    q = tl.load(q_ptr + q_at, mask=q_there, other=0.0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for kv_start in range(0, seq_len_kv, BLOCK_N):
        keys = kv_start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        kv_at = (kv_head * seq_len_kv + keys[None, :]) * HEAD_DIM + d[:, None]  # (BLOCK_D, BLOCK_N): tiles on end
        kv_there = (keys[None, :] < seq_len_kv) & (d[:, None] < HEAD_DIM)
        k_t = tl.load(k_ptr + kv_at, mask=kv_there, other=0.0)
        scores = tl.dot(q, k_t, input_precision="ieee") * softmax_scale  # (BLOCK_M, BLOCK_N)
        scores = tl.where(keys[None, :] < seq_len_kv, scores, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        probs_unnorm = tl.exp(scores - m_new[:, None])
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(probs_unnorm, axis=1)
        v_t = tl.load(v_ptr + kv_at, mask=kv_there, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(probs_unnorm.to(v_t.dtype), tl.trans(v_t), input_precision="ieee")
        m = m_new
    tl.store(out_ptr + q_at, (acc / l[:, None]).to(out_ptr.dtype.element_ty), mask=q_there)
    tl.store(lse_ptr + q_head * seq_len_q + rows, m + tl.log(l), mask=rows < seq_len_q)
    ### END SOLUTION


@triton.jit
def flash_attention_2_causal_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float, contiguous
    k_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM) float, contiguous
    v_ptr,  # like k
    out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads, seq_len_q) float, natural log
    num_q_per_kv,
    seq_len_q,
    seq_len_kv,
    softmax_scale,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,  # HEAD_DIM rounded up to a power of two, at least 16
    BLOCK_M: tl.constexpr,  # query rows of a tile
    BLOCK_N: tl.constexpr,  # keys of a tile
):
    """Attention forward, causal (bottom-right). Grid (ceil(seq_len_q / BLOCK_M), num_heads, batch_size)."""
    num_heads, head = tl.num_programs(1), tl.program_id(1)
    q_head = tl.program_id(2).to(tl.int64) * num_heads + head  # over all batches
    kv_head = tl.program_id(2).to(tl.int64) * (num_heads // num_q_per_kv) + head // num_q_per_kv
    q_start = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M  # the tile with most keys starts first
    rows, d = q_start + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)[None, :]  # (BLOCK_M,), (1, BLOCK_D)
    q_at = (q_head * seq_len_q + rows[:, None]) * HEAD_DIM + d  # (BLOCK_M, BLOCK_D)
    q_there = (rows[:, None] < seq_len_q) & (d < HEAD_DIM)
    q = tl.load(q_ptr + q_at, mask=q_there, other=0.0)
    m, l = tl.full((BLOCK_M,), -float("inf"), tl.float32), tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    offset = seq_len_kv - seq_len_q  # query q_row sees the keys up to q_row + offset
    ### BEGIN SOLUTION
    # GIVEN: kv_end = seq_len_kv
    kv_end = tl.minimum(q_start + BLOCK_M, seq_len_q) + offset  # behind the last key of the tile's last row
    ### END SOLUTION

    for kv_start in range(0, kv_end, BLOCK_N):
        keys = kv_start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        kv_at = (kv_head * seq_len_kv + keys[:, None]) * HEAD_DIM + d  # (BLOCK_N, BLOCK_D)
        kv_there = (keys[:, None] < seq_len_kv) & (d < HEAD_DIM)
        k = tl.load(k_ptr + kv_at, mask=kv_there, other=0.0)
        v = tl.load(v_ptr + kv_at, mask=kv_there, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * softmax_scale  # (BLOCK_M, BLOCK_N)
        ### BEGIN SOLUTION unmarked
        # GIVEN: seen = keys[None, :] < seq_len_kv
        seen = (keys[None, :] < seq_len_kv) & (keys[None, :] <= rows[:, None] + offset)
        ### END SOLUTION
        scores = tl.where(seen, scores, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)  # never -inf minus -inf
        probs_unnorm, alpha = tl.exp(scores - shift[:, None]), tl.exp(m - shift)
        l = l * alpha + tl.sum(probs_unnorm, axis=1)
        acc = acc * alpha[:, None] + tl.dot(probs_unnorm, v, input_precision="ieee")
        m = m_new

    l_safe = tl.where(l > 0.0, l, 1.0)  # a fully masked row: 0 / 1, and m stays -inf
    tl.store(out_ptr + q_at, acc / l_safe[:, None], mask=q_there)
    tl.store(lse_ptr + q_head * seq_len_q + rows, m + tl.log(l_safe), mask=rows < seq_len_q)


@triton.jit
def finish_kernel(
    acc_ptr,  # (num_rows, HEAD_DIM) float: sum of exp2(score_log2 - m_log2) * v, not divided
    m_log2_ptr,  # (num_rows,) float: largest score times log2(e); -inf for a row that saw no key
    l_ptr,  # (num_rows,) float: sum of exp2(score_log2 - m_log2); 0 for a row that saw no key
    out_ptr,  # (num_rows, HEAD_DIM) float
    lse_ptr,  # (num_rows,) float, natural log
    num_rows,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,  # HEAD_DIM rounded up to a power of two
    BLOCK_M: tl.constexpr,  # rows of a tile
):
    """The end of a walk in base 2: (m_log2, l, acc) -> (out, lse). Grid (ceil(num_rows / BLOCK_M),)."""
    rows, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)[None, :]
    at, there = rows[:, None] * HEAD_DIM + d, (rows[:, None] < num_rows) & (d < HEAD_DIM)  # (BLOCK_M, BLOCK_D)
    ln_2 = 0.6931471805599453  # natural logarithm of 2
    ### BEGIN SOLUTION
    m_log2 = tl.load(m_log2_ptr + rows, mask=rows < num_rows, other=0.0)  # (BLOCK_M,)
    l = tl.load(l_ptr + rows, mask=rows < num_rows, other=1.0)
    acc = tl.load(acc_ptr + at, mask=there, other=0.0)
    l_safe = tl.where(l > 0.0, l, 1.0)  # a row that saw nothing: 0 / 1, and -inf + log(1)
    tl.store(out_ptr + at, acc / l_safe[:, None], mask=there)
    tl.store(lse_ptr + rows, m_log2 * ln_2 + tl.log(l_safe), mask=rows < num_rows)
    ### END SOLUTION


@triton.jit
def d_v_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float or half, contiguous
    k_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM), like q
    d_out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads, seq_len_q) float, natural log; -inf for a row that saw no key
    d_v_ptr,  # like k
    num_q_per_kv,
    seq_len_q,
    seq_len_kv,
    softmax_scale,
    causal,  # 0 or 1; bottom-right
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,  # HEAD_DIM rounded up to a power of two, at least 16
    BLOCK_M: tl.constexpr,  # query rows of a tile
    BLOCK_N: tl.constexpr,  # keys of a tile
):
    """d_v = P^T d_out, P made again from lse. Grid (ceil(seq_len_kv / BLOCK_N), num_kv_heads, batch_size)."""
    kv_head = tl.program_id(2).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)  # over all batches
    keys, d = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)[None, :]
    kv_at = (kv_head * seq_len_kv + keys[:, None]) * HEAD_DIM + d  # (BLOCK_N, BLOCK_D)
    kv_there = (keys[:, None] < seq_len_kv) & (d < HEAD_DIM)
    k = tl.load(k_ptr + kv_at, mask=kv_there, other=0.0)
    offset = tl.where(causal != 0, seq_len_kv - seq_len_q, seq_len_kv)  # query q_row sees keys up to q_row + offset
    ### BEGIN SOLUTION
    d_v = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    for q_head in range(kv_head * num_q_per_kv, (kv_head + 1) * num_q_per_kv):
        for q_start in range(0, seq_len_q, BLOCK_M):
            rows = q_start + tl.arange(0, BLOCK_M)  # (BLOCK_M,)
            q_at = (q_head * seq_len_q + rows[:, None]) * HEAD_DIM + d  # (BLOCK_M, BLOCK_D)
            q_there = (rows[:, None] < seq_len_q) & (d < HEAD_DIM)
            q = tl.load(q_ptr + q_at, mask=q_there, other=0.0)
            d_out = tl.load(d_out_ptr + q_at, mask=q_there, other=0.0)
            lse = tl.load(lse_ptr + q_head * seq_len_q + rows, mask=rows < seq_len_q, other=0.0)
            scores_t = tl.dot(k, tl.trans(q), input_precision="ieee") * softmax_scale  # (BLOCK_N, BLOCK_M)
            seen_t = keys[:, None] <= rows[None, :] + offset
            probs_t = tl.where(seen_t, tl.exp(scores_t - lse[None, :]), 0.0)
            d_v += tl.dot(probs_t.to(d_out.dtype), d_out, input_precision="ieee")
    tl.store(d_v_ptr + kv_at, d_v.to(d_v_ptr.dtype.element_ty), mask=kv_there)
    ### END SOLUTION


@triton.jit
def d_q_d_k_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float or half, contiguous
    k_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM), like q
    v_ptr,  # like k
    out_ptr,  # like q, of the forward pass
    d_out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads, seq_len_q) float, natural log; -inf for a row that saw no key
    d_q_ptr,  # like q
    d_k_ptr,  # like k
    num_q_per_kv,
    seq_len_q,
    seq_len_kv,
    softmax_scale,
    causal,  # 0 or 1; bottom-right
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,  # HEAD_DIM rounded up to a power of two, at least 16
    BLOCK_M: tl.constexpr,  # query rows of a tile
    BLOCK_N: tl.constexpr,  # keys of a tile
):
    """d_q of a tile of queries, then d_k of a tile of keys. Grid (enough tiles for either, num_heads, batch_size)."""
    tile, head = tl.program_id(0), tl.program_id(1)
    q_head = tl.program_id(2).to(tl.int64) * tl.num_programs(1) + head  # over all batches
    kv_head, d = q_head // num_q_per_kv, tl.arange(0, BLOCK_D)[None, :]
    offset = tl.where(causal != 0, seq_len_kv - seq_len_q, seq_len_kv)  # query q_row sees keys up to q_row + offset

    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)  # queries stay, keys come by
    q_at = (q_head * seq_len_q + rows[:, None]) * HEAD_DIM + d  # (BLOCK_M, BLOCK_D)
    q_there = (rows[:, None] < seq_len_q) & (d < HEAD_DIM)
    q, d_out = tl.load(q_ptr + q_at, mask=q_there, other=0.0), tl.load(d_out_ptr + q_at, mask=q_there, other=0.0)
    out = tl.load(out_ptr + q_at, mask=q_there, other=0.0)
    lse = tl.load(lse_ptr + q_head * seq_len_q + rows, mask=rows < seq_len_q, other=0.0)  # (BLOCK_M,)
    d_q = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for kv_start in range(0, seq_len_kv, BLOCK_N):
        keys = kv_start + tl.arange(0, BLOCK_N)
        kv_at = (kv_head * seq_len_kv + keys[:, None]) * HEAD_DIM + d  # (BLOCK_N, BLOCK_D)
        kv_there = (keys[:, None] < seq_len_kv) & (d < HEAD_DIM)
        k, v = tl.load(k_ptr + kv_at, mask=kv_there, other=0.0), tl.load(v_ptr + kv_at, mask=kv_there, other=0.0)
        ### BEGIN SOLUTION
        row_dot = tl.sum(d_out.to(tl.float32) * out.to(tl.float32), axis=1)  # D, (BLOCK_M,)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * softmax_scale  # (BLOCK_M, BLOCK_N)
        probs = tl.where(keys[None, :] <= rows[:, None] + offset, tl.exp(scores - lse[:, None]), 0.0)
        d_probs = tl.dot(d_out, tl.trans(v), input_precision="ieee")
        d_scores = probs * (d_probs - row_dot[:, None]) * softmax_scale
        d_q += tl.dot(d_scores.to(k.dtype), k, input_precision="ieee")
        ### END SOLUTION
    tl.store(d_q_ptr + q_at, d_q.to(d_q_ptr.dtype.element_ty), mask=q_there)

    if head % num_q_per_kv == 0:  # keys stay, the queries of the whole group come by; one program of it is enough
        keys = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        kv_at = (kv_head * seq_len_kv + keys[:, None]) * HEAD_DIM + d
        kv_there = (keys[:, None] < seq_len_kv) & (d < HEAD_DIM)
        k, v = tl.load(k_ptr + kv_at, mask=kv_there, other=0.0), tl.load(v_ptr + kv_at, mask=kv_there, other=0.0)
        d_k = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
        for one_head in range(q_head, q_head + num_q_per_kv):
            for q_start in range(0, seq_len_q, BLOCK_M):
                rows = q_start + tl.arange(0, BLOCK_M)
                q_at = (one_head * seq_len_q + rows[:, None]) * HEAD_DIM + d
                q_there = (rows[:, None] < seq_len_q) & (d < HEAD_DIM)
                q = tl.load(q_ptr + q_at, mask=q_there, other=0.0)
                d_out = tl.load(d_out_ptr + q_at, mask=q_there, other=0.0)
                out = tl.load(out_ptr + q_at, mask=q_there, other=0.0)
                lse = tl.load(lse_ptr + one_head * seq_len_q + rows, mask=rows < seq_len_q, other=0.0)
                ### BEGIN SOLUTION unmarked
                row_dot = tl.sum(d_out.to(tl.float32) * out.to(tl.float32), axis=1)
                scores_t = tl.dot(k, tl.trans(q), input_precision="ieee") * softmax_scale  # (BLOCK_N, BLOCK_M)
                seen_t = keys[:, None] <= rows[None, :] + offset
                probs_t = tl.where(seen_t, tl.exp(scores_t - lse[None, :]), 0.0)
                d_probs_t = tl.dot(v, tl.trans(d_out), input_precision="ieee")
                d_scores_t = probs_t * (d_probs_t - row_dot[None, :]) * softmax_scale
                d_k += tl.dot(d_scores_t.to(q.dtype), q, input_precision="ieee")
                ### END SOLUTION
        tl.store(d_k_ptr + kv_at, d_k.to(d_k_ptr.dtype.element_ty), mask=kv_there)
