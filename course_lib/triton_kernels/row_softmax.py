"""Triton twins of kernels_cu/row_softmax/: softmax as three launches, and as one.

One program a row, and the row is one tile: BLOCK_N is a power of two, at least num_cols.

May import: triton.
"""

import triton
import triton.language as tl


@triton.jit
def row_max_kernel(
    x_ptr,  # (num_rows, num_cols) float, contiguous
    m_ptr,  # (num_rows,) float
    num_rows,
    num_cols,
    BLOCK_N: tl.constexpr,  # columns of the tile
):
    """01_unfused, first launch: the maximum of every row. Grid (num_rows,)."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)  # (BLOCK_N,)
    x = tl.load(x_ptr + row * num_cols + cols, mask=cols < num_cols, other=-float("inf"))  # (BLOCK_N,)
    tl.store(m_ptr + row, tl.max(x, axis=0))


@triton.jit
def row_exp_sum_kernel(
    x_ptr,  # (num_rows, num_cols) float, contiguous
    m_ptr,  # (num_rows,) float
    weights_ptr,  # like x
    l_ptr,  # (num_rows,) float
    num_rows,
    num_cols,
    BLOCK_N: tl.constexpr,  # columns of the tile
):
    """01_unfused, second launch: exponentials, and the sum of every row. Grid (num_rows,)."""
    row = tl.program_id(0).to(tl.int64)
    # region: exp_sum
    cols = tl.arange(0, BLOCK_N)  # (BLOCK_N,)
    mask = cols < num_cols  # (BLOCK_N,)
    x = tl.load(x_ptr + row * num_cols + cols, mask=mask, other=-float("inf"))  # (BLOCK_N,)
    weights = tl.exp(x - tl.load(m_ptr + row))  # (BLOCK_N,)
    tl.store(weights_ptr + row * num_cols + cols, weights, mask=mask)
    tl.store(l_ptr + row, tl.sum(weights, axis=0))
    # endregion


@triton.jit
def row_divide_kernel(
    weights_ptr,  # (num_rows, num_cols) float, contiguous
    l_ptr,  # (num_rows,) float
    out_ptr,  # like weights
    num_rows,
    num_cols,
    BLOCK_N: tl.constexpr,  # columns of the tile
):
    """01_unfused, third launch: the division. Grid (num_rows,)."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)  # (BLOCK_N,)
    mask = cols < num_cols  # (BLOCK_N,)
    weights = tl.load(weights_ptr + row * num_cols + cols, mask=mask)  # (BLOCK_N,)
    tl.store(out_ptr + row * num_cols + cols, weights / tl.load(l_ptr + row), mask=mask)


@triton.jit
def fused_softmax_kernel(
    x_ptr,  # (num_rows, num_cols) float, contiguous
    out_ptr,  # like x
    num_rows,
    num_cols,
    BLOCK_N: tl.constexpr,  # columns of the tile: a power of two, at least num_cols
):
    """02_fused: the row is read once and written once. Grid (num_rows,)."""
    row = tl.program_id(0).to(tl.int64)
    ### BEGIN SOLUTION
    cols = tl.arange(0, BLOCK_N)  # (BLOCK_N,)
    mask = cols < num_cols  # (BLOCK_N,) which places exist
    x = tl.load(x_ptr + row * num_cols + cols, mask=mask, other=-float("inf"))  # (BLOCK_N,)
    m = tl.max(x, axis=0)
    weights = tl.exp(x - m)  # (BLOCK_N,), 0 beyond the end of the row
    l = tl.sum(weights, axis=0)
    tl.store(out_ptr + row * num_cols + cols, weights / l, mask=mask)
    ### END SOLUTION
