"""Right answers to 01.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

TILE_LINE = "__shared__ float tile_smem[TILE][TILE + 1];"
WRITE = "tile_smem[tile_row][tile_col] = x["
READ = "= tile_smem[tile_col][tile_row];"

ANSWERS = [
    Right("three columns more", ((TILE_LINE, "__shared__ float tile_smem[TILE][TILE + 3];"),)),
    Right(
        "swizzled",
        (
            (TILE_LINE, "__shared__ float tile_smem[TILE][TILE];"),
            (WRITE, "tile_smem[tile_row][tile_col ^ tile_row] = x["),
            (READ, "= tile_smem[tile_col][tile_row ^ tile_col];"),
        ),
    ),
    Right(
        "rotated rows",
        (
            (TILE_LINE, "__shared__ float tile_smem[TILE][TILE];"),
            (WRITE, "tile_smem[tile_row][(tile_col + tile_row) % TILE] = x["),
            (READ, "= tile_smem[tile_col][(tile_row + tile_col) % TILE];"),
        ),
    ),
    Right(
        "the first column unused",
        (
            (WRITE, "tile_smem[tile_row][tile_col + 1] = x["),
            (READ, "= tile_smem[tile_col][tile_row + 1];"),
        ),
    ),
    Right(
        "rotated by five a row",
        (
            (TILE_LINE, "__shared__ float tile_smem[TILE][TILE];"),
            (WRITE, "tile_smem[tile_row][(tile_col + 5 * tile_row) % TILE] = x["),
            (READ, "= tile_smem[tile_col][(tile_row + 5 * tile_col) % TILE];"),
        ),
    ),
    Right(
        "written along columns",
        ((WRITE, "tile_smem[tile_col][tile_row] = x["), (READ, "= tile_smem[tile_row][tile_col];")),
    ),
    Right(
        "one dimension",
        (
            (TILE_LINE, "__shared__ float tile_smem[TILE * 33];"),
            (WRITE, "tile_smem[33 * tile_row + tile_col] = x["),
            (READ, "= tile_smem[33 * tile_col + tile_row];"),
        ),
    ),
]
