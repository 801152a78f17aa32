"""Wrong answers to 02.4, each an edit of kernels_cu/row_softmax/02_fused.cu."""

from course_lib.grading.exercise.submissions import Wrong

LOOP = "for (int col = threadIdx.x; col < num_cols; col += BLOCK) {\n        "
FETCH = "row_smem[col] = x_row[col];"
MAX = "m_thread = fmaxf(m_thread, row_smem[col]);"
START_M = "float m_thread = NEG_INF;"
BLOCK_MAX = "const float m = block_max(m_thread, reduce_smem);"
BETWEEN = "__syncthreads();"
EXP = "row_smem[col] = expf(row_smem[col] - m);"
ADD = "l_thread += row_smem[col];"
BLOCK_SUM = "const float l = block_sum(l_thread, reduce_smem);"
WRITE = "out_row[col] = row_smem[col] / l;"

ANSWERS = [
    # barriers
    Wrong("no barrier between maximum and sum", ((BETWEEN, ""),), "race", "reduce_smem"),
    Wrong("barrier of the warp alone", ((BETWEEN, "__syncwarp();"),), "race", "reduce_smem"),
    Wrong("barrier inside the loop", ((EXP, EXP + "\n        __syncthreads();"),), "divergent_barrier", ""),
    Wrong("barrier for one warp", ((BETWEEN, "if (threadIdx.x < 32) __syncthreads();"),), "divergent_barrier", ""),
    Wrong(
        "threads without a column leave",
        ((START_M, "if (threadIdx.x >= num_cols) return;\n    " + START_M),),
        "divergent_barrier",
        "returned",
    ),
    Wrong("everybody keeps their own sum", ((BLOCK_SUM, "const float l = l_thread;"),), "lanes_disagree", ""),
    Wrong(
        "everybody keeps their own maximum",
        ((BLOCK_MAX, "const float m = m_thread;"),),
        "own_maximum",
        "maximum of its own",
    ),
    Wrong(
        "reads a neighbour's column",
        ((WRITE, "out_row[col] = row_smem[num_cols - 1 - col] / l;"),),
        "order_reversed",
        "column of its score",
    ),
    # numerics
    Wrong("no maximum", ((EXP, "row_smem[col] = expf(row_smem[col]);"),), "no_max", "+100"),
    Wrong("m starts at 0", ((START_M, "float m_thread = 0.0f;"),), "m_starts_too_high", "-100"),
    Wrong("exp2", ((EXP, "row_smem[col] = exp2f(row_smem[col] - m);"),), "exp_exp2_mix", "0.5"),
    Wrong("no division", ((WRITE, "out_row[col] = row_smem[col];"),), "no_division", "division"),
    Wrong(
        "multiplied by the sum",
        ((WRITE, "out_row[col] = row_smem[col] * l;"),),
        "multiplied_by_l",
        "instead of divided",
    ),
    # columns and rows
    Wrong(
        "padding counted",
        (
            (
                LOOP + EXP,
                "for (int col = threadIdx.x; col < (num_cols + BLOCK - 1) / BLOCK * BLOCK; col += BLOCK) {\n"
                "        if (col >= num_cols) { l_thread += 1.0f; continue; }\n        " + EXP,
            ),
        ),
        "padding_counted",
        "beyond its end",
    ),
    Wrong(
        "row rounded up",
        (
            (
                LOOP + FETCH,
                "for (int col = threadIdx.x; col < (num_cols + BLOCK - 1) / BLOCK * BLOCK; col += BLOCK) {\n        "
                + FETCH,
            ),
        ),
        "out_of_bounds",
        "",
    ),
    Wrong(
        "one column a thread",
        (
            (LOOP + FETCH, "if (const int col = threadIdx.x; col < num_cols) {\n        " + FETCH),
            (LOOP + EXP, "if (const int col = threadIdx.x; col < num_cols) {\n        " + EXP),
            (LOOP + WRITE, "if (const int col = threadIdx.x; col < num_cols) {\n        " + WRITE),
        ),
        "unwritten",
        "columns 64",
    ),
    Wrong(
        "row not fetched to the end",
        ((LOOP + FETCH, "if (const int col = threadIdx.x; col < num_cols) {\n        " + FETCH),),
        "uninitialised_read",
        "dynamic shared memory",
    ),
    Wrong("rows begin at r", (("x + (size_t)row * num_cols", "x + row"),), "row_offset", "r * num_cols"),
    Wrong("every block takes row 0", (("const int row = blockIdx.x;", "const int row = 0;"),), "unwritten", "rows"),
    # right weights in another way
    Wrong(
        "three reads of global memory",
        ((MAX, "m_thread = fmaxf(m_thread, x_row[col]);"), (EXP, "row_smem[col] = expf(x_row[col] - m);")),
        "not_fused",
        "times as many",
    ),
    Wrong(
        "one thread reads it all again",
        (
            (
                BETWEEN,
                BETWEEN
                + "\n    if (threadIdx.x == 0) for (int col = 0; col < num_cols; ++col) row_smem[col] = x_row[col];\n"
                "    __syncthreads();",
            ),
        ),
        "not_fused",
        "2 times",
    ),
    Wrong(
        "weights parked in the output",
        ((ADD, ADD + "\n        out_row[col] = row_smem[col];"),),
        "not_fused",
        "written",
    ),
    # not the task
    Wrong("zeros", ((WRITE, "out_row[col] = 0.0f;"),), "all_zeros", ""),
    Wrong("uniform weights", ((WRITE, "out_row[col] = 1.0f / num_cols;"),), "ignores_scores", ""),
    Wrong("reads the output", ((WRITE, "out_row[col] += row_smem[col] / l;"),), "uninitialised_read", "out"),
    Wrong("nothing stored", ((WRITE, ""),), "unwritten", "Nothing was written"),
    Wrong("missing bracket", ((EXP, "row_smem[col] = expf(row_smem[col] - m;"),), "compile_error", ""),
]
