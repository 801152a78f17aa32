"""Triton twins of kernels_cu/attention/: same stems, same names.

A program works on whole tiles; which thread holds which number is the compiler's business.

May import: triton.
"""

import triton
import triton.language as tl


@triton.jit
def scores_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, head_dim) float, contiguous
    k_ptr,  # (batch_size, num_kv_heads, seq_len_kv, head_dim) float, contiguous
    scores_ptr,  # (batch_size, num_heads, seq_len_q, seq_len_kv) float
    num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim,
    BLOCK_N: tl.constexpr,  # keys of one program
    BLOCK_D: tl.constexpr,  # a power of two, at least head_dim
):  # fmt: skip
    """01_naive, first launch: q k^T. Grid (seq_len_q, ceil(seq_len_kv / BLOCK_N), batch_size * num_heads)."""
    batch, head = tl.program_id(2) // num_heads, tl.program_id(2) % num_heads
    kv_head = head // (num_heads // num_kv_heads)
    row = tl.program_id(2).to(tl.int64) * seq_len_q + tl.program_id(0)
    keys = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
    dims = tl.arange(0, BLOCK_D)  # (BLOCK_D,)
    k_head = k_ptr + (batch * num_kv_heads + kv_head).to(tl.int64) * seq_len_kv * head_dim
    q = tl.load(q_ptr + row * head_dim + dims, mask=dims < head_dim, other=0.0)  # (BLOCK_D,)
    mask = (keys < seq_len_kv)[:, None] & (dims < head_dim)[None, :]  # (BLOCK_N, BLOCK_D)
    k = tl.load(k_head + keys[:, None] * head_dim + dims[None, :], mask=mask, other=0.0)  # (BLOCK_N, BLOCK_D)
    tl.store(scores_ptr + row * seq_len_kv + keys, tl.sum(q[None, :] * k, axis=1), mask=keys < seq_len_kv)


@triton.jit
def scale_kernel(
    scores_ptr,  # (num_scores,) float, in place
    num_scores,
    softmax_scale,
    BLOCK: tl.constexpr,
):
    """01_naive, second launch. Grid (ceil(num_scores / BLOCK),)."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)  # (BLOCK,)
    scores = tl.load(scores_ptr + offsets, mask=offsets < num_scores)
    tl.store(scores_ptr + offsets, scores * softmax_scale, mask=offsets < num_scores)


@triton.jit
def mask_kernel(
    scores_ptr,  # (num_scores,) float, in place
    num_scores,
    seq_len_q,
    seq_len_kv,
    BLOCK: tl.constexpr,
):
    """01_naive, third launch: causal, bottom-right aligned. Grid (ceil(num_scores / BLOCK),)."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)  # (BLOCK,)
    scores = tl.load(scores_ptr + offsets, mask=offsets < num_scores)
    visible = offsets % seq_len_kv <= offsets // seq_len_kv % seq_len_q + seq_len_kv - seq_len_q
    tl.store(scores_ptr + offsets, tl.where(visible, scores, -float("inf")), mask=offsets < num_scores)


@triton.jit
def softmax_kernel(
    scores_ptr,  # (num_rows, seq_len_kv) float
    probs_ptr,  # like scores
    seq_len_kv,
    BLOCK_N: tl.constexpr,  # a power of two, at least seq_len_kv
):
    """01_naive, fourth launch: one program a row. Grid (num_rows,)."""
    first = tl.program_id(0).to(tl.int64) * seq_len_kv
    keys = tl.arange(0, BLOCK_N)  # (BLOCK_N,)
    scores = tl.load(scores_ptr + first + keys, mask=keys < seq_len_kv, other=-float("inf"))  # (BLOCK_N,)
    m = tl.max(scores, axis=0)
    probs_unnorm = tl.exp(scores - tl.where(m == -float("inf"), 0.0, m))  # (BLOCK_N,)
    l = tl.sum(probs_unnorm, axis=0)
    tl.store(probs_ptr + first + keys, probs_unnorm / tl.where(l == 0.0, 1.0, l), mask=keys < seq_len_kv)


