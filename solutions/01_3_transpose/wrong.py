"""Wrong answers to 01.3, each an edit of kernels_cu/transpose/03_conflict_free.cu."""

from course_lib.grading.exercise.submissions import Wrong

TILE_LINE = "__shared__ float tile_smem[TILE][TILE + 1];"
WRITE = "tile_smem[tile_row][tile_col] = x[(size_t)row * num_cols + col];"
READ = "out[(size_t)out_row * num_rows + out_col] = tile_smem[tile_col][tile_row];"
BARRIER = "__syncthreads();"
LOAD_GUARD = "if (row < num_rows && col < num_cols) {"
STORE_GUARD = "if (out_row < num_cols && out_col < num_rows) {"
OUT_ROW = "const int out_row = blockIdx.x * TILE + tile_row;"
OUT_COL = "const int out_col = blockIdx.y * TILE + tile_col;"


def tile(declaration):
    """The solution with another tile."""
    return ((TILE_LINE, f"__shared__ float tile_smem{declaration};"),)


ANSWERS = [
    # right values, wrong way
    Wrong("as it was given", tile("[TILE][TILE]"), "bank_conflicts", "32 lanes want different words"),
    Wrong("two columns more", tile("[TILE][TILE + 2]"), "bank_conflicts", "2 lanes want different words"),
    Wrong("four columns more", tile("[TILE][TILE + 4]"), "bank_conflicts", "4 lanes want different words"),
    Wrong("a row more", tile("[TILE + 1][TILE]"), "bank_conflicts", "the reads from shared memory"),
    Wrong("rows twice as long", tile("[TILE][2 * TILE]"), "bank_conflicts", "32 each"),
    Wrong(
        "the conflict moved to the write",
        (
            *tile("[TILE][TILE]"),
            (WRITE, WRITE.replace("[tile_row][tile_col]", "[tile_col][tile_row]")),
            (READ, READ.replace("[tile_col][tile_row]", "[tile_row][tile_col]")),
        ),
        "bank_conflicts",
        "the writes to shared memory",
    ),
    Wrong(
        "the conflict moved to global memory",
        (
            (OUT_ROW, "const int out_row = blockIdx.x * TILE + tile_col;"),
            (OUT_COL, "const int out_col = blockIdx.y * TILE + tile_row;"),
            (READ, READ.replace("[tile_col][tile_row]", "[tile_row][tile_col]")),
        ),
        "uncoalesced_store",
        "The loads are in order",
    ),
    Wrong(
        "past shared memory",
        ((WRITE, "out[(size_t)col * num_rows + row] = x[(size_t)row * num_cols + col];"), (READ, "")),
        "uncoalesced_store",
        "a sector to itself",
    ),
    # wrong values
    Wrong("no barrier", ((BARRIER, ""),), "race", "line"),
    Wrong("rows one too short", tile("[TILE][TILE - 1]"), "out_of_bounds"),
    Wrong(
        "nothing turned", ((READ, READ.replace("[tile_col][tile_row]", "[tile_row][tile_col]")),), "uninitialised_read"
    ),
    Wrong(
        "the tiles not exchanged",
        (
            (OUT_ROW, "const int out_row = blockIdx.y * TILE + tile_row;"),
            (OUT_COL, "const int out_col = blockIdx.x * TILE + tile_col;"),
        ),
        "uninitialised_read",
    ),
    Wrong("the load not guarded", ((LOAD_GUARD, "{"),), "out_of_bounds", "x"),
    Wrong("the store not guarded", ((STORE_GUARD, "{"),), "out_of_bounds", "out"),
    Wrong("rows as long as those of x", ((READ, READ.replace("num_rows", "num_cols")),), "out_of_bounds"),
    Wrong(
        "back before the barrier",
        ((LOAD_GUARD, "if (row >= num_rows || col >= num_cols) return;\n    {"),),
        "divergent_barrier",
    ),
    Wrong(
        "copied",
        ((READ, "out[(size_t)out_row * num_rows + out_col] = x[(size_t)out_row * num_rows + out_col];"),),
        "not_transposed",
        "old order",
    ),
]
