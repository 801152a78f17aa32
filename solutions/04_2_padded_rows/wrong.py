"""Wrong answers to 04.2, each an edit of answer.cu."""

from course_lib.grading.exercise.submissions import Wrong

TILE_A = "__shared__ __align__(16) float a_smem[BLOCK][BLOCK];"
TILE_B = "__shared__ __align__(16) float b_smem[BLOCK][BLOCK + 4];"
READ_B = "const float4 b_reg = *reinterpret_cast<const float4*>(&b_smem[lane][k]);"
WRITE_B = """*reinterpret_cast<float4*>(&b_smem[tile_row][tile_k]) =
            load4(b + (size_t)(block_col + tile_row) * size_k, k_start + tile_k, b_end);"""
AFTER_LOAD = "__syncthreads();  // separates the writes of the tiles from all threads' reads"
BEFORE_LOAD = "__syncthreads();  // separates the reads of these tiles from the writes of the next"


def tile(declaration):
    """The solution with another tile of b."""
    return ((TILE_B, f"__shared__ __align__(16) float b_smem{declaration};"),)


TURNED_WRITE = """const float4 v = load4(b + (size_t)(block_col + tile_row) * size_k, k_start + tile_k, b_end);
        b_smem[tile_k][tile_row] = v.x;
        b_smem[tile_k + 1][tile_row] = v.y;
        b_smem[tile_k + 2][tile_row] = v.z;
        b_smem[tile_k + 3][tile_row] = v.w;"""
TURNED_READ = (
    "const float4 b_reg = make_float4(b_smem[k][lane], b_smem[k + 1][lane], b_smem[k + 2][lane], b_smem[k + 3][lane]);"
)
BY_ONE_READ = (
    "const float4 b_reg = make_float4(b_smem[lane][k], b_smem[lane][k + 1], b_smem[lane][k + 2], b_smem[lane][k + 3]);"
)
BY_ONE_WRITE = """const float4 v = load4(b + (size_t)(block_col + tile_row) * size_k, k_start + tile_k, b_end);
        b_smem[tile_row][tile_k] = v.x;
        b_smem[tile_row][tile_k + 1] = v.y;
        b_smem[tile_row][tile_k + 2] = v.z;
        b_smem[tile_row][tile_k + 3] = v.w;"""

ANSWERS = [
    Wrong("as it was given", tile("[BLOCK][BLOCK]"), "bank_conflicts", "takes 32 wavefronts and needs 4"),
    Wrong("one column more", tile("[BLOCK][BLOCK + 1]"), "misaligned", "16"),
    Wrong("two columns more", tile("[BLOCK][BLOCK + 2]"), "misaligned", "16"),
    Wrong("eight columns more", tile("[BLOCK][BLOCK + 8]"), "bank_conflicts", "takes 8 wavefronts and needs 4"),
    Wrong("sixteen columns more", tile("[BLOCK][BLOCK + 16]"), "bank_conflicts", "takes 16 wavefronts and needs 4"),
    Wrong("rows twice as long", tile("[BLOCK][2 * BLOCK]"), "bank_conflicts", "takes 32 wavefronts"),
    Wrong("a row more", tile("[BLOCK + 4][BLOCK]"), "bank_conflicts", "the reads from shared memory"),
    Wrong(
        "the other tile padded",
        ((TILE_A, TILE_A.replace("[BLOCK][BLOCK]", "[BLOCK][BLOCK + 4]")), *tile("[BLOCK][BLOCK]")),
        "bank_conflicts",
        "the reads from shared memory",
    ),
    Wrong(
        "transposed while it is stored",
        (*tile("[BLOCK][BLOCK]"), (WRITE_B, TURNED_WRITE), (READ_B, TURNED_READ)),
        "bank_conflicts",
        "the writes to shared memory",
    ),
    Wrong(
        "one column more, number by number",
        (*tile("[BLOCK][BLOCK + 1]"), (WRITE_B, BY_ONE_WRITE), (READ_B, BY_ONE_READ.replace("lane", "lane / 2 * 2"))),
        "wrong_column",
        "column 0",
    ),
    Wrong(
        "past shared memory",
        (
            (
                READ_B,
                "const float4 b_reg = load4(b + (size_t)(block_col + lane) * size_k, k_start + k, "
                "block_col + lane < size_n ? size_k : 0);",
            ),
        ),
        "no_reuse",
        "times on average",
    ),
    Wrong("a tile that is too small", tile("[BLOCK][BLOCK - 4]"), "out_of_bounds", "b_smem"),
    Wrong("barrier missing after the load", ((AFTER_LOAD, ""),), "race", "smem"),
    Wrong("barrier missing before the next load", ((BEFORE_LOAD, ""),), "race", "smem"),
]
