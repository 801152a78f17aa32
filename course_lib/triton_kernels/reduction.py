"""Triton twin of kernels_cu/reduction/: one function for three steps.

How the threads of a program bring their numbers together, by shared memory or by shuffles, is the compiler's business.

May import: triton.
"""

import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(
    x_ptr,  # (num_rows, num_cols) float, contiguous
    out_ptr,  # (num_rows,) float
    num_rows,
    num_cols,
    BLOCK_N: tl.constexpr,  # columns read at once
):
    """01_shared_tree, 02_warp_shuffle, 03_warp_rows: sum of every row. Grid (num_rows,)."""
    row = tl.program_id(0).to(tl.int64)

    # region: own_sum
    sums = tl.zeros((BLOCK_N,), tl.float32)  # (BLOCK_N,)
    for start in range(0, num_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        sums += tl.load(x_ptr + row * num_cols + cols, mask=cols < num_cols, other=0.0)
    # endregion

    # region: tree
    tl.store(out_ptr + row, tl.sum(sums, axis=0))
    # endregion
