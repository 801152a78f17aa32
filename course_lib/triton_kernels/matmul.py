"""Triton twin of kernels_cu/matmul/08_pipelined: tiles, grouped order, tensor cores; Triton makes the pipeline itself.

`matmul_kernel` is the function; `tuned_matmul_kernel` is the same under @autotune, which times TILES on a GPU once for
every three sizes and keeps the fastest. The interpreter has nothing to time: there the plain function takes one tile.

May import: triton.
"""

import triton
import triton.language as tl

# (BLOCK_M, BLOCK_N, BLOCK_K, num_stages, num_warps) for autotune; the first serves cards with little shared memory
TILES = (
    (64, 64, 32, 3, 4),
    (128, 64, 64, 3, 4),
    (128, 128, 64, 3, 4),
    (128, 128, 64, 4, 8),
    (128, 256, 64, 3, 8),
    (128, 256, 64, 4, 8),
    (256, 128, 64, 3, 8),
)
GROUP_M = 8  # rows of tiles that are walked together


@triton.jit
def matmul_kernel(
    a_ptr,  # (size_m, size_k) half or bfloat16, contiguous
    b_ptr,  # (size_k, size_n) like a
    out_ptr,  # (size_m, size_n) like a
    size_m, size_n, size_k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_M: rows of the tile of a program; BLOCK_N: its columns
    BLOCK_K: tl.constexpr,  # k of one product
    GROUP_M: tl.constexpr,  # rows of tiles that are walked together
):  # fmt: skip
    """08_pipelined. Grid (ceil(size_m / BLOCK_M) * ceil(size_n / BLOCK_N),)."""
    # region: grouped_order
    tiles_m, tiles_n = tl.cdiv(size_m, BLOCK_M), tl.cdiv(size_n, BLOCK_N)
    group_row = tl.program_id(0) // (GROUP_M * tiles_n) * GROUP_M  # first row of tiles of this program's group
    group_rows = tl.minimum(GROUP_M, tiles_m - group_row)
    in_group = tl.program_id(0) % (GROUP_M * tiles_n)
    # endregion

    # region: pointers
    rows = (group_row + in_group % group_rows) * BLOCK_M + tl.arange(0, BLOCK_M)  # (BLOCK_M,)
    cols = in_group // group_rows * BLOCK_N + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
    k = tl.arange(0, BLOCK_K)  # (BLOCK_K,)
    a_ptrs = a_ptr + rows.to(tl.int64)[:, None] * size_k + k[None, :]  # (BLOCK_M, BLOCK_K)
    b_ptrs = b_ptr + k.to(tl.int64)[:, None] * size_n + cols[None, :]  # (BLOCK_K, BLOCK_N)
    # endregion

    # region: multiply
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)  # (BLOCK_M, BLOCK_N)
    for k_start in range(0, size_k, BLOCK_K):
        a = tl.load(a_ptrs, mask=(rows < size_m)[:, None] & (k < size_k - k_start)[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=(k < size_k - k_start)[:, None] & (cols < size_n)[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * size_n
    # endregion

    # region: store
    out_ptrs = out_ptr + rows.to(tl.int64)[:, None] * size_n + cols[None, :]  # (BLOCK_M, BLOCK_N)
    mask = (rows < size_m)[:, None] & (cols < size_n)[None, :]
    tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=mask)
    # endregion


def _time(call, quantiles):
    """Milliseconds of one call for autotune: enough runs to choose, few enough not to wait."""
    return triton.testing.do_bench(call, warmup=5, rep=30, quantiles=quantiles)


# region: autotune
tuned_matmul_kernel = triton.autotune(
    configs=[
        triton.Config(
            {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": GROUP_M},
            num_stages=num_stages,
            num_warps=num_warps,
        )
        for block_m, block_n, block_k, num_stages, num_warps in TILES
    ],
    key=["size_m", "size_n", "size_k"],
    do_bench=_time,
)(matmul_kernel)
# endregion
