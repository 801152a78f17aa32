"""Right answers to 04.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

TILE_B = "__shared__ __align__(16) float b_smem[BLOCK][BLOCK + 4];"
READ_B = "&b_smem[lane][k]"
WRITE_B = "&b_smem[tile_row][tile_k]"
LOAD_B = "load4(b + (size_t)(block_col + tile_row) * size_k, k_start + tile_k, b_end);"

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
    Right(
        "every lane begins with another chunk of k",
        (
            (TILE_B, TILE_B.replace(" + 4", "")),
            (READ_B, "&b_smem[lane][(k + 4 * lane) % BLOCK]"),
            ("&a_smem[warp * WARP_ROWS + i][k]", "&a_smem[warp * WARP_ROWS + i][(k + 4 * lane) % BLOCK]"),
        ),
    ),
    Right(
        "stored transposed, one column more",
        (
            (TILE_B, TILE_B.replace("+ 4", "+ 1")),
            (f"*reinterpret_cast<float4*>({WRITE_B}) =", "const float4 b_new ="),
            (
                LOAD_B,
                LOAD_B + "\n        b_smem[tile_k][tile_row] = b_new.x, b_smem[tile_k + 1][tile_row] = b_new.y;"
                "\n        b_smem[tile_k + 2][tile_row] = b_new.z, b_smem[tile_k + 3][tile_row] = b_new.w;",
            ),
            (
                f"*reinterpret_cast<const float4*>({READ_B})",
                "make_float4(b_smem[k][lane], b_smem[k + 1][lane], b_smem[k + 2][lane], b_smem[k + 3][lane])",
            ),
        ),
    ),
]