@triton.jit
def weighted_sum_kernel(
    probs_ptr,  # (batch_size, num_heads, seq_len_q, seq_len_kv) float
    v_ptr,  # (batch_size, num_kv_heads, seq_len_kv, head_dim) float, contiguous
    out_ptr,  # (batch_size, num_heads, seq_len_q, head_dim) float
    num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim,
    BLOCK_N: tl.constexpr,  # keys of one tile
    BLOCK_D: tl.constexpr,  # a power of two, at least head_dim
):  # fmt: skip
    """01_naive, fifth launch: weights times v. Grid (seq_len_q, 1, batch_size * num_heads)."""
    batch, head = tl.program_id(2) // num_heads, tl.program_id(2) % num_heads
    kv_head = head // (num_heads // num_kv_heads)
    row = tl.program_id(2).to(tl.int64) * seq_len_q + tl.program_id(0)
    v_head = v_ptr + (batch * num_kv_heads + kv_head).to(tl.int64) * seq_len_kv * head_dim
    dims = tl.arange(0, BLOCK_D)  # (BLOCK_D,)
    acc = tl.zeros((BLOCK_D,), tl.float32)  # (BLOCK_D,)
    for start in range(0, seq_len_kv, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        probs = tl.load(probs_ptr + row * seq_len_kv + keys, mask=keys < seq_len_kv, other=0.0)  # (BLOCK_N,)
        mask = (keys < seq_len_kv)[:, None] & (dims < head_dim)[None, :]  # (BLOCK_N, BLOCK_D)
        v = tl.load(v_head + keys[:, None] * head_dim + dims[None, :], mask=mask, other=0.0)  # (BLOCK_N, BLOCK_D)
        acc += tl.sum(probs[:, None] * v, axis=0)
    tl.store(out_ptr + row * head_dim + dims, acc, mask=dims < head_dim)


@triton.jit
def scale_mask_softmax_kernel(
    scores_ptr, probs_ptr,  # (batch_heads, seq_len_q, seq_len_kv) float, contiguous
    seq_len_q, seq_len_kv, softmax_scale, causal,  # causal: 0 or 1
    BLOCK_N: tl.constexpr,  # a power of two, at least seq_len_kv
):  # fmt: skip
    """02_fused_softmax: the row is one tile. Grid (batch_heads * seq_len_q,)."""
    first = tl.program_id(0).to(tl.int64) * seq_len_kv
    # region: scale_mask
    keys = tl.arange(0, BLOCK_N)  # (BLOCK_N,)
    q_row = tl.program_id(0) % seq_len_q
    last_key = tl.where(causal != 0, q_row + seq_len_kv - seq_len_q, seq_len_kv - 1)
    scores = tl.load(scores_ptr + first + keys, mask=keys < seq_len_kv, other=0.0) * softmax_scale  # (BLOCK_N,)
    scores = tl.where(keys <= last_key, scores, -float("inf"))
    # endregion
    # region: softmax
    m = tl.max(scores, axis=0)
    probs_unnorm = tl.exp(scores - tl.where(m == -float("inf"), 0.0, m))  # (BLOCK_N,)
    l = tl.sum(probs_unnorm, axis=0)
    tl.store(probs_ptr + first + keys, probs_unnorm / tl.where(l == 0.0, 1.0, l), mask=keys < seq_len_kv)
    # endregion


@triton.jit
def scale_mask_softmax_tile_kernel(
    scores_ptr, probs_ptr,  # (batch_heads, seq_len_q, seq_len_kv) float, contiguous
    lse_ptr,  # (batch_heads, seq_len_q) float, natural log
    seq_len_q, seq_len_kv, softmax_scale, causal,  # causal: 0 or 1
    BLOCK_N: tl.constexpr,  # keys of one tile
):  # fmt: skip
    """04_fused_softmax_warp: rows of any length, tile by tile, with log-sum-exp. Grid (seq_len_q, batch_heads)."""
    q_row = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64) * seq_len_q + q_row
    ### BEGIN SOLUTION
    num_visible = tl.where(causal != 0, q_row + seq_len_kv - seq_len_q + 1, seq_len_kv)  # 0 or less: sees nothing
    m = -float("inf")
    l = 0.0
    for start in range(0, num_visible, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        scores = tl.load(scores_ptr + row * seq_len_kv + keys, mask=keys < num_visible, other=0.0) * softmax_scale
        scores = tl.where(keys < num_visible, scores, -float("inf"))  # (BLOCK_N,)
        m_new = tl.maximum(m, tl.max(scores, axis=0))
        l = l * tl.exp(m - m_new) + tl.sum(tl.exp(scores - m_new), axis=0)
        m = m_new

    l_safe = tl.where(l == 0.0, 1.0, l)  # a row that sees nothing: 0 / 1
    for start in range(0, seq_len_kv, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        scores = tl.load(scores_ptr + row * seq_len_kv + keys, mask=keys < num_visible, other=0.0) * softmax_scale
        probs = tl.where(keys < num_visible, tl.exp(scores - m) / l_safe, 0.0)
        tl.store(probs_ptr + row * seq_len_kv + keys, probs, mask=keys < seq_len_kv)
    tl.store(lse_ptr + row, m + tl.log(l_safe))
    ### END SOLUTION


@triton.jit
def grouped_attention_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, head_dim) float, contiguous
    k_ptr, v_ptr,  # (batch_size, num_kv_heads, seq_len_kv, head_dim) float, contiguous
    out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads, seq_len_q) float, natural log
    num_heads, num_kv_heads, seq_len_q, seq_len_kv, head_dim, softmax_scale, causal,  # causal: 0 or 1
    BLOCK_N: tl.constexpr,  # a power of two, at least seq_len_kv
    BLOCK_D: tl.constexpr,  # a power of two, at least head_dim
):  # fmt: skip
    """05_grouped_query: one query row, its scores in one tile. Grid (seq_len_q, num_heads, batch_size)."""
    q_row, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = (batch * num_heads + head).to(tl.int64) * seq_len_q + q_row
    kv_head = head // (num_heads // num_kv_heads)
    first = (batch * num_kv_heads + kv_head).to(tl.int64) * seq_len_kv * head_dim
    num_visible = tl.where(causal != 0, q_row + seq_len_kv - seq_len_q + 1, seq_len_kv)
    keys, dims = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)  # (BLOCK_N,), (BLOCK_D,)
    mask = (keys < num_visible)[:, None] & (dims < head_dim)[None, :]  # (BLOCK_N, BLOCK_D)
    offsets = first + keys[:, None] * head_dim + dims[None, :]  # (BLOCK_N, BLOCK_D)

    # region: scores
    q = tl.load(q_ptr + row * head_dim + dims, mask=dims < head_dim, other=0.0)  # (BLOCK_D,)
    scores = tl.sum(q[None, :] * tl.load(k_ptr + offsets, mask=mask, other=0.0), axis=1) * softmax_scale  # (BLOCK_N,)
    scores = tl.where(keys < num_visible, scores, -float("inf"))
    # endregion

    # region: exponentials
    m = tl.max(scores, axis=0)
    probs_unnorm = tl.exp(scores - tl.where(m == -float("inf"), 0.0, m))  # (BLOCK_N,)
    l = tl.sum(probs_unnorm, axis=0)
    l_safe = tl.where(l == 0.0, 1.0, l)  # a row that sees nothing: out 0
    # endregion

    # region: weighted_sum
    acc = tl.sum(probs_unnorm[:, None] * tl.load(v_ptr + offsets, mask=mask, other=0.0), axis=0)  # (BLOCK_D,)
    tl.store(out_ptr + row * head_dim + dims, acc / l_safe, mask=dims < head_dim)
    tl.store(lse_ptr + row, m + tl.log(l_safe))
    # endregion
