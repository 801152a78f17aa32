"""Wrong answers to 04.1, each an edit of answer.cu."""

from course_lib.grading.exercise.submissions import Wrong

LOAD_A = "row < size_m && a_col < size_k ? a[(size_t)row * size_k + a_col] : 0.0f;"
LOAD_B = "b_row < size_k && col < size_n ? b[(size_t)b_row * size_n + col] : 0.0f;"
STORE_A = f"a_smem[tile_row][tile_col] = {LOAD_A}"
STORE_B = f"b_smem[tile_k][tile_col] = {LOAD_B}"
B_LOOP = "for (int tile_k = tile_row; tile_k < BLOCK_K; tile_k += BLOCK_M) {"
AFTER_LOAD = "__syncthreads();  // separates the writes of the tiles from all threads' reads"
BEFORE_LOAD = "__syncthreads();  // separates the reads of these tiles from the writes of the next"
ACC = "float acc = 0.0f;\n"
K_LOOP = "for (int k_start = 0; k_start < size_k; k_start += BLOCK_K) {\n"
PRODUCT = "acc += a_smem[tile_row][k] * b_smem[k][tile_col];"
STORE = "if (row < size_m && col < size_n) out[(size_t)row * size_n + col] = acc;"
INNER = "for (int k = 0; k < BLOCK_K; ++k) {"

