"""Wrong answers to 03.2, each an edit of kernels_cu/softmax/03_online_warp.cu."""

from course_lib.grading.exercise.submissions import Wrong

START_M = "float m = NEG_INF;"
GUARD = "if (row >= num_rows) return;"
UPDATE_LOOP = "for (int col = lane; col < num_cols; col += WARP_SIZE) {\n        const float score = x_row[col];"
UPDATE_L = "l = l * exp_shifted(m, m_new) + exp_shifted(score, m_new);"
UPDATE_M = "const float m_new = fmaxf(m, score);"
MERGE_LOOP = "for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2)"
MERGE_L = "l = l * exp_shifted(m, m_new) + l_other * exp_shifted(m_other, m_new);"
SHUFFLE_M = "__shfl_xor_sync(ALL_LANES, m, offset)"
SHUFFLE_L = "__shfl_xor_sync(ALL_LANES, l, offset)"
INVERSE = "const float inv_l = l > 0.0f ? 1.0f / l : 0.0f;"
WRITE_LOOP = "for (int col = lane; col < num_cols; col += WARP_SIZE) {\n        out_row[col]"
WRITE = "out_row[col] = exp_shifted(x_row[col], m) * inv_l;"


def looped(header):
    """The update loop with another header."""
    return ((UPDATE_LOOP, header + " {\n        const float score = x_row[col];"),)


ROUNDED_UP = "for (int col = lane; col < CEIL_DIV(num_cols, WARP_SIZE) * WARP_SIZE; col += WARP_SIZE)"

