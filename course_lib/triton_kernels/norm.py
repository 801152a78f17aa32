"""Triton twins of kernels_cu/norm/: BLOCK_M rows a program, each row whole in one tile.

BLOCK_N is a power of two, at least num_cols: a row is read once. What the CUDA twins do with groups of threads and
chunks of 16 bytes is the compiler's business here.

May import: triton.
"""

import triton
import triton.language as tl


@triton.jit
def _tile(num_rows, num_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """(rows (BLOCK_M, 1) int64, cols (1, BLOCK_N), mask) of this program."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.arange(0, BLOCK_N)[None, :]
    return rows, cols, (rows < num_rows) & (cols < num_cols)


@triton.jit
def rms_norm_kernel(
    x_ptr,  # (num_rows, num_cols), rows stride_x apart
    weight_ptr,  # (num_cols,)
    out_ptr,  # like x, rows stride_out apart
    num_rows,
    num_cols,
    stride_x,
    stride_out,
    eps,
    BLOCK_M: tl.constexpr,  # rows of a program
    BLOCK_N: tl.constexpr,  # columns of the tile
):
    """01_rms_norm. Grid (ceil(num_rows / BLOCK_M),)."""
    rows, cols, mask = _tile(num_rows, num_cols, BLOCK_M, BLOCK_N)
    x = tl.load(x_ptr + rows * stride_x + cols, mask=mask, other=0.0).to(tl.float32)  # (BLOCK_M, BLOCK_N)
    weight = tl.load(weight_ptr + cols, mask=cols < num_cols, other=0.0).to(tl.float32)  # (1, BLOCK_N)
    rstd = tl.rsqrt(tl.sum(x * x, axis=1, keep_dims=True) / num_cols + eps)  # (BLOCK_M, 1)
    tl.store(out_ptr + rows * stride_out + cols, (x * rstd * weight).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm_kernel(
    x_ptr,  # (num_rows, num_cols), rows stride_x apart
    weight_ptr,  # (num_cols,)
    bias_ptr,  # (num_cols,), or weight again where HAS_BIAS is 0
    out_ptr,  # like x, rows stride_out apart
    num_rows,
    num_cols,
    stride_x,
    stride_out,
    eps,
    BLOCK_M: tl.constexpr,  # rows of a program
    BLOCK_N: tl.constexpr,  # columns of the tile
    HAS_BIAS: tl.constexpr,
):
    """02_layer_norm. Grid (ceil(num_rows / BLOCK_M),)."""
    rows, cols, mask = _tile(num_rows, num_cols, BLOCK_M, BLOCK_N)
    x = tl.load(x_ptr + rows * stride_x + cols, mask=mask, other=0.0).to(tl.float32)  # (BLOCK_M, BLOCK_N)
    weight = tl.load(weight_ptr + cols, mask=cols < num_cols, other=0.0).to(tl.float32)  # (1, BLOCK_N)
    mean = tl.sum(x, axis=1, keep_dims=True) / num_cols  # (BLOCK_M, 1)
    centred = tl.where(mask, x - mean, 0.0)  # past the end of the row x - mean is not 0
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=1, keep_dims=True) / num_cols + eps)
    out = centred * rstd * weight
    if HAS_BIAS:
        out += tl.load(bias_ptr + cols, mask=cols < num_cols, other=0.0).to(tl.float32)
    tl.store(out_ptr + rows * stride_out + cols, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def add_rms_norm_kernel(
    x_ptr,  # (num_rows, num_cols), rows stride_x apart
    weight_ptr,  # (num_cols,)
    residual_ptr,  # like x, rows stride_residual apart; replaced by residual + x
    out_ptr,  # like x, rows stride_out apart; may be x
    num_rows,
    num_cols,
    stride_x,
    stride_residual,
    stride_out,
    eps,
    BLOCK_M: tl.constexpr,  # rows of a program
    BLOCK_N: tl.constexpr,  # columns of the tile
):
    """03_add_rms_norm. Grid (ceil(num_rows / BLOCK_M),)."""
    rows, cols, mask = _tile(num_rows, num_cols, BLOCK_M, BLOCK_N)
    x = tl.load(x_ptr + rows * stride_x + cols, mask=mask, other=0.0).to(tl.float32)  # (BLOCK_M, BLOCK_N)
    residual = tl.load(residual_ptr + rows * stride_residual + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=cols < num_cols, other=0.0).to(tl.float32)  # (1, BLOCK_N)
    total = (residual + x).to(residual_ptr.dtype.element_ty)  # rounded as it is stored
    tl.store(residual_ptr + rows * stride_residual + cols, total, mask=mask)
    total = total.to(tl.float32)
    rstd = tl.rsqrt(tl.sum(total * total, axis=1, keep_dims=True) / num_cols + eps)  # (BLOCK_M, 1)
    tl.store(out_ptr + rows * stride_out + cols, (total * rstd * weight).to(out_ptr.dtype.element_ty), mask=mask)