ANSWERS = [
    # barriers
    Wrong("barrier missing after the load", ((AFTER_LOAD, ""),), "race", "smem"),
    Wrong("barrier missing before the next load", ((BEFORE_LOAD, ""),), "race", "smem"),
    Wrong(
        "barrier inside the guard",
        (
            (AFTER_LOAD, "if (row < size_m && col < size_n) {\n        __syncthreads();"),
            (BEFORE_LOAD, "__syncthreads();\n        }"),
        ),
        "divergent_barrier",
        "",
    ),
    Wrong(
        "back before the first barrier",
        ((ACC, "if (row >= size_m || col >= size_n) return;\n    " + ACC),),
        "divergent_barrier",
        "returned",
    ),
    Wrong("a warp's barrier in place of the block's", ((AFTER_LOAD, "__syncwarp();"),), "race", "b_smem"),
    # guards
    Wrong("M not guarded in the load", ((LOAD_A, LOAD_A.replace("row < size_m && ", "")),), "out_of_bounds", "a"),
    Wrong("K not guarded in a", ((LOAD_A, LOAD_A.replace(" && a_col < size_k", "")),), "out_of_bounds", "a"),
    Wrong("K not guarded in b", ((LOAD_B, LOAD_B.replace("b_row < size_k && ", "")),), "out_of_bounds", "b"),
    Wrong("N not guarded in the load", ((LOAD_B, LOAD_B.replace(" && col < size_n", "")),), "out_of_bounds", "b"),
    Wrong("M not guarded in the store", ((STORE, STORE.replace("row < size_m && ", "")),), "out_of_bounds", "out"),
    Wrong("N not guarded in the store", ((STORE, STORE.replace(" && col < size_n", "")),), "out_of_bounds", "out"),
    Wrong(
        "K not guarded at all",
        (
            (LOAD_A, LOAD_A.replace(" && a_col < size_k", "")),
            (LOAD_B, LOAD_B.replace("b_row < size_k && ", "")),
        ),
        "out_of_bounds",
        "",
    ),
    Wrong("guard by one too many", ((LOAD_A, LOAD_A.replace("a_col < size_k", "a_col <= size_k")),), "out_of_bounds"),
    # steps and tiles that do not fit together
    Wrong(
        "k goes on by the rows of the tile", ((K_LOOP, K_LOOP.replace("BLOCK_K", "BLOCK_M")),), "terms", "goes on by 8"
    ),
    Wrong("as many products as rows", ((INNER, INNER.replace("BLOCK_K", "BLOCK_M")),), "terms", "only the first 8"),
    # tails of k
    Wrong(
        "stale tail of k: nothing written beyond the end",
        (
            (
                STORE_A,
                "if (row < size_m && a_col < size_k) a_smem[tile_row][tile_col] = a[(size_t)row * size_k + a_col];",
            ),
            (
                STORE_B,
                "if (b_row < size_k && col < size_n) b_smem[tile_k][tile_col] = b[(size_t)b_row * size_n + col];",
            ),
        ),
        "uninitialised_read",
        "smem",
    ),
    Wrong(
        "stale tail of k in a tile that began at 0",
        (
            (
                ACC,
                ACC + "    a_smem[tile_row][tile_col] = 0.0f;\n"
                "    for (int k = tile_row; k < BLOCK_K; k += BLOCK_M) b_smem[k][tile_col] = 0.0f;\n",
            ),
            (
                STORE_A,
                "if (row < size_m && a_col < size_k) a_smem[tile_row][tile_col] = a[(size_t)row * size_k + a_col];",
            ),
            (
                STORE_B,
                "if (b_row < size_k && col < size_n) b_smem[tile_k][tile_col] = b[(size_t)b_row * size_n + col];",
            ),
        ),
        "tail_counted",
        "must hold 0",
    ),
    Wrong(
        "whole tiles of k alone",
        ((K_LOOP, K_LOOP.replace("k_start < size_k", "k_start + BLOCK_K <= size_k")),),
        "k_tail_dropped",
        "last 5",
    ),
    # the sum
    Wrong(
        "acc not kept",
        ((ACC, "float acc;\n"), (K_LOOP, K_LOOP + "        acc = 0.0f;\n")),
        "acc_not_kept",
        "last tile alone",
    ),
    Wrong("assigned, not added", ((PRODUCT, PRODUCT.replace("+=", "=")),), "nothing_summed", "replaced the one before"),
    Wrong("acc not begun", ((ACC, "float acc;\n"),), "not_begun", "acc was not set to 0"),
    Wrong(
        "added to out, tile after tile",
        ((STORE, ""), (BEFORE_LOAD, STORE.replace("= acc", "+= acc") + "\n        " + BEFORE_LOAD)),
        "uninitialised_read",
        "out",
    ),
    Wrong(
        "the sum in half precision",
        (
            (ACC, "__half acc = __float2half(0.0f);\n"),
            (PRODUCT, "acc = __hadd(acc, __float2half(a_smem[tile_row][k] * b_smem[k][tile_col]));"),
            (STORE, STORE.replace("= acc", "= __half2float(acc)")),
            ("#define BLOCK_M 8", "#include <cuda_fp16.h>\n#define BLOCK_M 8"),
        ),
        "low_precision",
        "compute in float",
    ),
    # which number goes where
    Wrong(
        "rows of a as long as those of b", ((LOAD_A, LOAD_A.replace("row * size_k", "row * size_n")),), "out_of_bounds"
    ),
    Wrong("rows of b as long as those of a", ((LOAD_B, LOAD_B.replace("* size_n", "* size_k")),), "out_of_bounds"),
    Wrong(
        "rows of out as long as those of a", ((STORE, STORE.replace("* size_n", "* size_k")),), "out_of_bounds", "out"
    ),
    Wrong("out transposed", ((STORE, STORE.replace("row * size_n + col", "col * size_m + row")),), "wrong_row", "row"),
    Wrong("the first tile of a again and again", ((LOAD_A, LOAD_A.replace("+ a_col]", "+ tile_col]")),), "k_mismatch"),
    Wrong(
        "k of the first tile in b",
        ((LOAD_B, LOAD_B.replace("[(size_t)b_row", "[(size_t)tile_k")),),
        "k_mismatch",
        "multiplied by row",
    ),
    Wrong(
        "one row of b's tile a warp",
        ((B_LOOP, "for (int tile_k = tile_row; tile_k < BLOCK_M; tile_k += BLOCK_M) {"),),
        "uninitialised_read",
        "b_smem",
    ),
    Wrong("8 products in place of 32", ((INNER, INNER.replace("BLOCK_K", "BLOCK_M")),), "terms", "counts its products"),
    # no tiles
    Wrong(
        "straight from global memory",
        (
            (STORE_A, ""),
            (STORE_B, ""),
            (
                PRODUCT,
                "if (row < size_m && col < size_n && k_start + k < size_k) "
                "acc += a[(size_t)row * size_k + k_start + k] * b[(size_t)(k_start + k) * size_n + col];",
            ),
        ),
        "no_reuse",
        "times on average",
    ),
    Wrong("zeros", ((STORE, STORE.replace("= acc", "= 0.0f")),), "all_zeros"),
]
