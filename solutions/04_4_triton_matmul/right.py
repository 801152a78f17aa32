"""Right answers to 04.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

PLACE = "tile_m, tile_n = first_m + within % group_rows, within // group_rows"
DOT = "acc = tl.dot(a, b, acc)"
A_MASK = "a_mask = (rows < size_m) & (k[None, :] < size_k)"
LOAD_A = "a = tl.load(a_ptr + rows * size_k + k[None, :], mask=a_mask, other=0.0)"
LOAD_B = "b = tl.load(b_ptr + k[:, None] * size_n + cols, mask=b_mask, other=0.0)"

# Written from the text of the exercise alone: row-major order, pointers that move on, the sum by +=.
FROM_THE_TEXT = """import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, size_m, size_n, size_k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                  BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    per_row = tl.cdiv(size_n, BLOCK_N)
    i = tl.program_id(0) // per_row * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(0) % per_row * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    left = a_ptr + i[:, None] * size_k + k[None, :]
    right = b_ptr + k[:, None] * size_n + j[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    remaining = size_k
    while remaining > 0:
        x = tl.load(left, mask=(i < size_m)[:, None] & (k < remaining)[None, :], other=0.0)
        y = tl.load(right, mask=(k < remaining)[:, None] & (j < size_n)[None, :], other=0.0)
        total += tl.dot(x, y)
        left += BLOCK_K
        right += BLOCK_K * size_n
        remaining -= BLOCK_K
    inside = (i < size_m)[:, None] & (j < size_n)[None, :]
    tl.store(out_ptr + i[:, None] * size_n + j[None, :], total.to(tl.float16), mask=inside)
"""

# As in Triton's own tutorial: what lies past the last row or column is another row or column, and is not stored.
WRAPPED = """import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, out_ptr, size_m, size_n, size_k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):
    tiles_n = tl.cdiv(size_n, BLOCK_N)
    row = tl.program_id(0) // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tl.program_id(0) % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (row % size_m)[:, None] * size_k + k[None, :]
    b_ptrs = b_ptr + k[:, None] * size_n + (col % size_n)[None, :]
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(size_k, BLOCK_K)):
        left = size_k - step * BLOCK_K
        sums += tl.dot(
            tl.load(a_ptrs, mask=k[None, :] < left, other=0.0), tl.load(b_ptrs, mask=k[:, None] < left, other=0.0)
        )
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * size_n
    mask = (row < size_m)[:, None] & (col < size_n)[None, :]
    tl.store(out_ptr + row[:, None] * size_n + col[None, :], sums.to(tl.float16), mask=mask)
"""

BLOCKS = """import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, out_ptr, size_m, size_n, size_k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):
    tiles_m = tl.cdiv(size_m, BLOCK_M)
    row, col = tl.program_id(0) % tiles_m * BLOCK_M, tl.program_id(0) // tiles_m * BLOCK_N
    a = tl.make_block_ptr(a_ptr, (size_m, size_k), (size_k, 1), (row, 0), (BLOCK_M, BLOCK_K), (1, 0))
    b = tl.make_block_ptr(b_ptr, (size_k, size_n), (size_n, 1), (0, col), (BLOCK_K, BLOCK_N), (1, 0))
    out = tl.make_block_ptr(out_ptr, (size_m, size_n), (size_n, 1), (row, col), (BLOCK_M, BLOCK_N), (1, 0))
    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, size_k, BLOCK_K):
        left = tl.load(a, boundary_check=(0, 1), padding_option="zero")
        right = tl.load(b, boundary_check=(0, 1), padding_option="zero")
        sums = tl.dot(left, right, sums)
        a, b = tl.advance(a, (0, BLOCK_K)), tl.advance(b, (BLOCK_K, 0))
    tl.store(out, sums.to(tl.float16), boundary_check=(0, 1))
"""

ANSWERS = [
    Right("written from the text alone", text=FROM_THE_TEXT),
    Right("row-major order", ((PLACE, "tile_m, tile_n = program // tiles_n, program % tiles_n"),)),
    Right("column-major order", ((PLACE, "tile_m, tile_n = program % tiles_m, program // tiles_m"),)),
    Right(
        "backwards",
        ((PLACE, "last = tiles_m * tiles_n - 1 - program\n    tile_m, tile_n = last // tiles_n, last % tiles_n"),),
    ),
    Right("added to acc", ((DOT, "acc += tl.dot(a, b)"),)),
    Right(
        "k masked in one factor, 0 in the other by its own mask",
        (
            (A_MASK, "a_mask = k[None, :] < size_k"),
            (LOAD_A, LOAD_A.replace("rows * size_k", "(rows % size_m) * size_k")),
        ),
    ),
    Right(
        "steps of k counted",
        (
            ("for k_start in range(0, size_k, BLOCK_K):\n", "for step in range(tl.cdiv(size_k, BLOCK_K)):\n"),
            ("k = k_start + tl", "k = step * BLOCK_K + tl"),
        ),
    ),
    Right("transposed product", ((DOT, "acc = tl.trans(tl.dot(tl.trans(b), tl.trans(a), tl.trans(acc)))"),)),
    Right(
        "sums of products, no dot",
        ((DOT, "acc += tl.sum(a.to(tl.float32)[:, :, None] * b.to(tl.float32)[None, :, :], axis=1)"),),
    ),
    Right("rows and columns past the end wrapped round", text=WRAPPED),
    Right("block pointers", text=BLOCKS),
]
