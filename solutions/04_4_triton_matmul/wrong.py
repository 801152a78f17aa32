"""Wrong answers to 04.4, each an edit of answer.py."""

from course_lib.grading.exercise.submissions import Wrong

TILES = "tiles_m, tiles_n = tl.cdiv(size_m, BLOCK_M), tl.cdiv(size_n, BLOCK_N)"
GROUP_ROWS = "group_rows = tl.minimum(tiles_m - first_m, GROUP_M)  # the last group may be narrower"
PLACE = "tile_m, tile_n = first_m + within % group_rows, within // group_rows"
ROWS = "rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]  # (BLOCK_M, 1)"
COLS = "cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]  # (1, BLOCK_N)"
ACC = "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)\n"
K_LOOP = "for k_start in range(0, size_k, BLOCK_K):\n"
K = "k = k_start + tl.arange(0, BLOCK_K)  # (BLOCK_K,)"
A_MASK = "a_mask = (rows < size_m) & (k[None, :] < size_k)"
B_MASK = "b_mask = (k[:, None] < size_k) & (cols < size_n)"
LOAD_A = "a = tl.load(a_ptr + rows * size_k + k[None, :], mask=a_mask, other=0.0)"
LOAD_B = "b = tl.load(b_ptr + k[:, None] * size_n + cols, mask=b_mask, other=0.0)"
DOT = "acc = tl.dot(a, b, acc)"
STORE = "tl.store(out_ptr + rows * size_n + cols, acc.to(tl.float16), mask=(rows < size_m) & (cols < size_n))"

ANSWERS = [
    # the grid
    Wrong(
        "columns of tiles rounded down",
        (
            (TILES, "tiles_m, tiles_n = tl.cdiv(size_m, BLOCK_M), tl.maximum(size_n // BLOCK_N, 1)"),
            (PLACE, "tile_m, tile_n = program // tiles_n % tiles_m, program % tiles_n"),
        ),
        "race",
        "writes out_ptr",
    ),
    Wrong(
        "rows of tiles rounded down",
        ((TILES, TILES.replace("tl.cdiv(size_m, BLOCK_M)", "size_m // BLOCK_M")),),
        "race",
        "writes out_ptr",
    ),
    Wrong("the last group as wide as the others", ((GROUP_ROWS, "group_rows = GROUP_M"),), "unwritten", "column"),
    Wrong(
        "tiles counted by rows of numbers",
        ((PLACE, "tile_m, tile_n = program // size_n, program % size_n"),),
        "unwritten",
        "",
    ),
    Wrong(
        "row-major by the wrong number of tiles",
        ((PLACE, "tile_m, tile_n = program // tiles_m, program % tiles_m"),),
        "unwritten",
        "",
    ),
    Wrong(
        "the first tile in every program",
        ((PLACE, "tile_m, tile_n = program * 0, program * 0"),),
        "race",
        "no fixed order",
    ),
    Wrong(
        "the group forgotten",
        ((PLACE, "tile_m, tile_n = within % group_rows, within // group_rows"),),
        "race",
        "writes out_ptr",
    ),
    Wrong("tiles side by side overlap", ((COLS, COLS.replace("* BLOCK_N", "* BLOCK_M")),), "race", "out_ptr[0, 16]"),
    # masks
    Wrong("M not masked in the load", ((A_MASK, "a_mask = k[None, :] < size_k"),), "out_of_bounds", "a_ptr"),
    Wrong("K not masked in a", ((A_MASK, "a_mask = rows < size_m"),), "out_of_bounds", "a_ptr"),
    Wrong("K not masked in b", ((B_MASK, "b_mask = cols < size_n"),), "out_of_bounds", "b_ptr"),
    Wrong("N not masked in the load", ((B_MASK, "b_mask = k[:, None] < size_k"),), "out_of_bounds", "b_ptr"),
    Wrong("M not masked in the store", ((STORE, STORE.replace("(rows < size_m) & ", "")),), "out_of_bounds", "out_ptr"),
    Wrong("N not masked in the store", ((STORE, STORE.replace(" & (cols < size_n)", "")),), "out_of_bounds", "out_ptr"),
    Wrong(
        "masked lanes left as they are",
        ((LOAD_A, LOAD_A.replace(", other=0.0", "")), (LOAD_B, LOAD_B.replace(", other=0.0", ""))),
        "tail_unset",
        "",
    ),
    Wrong(
        "masked lanes 1",
        ((LOAD_A, LOAD_A.replace("0.0", "1.0")), (LOAD_B, LOAD_B.replace("0.0", "1.0"))),
        "tail_counted",
        "must hold 0",
    ),
    # the sum
    Wrong(
        "whole steps of k alone",
        ((K_LOOP, K_LOOP.replace("0, size_k, BLOCK_K", "0, size_k // BLOCK_K * BLOCK_K, BLOCK_K")),),
        "k_tail_dropped",
        "last 5",
    ),
    Wrong("acc not kept", ((DOT, "acc = tl.dot(a, b)"),), "acc_not_kept", "last tile alone"),
    Wrong("acc added twice", ((DOT, "acc += tl.dot(a, b, acc)"),), "terms", ""),
    Wrong(
        "acc begun in the loop",
        ((ACC, "first = 0\n"), (K, "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)\n        " + K)),
        "acc_not_kept",
        "set it to 0 once",
    ),
    Wrong(
        "sums in half precision",
        ((ACC, ACC.replace("float32", "float16")), (DOT, "acc += tl.dot(a, b).to(tl.float16)")),
        "low_precision",
        "compute in float",
    ),
    # which number goes where
    Wrong(
        "k not moved on in a",
        ((LOAD_A, LOAD_A.replace("k[None, :],", "tl.arange(0, BLOCK_K)[None, :],")),),
        "k_mismatch",
        "",
    ),
    Wrong(
        "rows of a as long as those of b",
        ((LOAD_A, LOAD_A.replace("rows * size_k", "rows * size_n")),),
        "out_of_bounds",
    ),
    Wrong("rows of b as long as those of a", ((LOAD_B, LOAD_B.replace("* size_n", "* size_k")),), "out_of_bounds"),
    Wrong(
        "rows of out as long as those of a",
        ((STORE, STORE.replace("* size_n", "* size_k")),),
        "out_of_bounds",
        "out_ptr",
    ),
    Wrong("out transposed", ((STORE, STORE.replace("rows * size_n + cols", "cols * size_m + rows")),), "wrong_row", ""),
    Wrong("zeros", ((STORE, STORE.replace("acc.to", "(acc * 0.0).to")),), "all_zeros"),
]
