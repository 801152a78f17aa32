"""Triton twins of kernels_cu/norm/04 to 06: a program walks over rows and keeps the gradients of all columns.

BLOCK_N is a power of two, at least num_cols.

May import: triton.
"""

import triton
import triton.language as tl


@triton.jit
def rms_norm_backward_kernel(
    d_out_ptr, x_ptr,  # (num_rows, num_cols), rows of any stride each
    weight_ptr,  # (num_cols,)
    d_residual_ptr,  # like x, or d_out again where HAS_RESIDUAL is 0
    dx_ptr,  # like x; may be d_out
    partial_ptr,  # (programs, num_cols) float
    num_rows, num_cols, stride_d_out, stride_x, stride_d_residual, stride_dx, eps,
    BLOCK_N: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
):  # fmt: skip
    """04_rms_norm_backward. Grid any number of programs."""
    cols = tl.arange(0, BLOCK_N)
    mask = cols < num_cols
    d_weight = tl.zeros((BLOCK_N,), tl.float32)
    for row in range(tl.program_id(0), num_rows, tl.num_programs(0)):
        at = tl.cast(row, tl.int64)
        x = tl.load(x_ptr + at * stride_x + cols, mask=mask, other=0.0).to(tl.float32)
        d_out = tl.load(d_out_ptr + at * stride_d_out + cols, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.rsqrt(tl.sum(x * x, axis=0) / num_cols + eps)
        slope = rstd * rstd * rstd * tl.sum(d_out * weight * x, axis=0) / num_cols
        dx = d_out * weight * rstd - x * slope
        if HAS_RESIDUAL:
            dx += tl.load(d_residual_ptr + at * stride_d_residual + cols, mask=mask, other=0.0).to(tl.float32)
        d_weight += d_out * x * rstd
        tl.store(dx_ptr + at * stride_dx + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    tl.store(partial_ptr + tl.program_id(0).to(tl.int64) * num_cols + cols, d_weight, mask=mask)


@triton.jit
def layer_norm_backward_kernel(
    d_out_ptr, x_ptr,  # (num_rows, num_cols), rows of any stride each
    weight_ptr,  # (num_cols,)
    dx_ptr,  # like x; may be d_out
    partial_ptr,  # (2, programs, num_cols) float: of the weight, of the bias
    num_rows, num_cols, stride_d_out, stride_x, stride_dx, eps,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """05_layer_norm_backward. Grid any number of programs."""
    cols = tl.arange(0, BLOCK_N)
    mask = cols < num_cols
    d_weight = tl.zeros((BLOCK_N,), tl.float32)
    d_bias = tl.zeros((BLOCK_N,), tl.float32)
    for row in range(tl.program_id(0), num_rows, tl.num_programs(0)):
        at = tl.cast(row, tl.int64)
        x = tl.load(x_ptr + at * stride_x + cols, mask=mask, other=0.0).to(tl.float32)
        d_out = tl.load(d_out_ptr + at * stride_d_out + cols, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        centred = tl.where(mask, x - tl.sum(x, axis=0) / num_cols, 0.0)
        rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / num_cols + eps)
        g = d_out * weight
        shift = rstd * tl.sum(g, axis=0) / num_cols
        slope = rstd * rstd * rstd * tl.sum(g * centred, axis=0) / num_cols
        d_weight += d_out * centred * rstd
        d_bias += d_out
        dx = g * rstd - shift - centred * slope
        tl.store(dx_ptr + at * stride_dx + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    part = tl.program_id(0).to(tl.int64)
    tl.store(partial_ptr + part * num_cols + cols, d_weight, mask=mask)
    tl.store(partial_ptr + (tl.num_programs(0) + part) * num_cols + cols, d_bias, mask=mask)


@triton.jit
def column_sums_kernel(
    partial_ptr,  # (num_sums, num_parts, num_cols) float, contiguous
    sums_ptr,  # (num_sums, num_cols), contiguous
    num_parts, num_cols,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # rows and columns of a tile
):  # fmt: skip
    """06_column_sums. Grid (ceil(num_cols / BLOCK_N), num_sums)."""
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    which = tl.program_id(1).to(tl.int64)
    sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, num_parts, BLOCK_M):
        parts = start + tl.arange(0, BLOCK_M)[:, None]
        mask = (parts < num_parts) & (cols < num_cols)
        sums += tl.load(partial_ptr + (which * num_parts + parts) * num_cols + cols, mask=mask, other=0.0)
    total = tl.sum(sums, axis=0, keep_dims=True).to(sums_ptr.dtype.element_ty)
    tl.store(sums_ptr + which * num_cols + cols, total, mask=cols < num_cols)
