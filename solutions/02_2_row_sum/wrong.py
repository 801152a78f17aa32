"""Wrong answers to 02.2, each an edit of kernels_cu/reduction/03_warp_rows.cu."""

from course_lib.grading.exercise.submissions import Wrong

GUARD = "if (row >= num_rows) return;"
START = "float sum = 0.0f;"
LOOP = "for (int col = lane; col < num_cols; col += WARP_SIZE)"
ADD = "sum += x_row[col];"
TREE = "for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2)"
STEP = "sum += __shfl_down_sync(ALL_LANES, sum, offset);"
WRITE = "if (lane == 0) {"
SHUFFLES = TREE + " {  // all 32 lanes take part\n        " + STEP + "\n    }"

ANSWERS = [
    # lanes
    Wrong("no shuffles", ((SHUFFLES, ""),), "merge_incomplete", "lanes 1 to 31"),
    Wrong(
        "first step missing",
        ((TREE, TREE.replace("/ 2; offset > 0", "/ 4; offset > 0")),),
        "merge_incomplete",
        "lanes 16 to 31",
    ),
    Wrong("last step missing", ((TREE, TREE.replace("offset > 0", "offset > 1")),), "merge_incomplete", "1, 3, 5"),
    Wrong("one shuffle", ((TREE, "const int offset = 16;"),), "merge_incomplete", "never reached"),
    Wrong("the last lane writes", ((WRITE, "if (lane == 31) {"),), "merge_incomplete", "never reached"),
    Wrong("shuffle up, lane 0 writes", ((STEP, STEP.replace("down", "up")),), "merge_incomplete", "lanes 1 to 31"),
    Wrong("replaced instead of added", ((STEP, STEP.replace("+=", "=")),), "merge_incomplete", "never reached"),
    Wrong(
        "added twice", ((STEP, "sum += 2.0f * __shfl_down_sync(ALL_LANES, sum, offset);"),), "counted_twice", "times"
    ),
    Wrong("shuffle inside a branch", ((STEP, "if (lane < offset) " + STEP),), "bad_shuffle", ""),
    Wrong(
        "lanes without a column leave",
        ((GUARD, "if (row >= num_rows || lane >= num_cols) return;"),),
        "bad_shuffle",
        "returned",
    ),
    Wrong(
        "shuffle inside the column loop",
        ((ADD, ADD + " sum += __shfl_down_sync(ALL_LANES, sum, 16);"),),
        "bad_shuffle",
        "",
    ),
    Wrong("every lane writes", ((WRITE, "{"),), "race", "out"),
    Wrong("endless tree", ((TREE, TREE.replace("offset /= 2", "offset /= 1")),), "timeout", ""),
    # columns
    Wrong(
        "first stride alone",
        ((LOOP, "for (int col = lane; col < num_cols && col < WARP_SIZE; col += WARP_SIZE)"),),
        "no_stride_loop",
        "32",
    ),
    Wrong(
        "last stride dropped",
        ((LOOP, LOOP.replace("col < num_cols", "col < num_cols / WARP_SIZE * WARP_SIZE")),),
        "tail_dropped",
        "last 21",
    ),
    Wrong("one column too many", ((LOOP, LOOP.replace("col < num_cols", "col <= num_cols")),), "out_of_bounds", "x"),
    Wrong(
        "row rounded up",
        ((LOOP, LOOP.replace("col < num_cols", "col < CEIL_DIV(num_cols, WARP_SIZE) * WARP_SIZE")),),
        "out_of_bounds",
        "x",
    ),
    Wrong("starts at one", ((START, "float sum = 1.0f;"),), "counted_twice", ""),
    Wrong(
        "a stride of the block",
        ((LOOP, LOOP.replace("col += WARP_SIZE", "col += blockDim.x")),),
        "no_stride_loop",
        "32",
    ),
    Wrong(
        "columns begin at threadIdx.x", ((LOOP, LOOP.replace("= lane", "= threadIdx.x")),), "wrong_columns", "its lane"
    ),
    Wrong(
        "columns of the block",
        ((LOOP, "for (int col = threadIdx.x; col < num_cols; col += blockDim.x)"),),
        "wrong_columns",
        "first warp of each block",
    ),
    Wrong(
        "last two steps missing",
        ((TREE, TREE.replace("offset > 0", "offset > 2")),),
        "merge_incomplete",
        "1 to 3, 5 to 7",
    ),
    # rows
    Wrong(
        "every warp takes the first row of its block",
        (("x + (size_t)row * num_cols", "x + (size_t)(row / 4 * 4) * num_cols"),),
        "row_offset",
        "where does row r begin",
    ),
    Wrong("no row guard", ((GUARD, ""),), "out_of_bounds", ""),
    Wrong(
        "row of the block",
        (("blockIdx.x * (blockDim.x / WARP_SIZE) + threadIdx.x / WARP_SIZE", "blockIdx.x"),),
        "unwritten",
        "rows 1 to 2",
    ),
    Wrong("rows begin at r", (("x + (size_t)row * num_cols", "x + row"),), "row_offset", "r * num_cols"),
    # right sums in another way
    Wrong(
        "one lane does everything",
        ((LOOP, "if (lane == 0) for (int col = 0; col < num_cols; ++col)"), (SHUFFLES, "")),
        "lanes_alone",
        "load requests",
    ),
    Wrong(
        "every lane reads everything",
        ((LOOP, "for (int col = 0; col < num_cols; ++col)"), (SHUFFLES, "")),
        "lanes_alone",
        "load requests",
    ),
    Wrong(
        "through shared memory",
        (
            (
                SHUFFLES,
                "__shared__ float sum_smem[128];\n    sum_smem[threadIdx.x] = sum;\n    __syncwarp();\n"
                "    if (lane == 0) for (int k = 1; k < 32; ++k) sum += sum_smem[threadIdx.x + k];",
            ),
        ),
        "shared_memory_used",
        "accesses to shared memory",
    ),
    Wrong(
        "atomics",
        (
            (SHUFFLES, "if (lane == 0) out[row] = 0.0f;\n    __syncwarp();"),
            (WRITE + "\n        out[row] = sum;", "{\n        atomicAdd(&out[row], sum);"),
        ),
        "atomics_used",
        "atomic",
    ),
    # not the task
    Wrong("the mean", (("out[row] = sum;", "out[row] = sum / num_cols;"),), "mean_for_sum", "mean"),
    Wrong("zeros", (("out[row] = sum;", "out[row] = 0.0f;"),), "all_zeros", ""),
    Wrong("adds onto the output", (("out[row] = sum;", "out[row] += sum;"),), "uninitialised_read", "out"),
    Wrong("nothing stored", (("out[row] = sum;", ""),), "unwritten", "Nothing was written"),
]
