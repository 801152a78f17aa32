"""Triton twins of kernels_cu/softmax/: same stems, same names, one program a row.

A program works on whole tiles of BLOCK_N numbers; which thread holds which number is the compiler's business.

May import: triton.
"""

import triton
import triton.language as tl


@triton.jit
def three_pass_softmax_kernel(
    x_ptr,  # (num_rows, num_cols) float, contiguous
    out_ptr,  # like x
    num_rows,
    num_cols,
    BLOCK_N: tl.constexpr,  # columns read at once
):
    """01_three_pass: maximum, sum, division, each in a pass of its own. Grid (num_rows,)."""
    x_row = x_ptr + tl.program_id(0).to(tl.int64) * num_cols
    out_row = out_ptr + tl.program_id(0).to(tl.int64) * num_cols

    # region: pass_1_max
    m_lanes = tl.full((BLOCK_N,), -float("inf"), tl.float32)  # (BLOCK_N,)
    for start in range(0, num_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        m_lanes = tl.maximum(m_lanes, tl.load(x_row + cols, mask=cols < num_cols, other=-float("inf")))
    m = tl.max(m_lanes, axis=0)
    m = tl.where(m == -float("inf"), 0.0, m)  # a row of -inf: shift by 0, and exp(-inf) is 0
    # endregion

    # region: pass_2_sum
    l_lanes = tl.zeros((BLOCK_N,), tl.float32)  # (BLOCK_N,)
    for start in range(0, num_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        l_lanes += tl.exp(tl.load(x_row + cols, mask=cols < num_cols, other=-float("inf")) - m)
    l = tl.sum(l_lanes, axis=0)
    # endregion

    # region: pass_3_write
    l_safe = tl.where(l == 0.0, 1.0, l)  # a row of -inf: 0 / 1
    for start in range(0, num_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        scores = tl.load(x_row + cols, mask=cols < num_cols, other=-float("inf"))
        tl.store(out_row + cols, tl.exp(scores - m) / l_safe, mask=cols < num_cols)
    # endregion


@triton.jit
def online_softmax_kernel(
    x_ptr,  # (num_rows, num_cols) float, contiguous
    out_ptr,  # like x
    num_rows,
    num_cols,
    BLOCK_N: tl.constexpr,  # columns read at once
):
    """02_online: BLOCK_N running states (m, l) side by side, merged once at the end. Grid (num_rows,)."""
    x_row = x_ptr + tl.program_id(0).to(tl.int64) * num_cols
    out_row = out_ptr + tl.program_id(0).to(tl.int64) * num_cols

    # region: update
    m_lanes = tl.full((BLOCK_N,), -float("inf"), tl.float32)  # (BLOCK_N,)
    l_lanes = tl.zeros((BLOCK_N,), tl.float32)  # (BLOCK_N,)
    for start in range(0, num_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        scores = tl.load(x_row + cols, mask=cols < num_cols, other=-float("inf"))  # (BLOCK_N,)
        m_new = tl.maximum(m_lanes, scores)
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)  # never -inf minus -inf
        l_lanes = l_lanes * tl.exp(m_lanes - shift) + tl.exp(scores - shift)
        m_lanes = m_new
    # endregion

    # region: merge
    m = tl.max(m_lanes, axis=0)
    m = tl.where(m == -float("inf"), 0.0, m)
    l = tl.sum(l_lanes * tl.exp(m_lanes - m), axis=0)
    # endregion

    # region: write
    l_safe = tl.where(l == 0.0, 1.0, l)  # a row of -inf: 0 / 1
    for start in range(0, num_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        scores = tl.load(x_row + cols, mask=cols < num_cols, other=-float("inf"))
        tl.store(out_row + cols, tl.exp(scores - m) / l_safe, mask=cols < num_cols)
    # endregion


@triton.jit
def online_softmax_tile_kernel(
    x_ptr,  # (num_rows, num_cols) float, contiguous
    out_ptr,  # like x
    num_rows,
    num_cols,
    BLOCK_N: tl.constexpr,  # columns of one tile
):
    """03_online_warp: one state (m, l) for the whole row, updated once a tile. Grid (num_rows,), num_warps=1."""
    row = tl.program_id(0).to(tl.int64)
    ### BEGIN SOLUTION
    x_row = x_ptr + row * num_cols
    out_row = out_ptr + row * num_cols

    # region: update_tile
    m = -float("inf")
    l = 0.0
    for start in range(0, num_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        scores = tl.load(x_row + cols, mask=cols < num_cols, other=-float("inf"))  # (BLOCK_N,)
        m_new = tl.maximum(m, tl.max(scores, axis=0))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)  # never -inf minus -inf
        alpha = tl.exp(m - shift)
        l = l * alpha + tl.sum(tl.exp(scores - shift), axis=0)
        m = m_new
    # endregion

    # region: write_tile
    shift = tl.where(m == -float("inf"), 0.0, m)
    l_safe = tl.where(l == 0.0, 1.0, l)  # a row of -inf: 0 / 1
    for start in range(0, num_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        scores = tl.load(x_row + cols, mask=cols < num_cols, other=-float("inf"))
        tl.store(out_row + cols, tl.exp(scores - shift) / l_safe, mask=cols < num_cols)
    # endregion
    ### END SOLUTION


@triton.jit
def log_sum_exp_kernel(
    x_ptr,  # (num_rows, num_cols) half, contiguous
    lse_ptr,  # (num_rows,) float, natural log
    num_rows,
    num_cols,
    BLOCK_N: tl.constexpr,  # columns of one tile
):
    """04_log_sum_exp: half in, float inside, one number a row out. Grid (num_rows,)."""
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * num_cols

    # region: update
    m = -float("inf")
    l = 0.0
    for start in range(0, num_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        scores = tl.load(x_row + cols, mask=cols < num_cols, other=-float("inf")).to(tl.float32)  # (BLOCK_N,)
        m_new = tl.maximum(m, tl.max(scores, axis=0))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        l = l * tl.exp(m - shift) + tl.sum(tl.exp(scores - shift), axis=0)
        m = m_new
    # endregion

    # region: write
    tl.store(lse_ptr + row, m + tl.log(tl.where(l == 0.0, 1.0, l)))  # a row of -inf: m is -inf, and so is the sum
    # endregion


@triton.jit
def masked_softmax_kernel(
    scores_ptr,  # (batch_size, seq_len_q, seq_len_kv) float, contiguous
    seq_lens_kv_ptr,  # (batch_size,) int32
    out_ptr,  # like scores
    lse_ptr,  # (batch_size, seq_len_q) float, natural log
    seq_len_q,
    seq_len_kv,
    BLOCK_N: tl.constexpr,  # columns of one tile
):
    """05_masked: causal (bottom-right) and length mask; row without keys: 0 and -inf. Grid (seq_len_q, batch_size)."""
    q_row, batch = tl.program_id(0), tl.program_id(1)
    row = batch.to(tl.int64) * seq_len_q + q_row
    scores_row = scores_ptr + row * seq_len_kv
    out_row = out_ptr + row * seq_len_kv

    # region: visible
    num_visible = q_row + tl.load(seq_lens_kv_ptr + batch) - seq_len_q + 1  # 0 or less: the row sees nothing
    # endregion

    # region: update
    m = -float("inf")
    l = 0.0
    for start in range(0, num_visible, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        scores = tl.load(scores_row + cols, mask=cols < num_visible, other=-float("inf"))  # (BLOCK_N,)
        m_new = tl.maximum(m, tl.max(scores, axis=0))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        l = l * tl.exp(m - shift) + tl.sum(tl.exp(scores - shift), axis=0)
        m = m_new
    # endregion

    # region: write
    shift = tl.where(m == -float("inf"), 0.0, m)
    l_safe = tl.where(l == 0.0, 1.0, l)  # a row of -inf: 0 / 1
    for start in range(0, seq_len_kv, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        scores = tl.load(scores_row + cols, mask=cols < num_visible, other=-float("inf"))
        weights = tl.where(cols < num_visible, tl.exp(scores - shift) / l_safe, 0.0)  # 0 beside a NaN too
        tl.store(out_row + cols, weights, mask=cols < seq_len_kv)
    tl.store(lse_ptr + row, m + tl.log(l_safe))
    # endregion
