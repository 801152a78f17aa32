"""Right answers to 04.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

TILE_B = "__shared__ __align__(16) float b_smem[BLOCK][BLOCK + 4];"
READ_B = "&b_smem[lane][k]"
WRITE_B = "&b_smem[tile_row][tile_k]"

ANSWERS = [
    Right("twelve columns more", ((TILE_B, TILE_B.replace("+ 4", "+ 12")),)),
    Right(
        "swizzled, no column more",
        (
            (TILE_B, TILE_B.replace(" + 4", "")),
            (READ_B, "&b_smem[lane][(k / 4 ^ lane % 8) * 4]"),
            (WRITE_B, "&b_smem[tile_row][(tile_k / 4 ^ tile_row % 8) * 4]"),
        ),
    ),
    Right(
        "every row begins at another chunk",
        (
            (TILE_B, TILE_B.replace(" + 4", "")),
            (READ_B, "&b_smem[lane][(k + 4 * lane) % BLOCK]"),
            (WRITE_B, "&b_smem[tile_row][(tile_k + 4 * tile_row) % BLOCK]"),
        ),
    ),
]
