"""Right answers to 04.4 that look different from the solution."""

from course_lib.grading.contestants import Right

PLACE = "tile_m, tile_n = first_m + within % group_rows, within // group_rows"
DOT = "acc = tl.dot(a, b, acc)"
A_MASK = "a_mask = (rows < size_m) & (k[None, :] < size_k)"
LOAD_A = "a = tl.load(a_ptr + rows * size_k + k[None, :], mask=a_mask, other=0.0)"
LOAD_B = "b = tl.load(b_ptr + k[:, None] * size_n + cols, mask=b_mask, other=0.0)"

ANSWERS = [
    Right("row-major order", ((PLACE, "tile_m, tile_n = program // tiles_n, program % tiles_n"),)),
    Right("column-major order", ((PLACE, "tile_m, tile_n = program % tiles_m, program // tiles_m"),)),
    Right(
        "backwards",
        ((PLACE, "last = tiles_m * tiles_n - 1 - program\n    tile_m, tile_n = last // tiles_n, last % tiles_n"),),
    ),
    Right("added to acc", ((DOT, "acc += tl.dot(a, b)"),)),
    Right(
        "k masked in one factor, 0 in the other by rows that are there",
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
]
