import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr,  # (size_m, size_k) half, contiguous
    b_ptr,  # (size_k, size_n) half, contiguous
    out_ptr,  # (size_m, size_n) half, contiguous
    size_m,
    size_n,
    size_k,
    BLOCK_M: tl.constexpr,  # rows of a tile of the result
    BLOCK_N: tl.constexpr,  # columns
    BLOCK_K: tl.constexpr,  # numbers of k in a step
    GROUP_M: tl.constexpr,  # rows of tiles that are walked through together
):
    """out = a b, summed in float. Grid: one program a tile, ceil(size_m / BLOCK_M) * ceil(size_n / BLOCK_N)."""
    program = tl.program_id(0)
    ### BEGIN SOLUTION
    tiles_m, tiles_n = tl.cdiv(size_m, BLOCK_M), tl.cdiv(size_n, BLOCK_N)
    first_m = program // (GROUP_M * tiles_n) * GROUP_M
    group_rows = tl.minimum(tiles_m - first_m, GROUP_M)  # the last group may be narrower
    within = program % (GROUP_M * tiles_n)
    tile_m, tile_n = first_m + within % group_rows, within // group_rows

    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]  # (BLOCK_M, 1)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]  # (1, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k_start in range(0, size_k, BLOCK_K):
        k = k_start + tl.arange(0, BLOCK_K)  # (BLOCK_K,)
        a_mask = (rows < size_m) & (k[None, :] < size_k)
        b_mask = (k[:, None] < size_k) & (cols < size_n)
        a = tl.load(a_ptr + rows * size_k + k[None, :], mask=a_mask, other=0.0)  # (BLOCK_M, BLOCK_K)
        b = tl.load(b_ptr + k[:, None] * size_n + cols, mask=b_mask, other=0.0)  # (BLOCK_K, BLOCK_N)
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + rows * size_n + cols, acc.to(tl.float16), mask=(rows < size_m) & (cols < size_n))
    ### END SOLUTION
