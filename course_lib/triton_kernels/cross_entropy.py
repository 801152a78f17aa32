"""Triton twins of kernels_cu/cross_entropy/: a row a program, BLOCK_N logits at a time; the gradient a tile a program.

May import: triton, notation.
"""

import triton
import triton.language as tl

from .. import notation

LOG2_E = tl.constexpr(notation.LOG2_E)


@triton.jit
def cross_entropy_kernel(
    logits_ptr,  # (num_rows, num_cols), rows stride_logits apart
    targets_ptr,  # (num_rows,) int64; ignore_index is not read
    loss_ptr, lse_ptr,  # (num_rows,) float
    num_rows, num_cols, stride_logits, ignore_index, smoothing,
    BLOCK_N: tl.constexpr,  # logits read at once
):  # fmt: skip
    """01_online. Grid (num_rows,)."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets_ptr + row)
    row_lse, row_loss = 0.0, 0.0
    if target != ignore_index:
        m_lanes = tl.full((BLOCK_N,), -float("inf"), tl.float32)
        l_lanes = tl.zeros((BLOCK_N,), tl.float32)
        sum_lanes = tl.zeros((BLOCK_N,), tl.float32)
        for start in range(0, num_cols, BLOCK_N):
            cols = start + tl.arange(0, BLOCK_N)
            mask = cols < num_cols
            x = tl.load(logits_ptr + row * stride_logits + cols, mask=mask, other=-float("inf")).to(tl.float32)
            m_new = tl.maximum(m_lanes, x)
            shift = tl.where(m_new == -float("inf"), 0.0, m_new)
            l_lanes = l_lanes * tl.exp2((m_lanes - shift) * LOG2_E) + tl.exp2((x - shift) * LOG2_E)
            m_lanes = m_new
            sum_lanes += tl.where(mask, x, 0.0)
        m = tl.max(m_lanes, axis=0)
        shift = tl.where(m == -float("inf"), 0.0, m)
        l = tl.sum(l_lanes * tl.exp2((m_lanes - shift) * LOG2_E), axis=0)
        row_lse = m + tl.log(l)
        known = (target >= 0) & (target < num_cols)
        logit = tl.load(logits_ptr + row * stride_logits + target, mask=known, other=float("nan")).to(tl.float32)
        row_loss = row_lse - logit
        if smoothing > 0.0:
            row_loss = (1.0 - smoothing) * row_loss + smoothing * (row_lse - tl.sum(sum_lanes, axis=0) / num_cols)
    tl.store(loss_ptr + row, row_loss)
    tl.store(lse_ptr + row, row_lse)


@triton.jit
def cross_entropy_backward_kernel(
    logits_ptr,  # (num_rows, num_cols), rows stride_logits apart
    targets_ptr,  # (num_rows,) int64
    lse_ptr,  # (num_rows,) float, natural log
    d_loss_ptr,  # float, stride_d_loss apart
    d_logits_ptr,  # like logits, rows stride_d_logits apart; may be logits
    num_rows, num_cols, stride_logits, stride_d_loss, stride_d_logits, ignore_index, smoothing,
    BLOCK_N: tl.constexpr,  # logits of a program
):  # fmt: skip
    """02_backward. Grid (num_rows, ceil(num_cols / BLOCK_N))."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    target = tl.load(targets_ptr + row)
    used = target != ignore_index
    mask = cols < num_cols
    x = tl.load(logits_ptr + row * stride_logits + cols, mask=mask & used, other=0.0).to(tl.float32)
    p = tl.exp2((x - tl.load(lse_ptr + row)) * LOG2_E)
    gradient = p - smoothing / num_cols - tl.where(cols == target, 1.0 - smoothing, 0.0)
    gradient = tl.where(used, gradient * tl.load(d_loss_ptr + row * stride_d_loss), 0.0)
    tl.store(d_logits_ptr + row * stride_d_logits + cols, gradient.to(d_logits_ptr.dtype.element_ty), mask=mask)