ANSWERS = [
    # numerics
    Wrong("no maximum", ((START_M, "float m = 0.0f;"), (UPDATE_M, "const float m_new = m;")), "no_max", "exp(100)"),
    Wrong("m starts at 0", ((START_M, "float m = 0.0f;"),), "m_starts_too_high", "-100"),
    Wrong("m starts at FLT_MIN", ((START_M, "float m = 1.17549435e-38f;"),), "m_starts_too_high", "FLT_MIN"),
    Wrong("m starts at -50", ((START_M, "float m = -50.0f;"),), "m_starts_too_high", "-inf"),
    Wrong("l not rescaled", ((UPDATE_L, "l += exp_shifted(score, m_new);"),), "l_not_rescaled", "(between strides)"),
    Wrong("l not rescaled in the merge", ((MERGE_L, "l += l_other;"),), "l_not_rescaled", "(between lanes)"),
    Wrong(
        "only the other sum rescaled",
        ((MERGE_L, "l = l + l_other * exp_shifted(m_other, m_new);"),),
        "lanes_disagree",
        "both sides of a merge",
    ),
    Wrong(
        "m set before the factor",
        ((UPDATE_L, "m = m_new; l = l * exp_shifted(m, m_new) + exp_shifted(score, m);"),),
        "l_not_rescaled",
    ),
    Wrong(
        "inverse factor in the merge",
        (
            (
                MERGE_L,
                "l = m > NEG_INF ? l * expf(m_new - m) + l_other * (m_other > NEG_INF ? expf(m_new - m_other) : 0.0f)"
                " : l_other;",
            ),
        ),
        "inverse_factor",
        "not exp(m_new - m)",
    ),
    Wrong(
        "inverse factor", ((UPDATE_L, "l = l * expf(m_new - m) + exp_shifted(score, m_new);"),), "all_zeros", "guard"
    ),
    Wrong("old sum lost", ((UPDATE_L, "l = m_new > m ? 1.0f : l + exp_shifted(score, m_new);"),), "old_sum_lost"),
    Wrong(
        "new term rescaled too",
        ((UPDATE_L, "l = (l + exp_shifted(score, m_new)) * exp_shifted(m, m_new);"),),
        "new_term_rescaled",
    ),
    Wrong("exp2 in the factor", ((UPDATE_L, "l = l * exp2f(m - m_new) + exp_shifted(score, m_new);"),), "exp_exp2_mix"),
    Wrong("exp2 in the end", ((WRITE, "out_row[col] = exp2f(x_row[col] - m) * inv_l;"),), "exp_exp2_mix", "0.5"),
    Wrong("-inf minus -inf", ((UPDATE_L, "l = l * expf(m - m_new) + expf(score - m_new);"),), "inf_minus_inf", "-inf"),
    Wrong(
        "-inf minus -inf in the merge",
        ((MERGE_L, "l = l * expf(m - m_new) + l_other * expf(m_other - m_new);"),),
        "inf_minus_inf",
        "without a column",
    ),
    Wrong(
        "0 / 0",
        (
            (INVERSE, "const float inv_l = 1.0f / l;"),
            (WRITE, WRITE.replace("exp_shifted(x_row[col], m)", "expf(x_row[col] - m)")),
        ),
        "masked_row",
        "nothing but -inf",
    ),
    Wrong("no division", ((INVERSE, "const float inv_l = 1.0f;"),), "no_division", "final division"),
    Wrong("product of both", ((INVERSE, "const float inv_l = l;"),), "multiplied_by_l", "instead of divided"),
    # which columns, which rows
    Wrong(
        "padding counted as 0",
        ((UPDATE_LOOP, ROUNDED_UP + " {\n        const float score = col < num_cols ? x_row[col] : 0.0f;"),),
        "padding_counted",
        "11 columns beyond its end",
    ),
    Wrong("reads past the row", looped(ROUNDED_UP), "out_of_bounds", "x"),
    Wrong(
        "no stride loop",
        looped("for (int col = lane; col < num_cols && col < WARP_SIZE; ++col, col += WARP_SIZE)"),
        "no_stride_loop",
        "32 keys",
    ),
    Wrong(
        "one column a lane",
        looped("if (const int col = lane; col < num_cols)")
        + ((WRITE_LOOP, "if (const int col = lane; col < num_cols) {\n        out_row[col]"),),
        "unwritten",
        "columns 32 to 44",
    ),
    Wrong(
        "last stride dropped",
        looped("for (int col = lane; col < num_cols / WARP_SIZE * WARP_SIZE; col += WARP_SIZE)"),
        "tail_dropped",
        "last 21 columns",
    ),
    Wrong("no row guard", ((GUARD, ""),), "out_of_bounds", ""),
    Wrong(
        "row of the block",
        (("blockIdx.x * (blockDim.x / WARP_SIZE) + threadIdx.x / WARP_SIZE", "blockIdx.x"),),
        "unwritten",
        "rows 1 to 2",
    ),
    Wrong(
        "rows counted by rows",
        (("x + (size_t)row * num_cols", "x + (size_t)row * num_rows"),),
        "row_offset",
        "r * num_cols",
    ),
    Wrong("rows begin at r", (("x + (size_t)row * num_cols", "x + row"),), "row_offset", "r * num_cols"),
    Wrong("one lane writes", ((WRITE, "if (lane == 0) " + WRITE),), "unwritten", "column"),
    # lanes
    Wrong(
        "shuffle down",
        ((SHUFFLE_M, SHUFFLE_M.replace("xor", "down")), (SHUFFLE_L, SHUFFLE_L.replace("xor", "down"))),
        "lanes_disagree",
        "column 0",
    ),
    Wrong(
        "one step of the merge missing",
        ((MERGE_LOOP, MERGE_LOOP.replace("WARP_SIZE / 2", "WARP_SIZE / 4")),),
        "lanes_disagree",
        "1/48",
    ),
    Wrong(
        "last step of the merge missing",
        ((MERGE_LOOP, MERGE_LOOP.replace("offset > 0", "offset > 1")),),
        "lanes_disagree",
        "",
    ),
    Wrong(
        "lanes without a column leave",
        ((GUARD, "if (row >= num_rows || lane >= num_cols) return;"),),
        "bad_shuffle",
        "returned",
    ),
    Wrong(
        "barrier after some warps left",
        ((INVERSE, "__syncthreads();\n    " + INVERSE),),
        "divergent_barrier",
        "returned",
    ),
    Wrong(
        "one variable for four warps",
        (
            (
                INVERSE,
                "__shared__ float l_smem;\n    if (lane == 0) l_smem = l;\n    __syncwarp();\n    "
                "const float inv_l = l_smem > 0.0f ? 1.0f / l_smem : 0.0f;",
            ),
        ),
        "race",
        "l_smem",
    ),
    Wrong("endless merge", ((MERGE_LOOP, MERGE_LOOP.replace("offset /= 2", "offset /= 1")),), "timeout", ""),
    # not the task
    Wrong("zeros", ((WRITE, "out_row[col] = 0.0f;"),), "all_zeros", "nothing was computed"),
    Wrong("scores handed back", ((WRITE, "out_row[col] = x_row[col];"),), "copy_of_input", "input x"),
    Wrong("nothing stored", ((WRITE, ""),), "unwritten", "Nothing was written"),
    Wrong("uniform weights", ((WRITE, "out_row[col] = 1.0f / num_cols;"),), "ignores_scores", ""),
    Wrong("semicolon missing", ((UPDATE_M, UPDATE_M.rstrip(";")),), "compile_error", ""),
    Wrong(
        "another name", (("online_softmax_warp_kernel", "my_kernel"),), "missing_function", "online_softmax_warp_kernel"
    ),
    Wrong("another signature", (("int num_rows, int num_cols", "int num_cols"),), "compile_error", ""),
]
