"""Triton twin of kernels_cu/moe/03_grouped: a tile of rows of one expert a program.

May import: triton.
"""

import triton
import triton.language as tl


@triton.jit
def grouped_kernel(
    x_ptr,  # (rows of x, size_k)
    w_ptr,  # (num_experts, size_n, size_k)
    order_ptr,  # (num_pairs,) int
    offsets_ptr,  # (num_experts + 1,) int
    tiles_ptr,  # (max_tiles, 2) int: expert, first place
    out_ptr,  # (num_pairs, size_n)
    size_n, size_k, top_k,
    BLOCK_M: tl.constexpr,  # rows of a tile
    BLOCK_N: tl.constexpr,  # columns of a tile
    BLOCK_K: tl.constexpr,  # k of one product
):  # fmt: skip
    """03_grouped. Grid (max_tiles, ceil(size_n / BLOCK_N))."""
    expert = tl.load(tiles_ptr + 2 * tl.program_id(0))
    if expert >= 0:
        places = tl.load(tiles_ptr + 2 * tl.program_id(0) + 1) + tl.arange(0, BLOCK_M)
        row_mask = places < tl.load(offsets_ptr + expert + 1)
        rows = places
        if top_k > 0:
            rows = tl.load(order_ptr + places, mask=row_mask, other=0) // top_k
        cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
        col_mask = cols < size_n
        w_rows = w_ptr + (expert.to(tl.int64) * size_n + cols) * size_k
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k_start in range(0, size_k, BLOCK_K):
            k = k_start + tl.arange(0, BLOCK_K)
            mask = k[None, :] < size_k
            x = tl.load(
                x_ptr + rows[:, None].to(tl.int64) * size_k + k[None, :], mask=row_mask[:, None] & mask, other=0.0
            )
            w = tl.load(w_rows[:, None] + k[None, :], mask=col_mask[:, None] & mask, other=0.0)
            acc = tl.dot(x, tl.trans(w), acc)
        target = out_ptr + places[:, None].to(tl.int64) * size_n + cols[None, :]
        tl.store(target, acc.to(out_ptr.dtype.element_ty), mask=row_mask[:, None] & col_mask[None, :])
