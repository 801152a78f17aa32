"""Wrong answers to 03.5, each an edit of kernels_cu/softmax/04_log_sum_exp.cu."""

from course_lib.grading.exercise.submissions import Wrong

START_M = "float m = NEG_INF;"
UPDATE_LOOP = "for (int col = threadIdx.x; col < num_cols; col += BLOCK)"
UPDATE_M = "const float m_new = fmaxf(m, score);"
UPDATE_L = "l = l * exp_shifted(m, m_new) + exp_shifted(score, m_new);"
MAX_TREE = "reduce_smem[threadIdx.x] = m;\n    for (int stride = BLOCK / 2; stride > 0; stride /= 2)"
MAX_STEP = "reduce_smem[threadIdx.x] = fmaxf(reduce_smem[threadIdx.x], reduce_smem[threadIdx.x + stride]);"
MAX_READ = "__syncthreads();  // separates the last write of the maximum from its reads\n"
BETWEEN = "__syncthreads();  // separates all reads of the maximum from the first writes of the sum\n"
TREE_BARRIER = "__syncthreads();  // separates the writes of the step before from the reads of this one\n"
SCALED_L = "reduce_smem[threadIdx.x] = l * exp_shifted(m, m_row);"
SUM_TREE = SCALED_L + "\n    for (int stride = BLOCK / 2; stride > 0; stride /= 2)"
SUM_STEP = "reduce_smem[threadIdx.x] += reduce_smem[threadIdx.x + stride];"
WRITER = "if (threadIdx.x == 0) {  // thread 0 wrote reduce_smem[0] itself: it needs no barrier to read it"
RESULT = "lse[row] = m_row + logf(reduce_smem[0]);"

ANSWERS = [
    # barriers
    Wrong("no barrier between maximum and sum", ((BETWEEN, "\n"),), "race", "reduce_smem"),
    Wrong("maximum read without a barrier", ((MAX_READ, "\n"),), "race", "reduce_smem"),
    Wrong(
        "no barrier in the maximum tree",
        ((MAX_TREE + " {\n        " + TREE_BARRIER, MAX_TREE + " {\n"),),
        "race",
        "reduce_smem",
    ),
    Wrong(
        "no barrier in the sum tree",
        ((SUM_TREE + " {\n        " + TREE_BARRIER, SUM_TREE + " {\n"),),
        "race",
        "reduce_smem",
    ),
    Wrong(
        "barrier inside the branch",
        ((SUM_STEP, SUM_STEP + "\n            __syncthreads();"),),
        "divergent_barrier",
        "wait",
    ),
    Wrong(
        "threads without a column leave",
        (("const int row = blockIdx.x;", "const int row = blockIdx.x;\n    if (threadIdx.x >= num_cols) return;"),),
        "divergent_barrier",
        "returned",
    ),
    Wrong("every thread writes", ((WRITER, "{"),), "race", ""),
    # numerics
    Wrong("no maximum", ((START_M, "float m = 0.0f;"), (UPDATE_M, "const float m_new = m;")), "no_max", "+100"),
    Wrong("m starts at 0", ((START_M, "float m = 0.0f;"),), "m_starts_too_high", "-3000"),
    Wrong("l not rescaled", ((UPDATE_L, "l += exp_shifted(score, m_new);"),), "l_not_rescaled", "(between strides)"),
    Wrong(
        "l not rescaled in the merge",
        ((SCALED_L, "reduce_smem[threadIdx.x] = l;"),),
        "l_not_rescaled",
        "(between threads)",
    ),
    Wrong("exp2 in the factor", ((UPDATE_L, "l = l * exp2f(m - m_new) + exp_shifted(score, m_new);"),), "exp_exp2_mix"),
    Wrong("-inf minus -inf", ((UPDATE_L, "l = l * expf(m - m_new) + expf(score - m_new);"),), "inf_minus_inf", "-inf"),
    Wrong(
        "l in half",
        ((UPDATE_L, UPDATE_L + "\n        l = __half2float(__float2half(l));"),),
        "half_accumulator",
        "2048",
    ),
    Wrong(
        "exponentials in half",
        ((UPDATE_L, "l = l * exp_shifted(m, m_new) + __half2float(hexp(__float2half(fmaxf(score - m_new, -6e4f))));"),),
        "low_precision",
        "half",
    ),
    Wrong("base 2", ((RESULT, "lse[row] = m_row + log2f(reduce_smem[0]);"),), "lse_base_2", "natural"),
    Wrong("both in base 2", ((RESULT, "lse[row] = m_row * LOG2_E + log2f(reduce_smem[0]);"),), "lse_base_2", "natural"),
    Wrong("no maximum added", ((RESULT, "lse[row] = logf(reduce_smem[0]);"),), "lse_without_max", "m + log(l)"),
    Wrong("no logarithm", ((RESULT, "lse[row] = m_row + reduce_smem[0];"),), "lse_without_log", "l itself"),
    Wrong("maximum alone", ((RESULT, "lse[row] = m_row;"),), "lse_without_sum", "log(l) is missing"),
    Wrong("subtracted", ((RESULT, "lse[row] = m_row - logf(reduce_smem[0]);"),), "lse_sign", "sign"),
    # which numbers
    Wrong(
        "padding counted as 0",
        (
            (
                UPDATE_LOOP + " {\n        const float score = __half2float(x_row[col]);",
                "for (int col = threadIdx.x; col < CEIL_DIV(num_cols, BLOCK) * BLOCK; col += BLOCK) {\n"
                "        const float score = col < num_cols ? __half2float(x_row[col]) : 0.0f;",
            ),
        ),
        "padding_counted",
        "320",
    ),
    Wrong(
        "reads past the row",
        ((UPDATE_LOOP, UPDATE_LOOP.replace("num_cols", "CEIL_DIV(num_cols, BLOCK) * BLOCK")),),
        "out_of_bounds",
        "x",
    ),
    Wrong(
        "no stride loop",
        ((UPDATE_LOOP, UPDATE_LOOP.replace("col < num_cols", "col < num_cols && col < BLOCK")),),
        "no_stride_loop",
        "64",
    ),
    Wrong(
        "a stride of 128",
        ((UPDATE_LOOP, UPDATE_LOOP.replace("col += BLOCK", "col += 128")),),
        "merge_incomplete",
        "keys",
    ),
    Wrong(
        "one step of the sum missing",
        ((SUM_TREE, SUM_TREE.replace("BLOCK / 2", "BLOCK / 4")),),
        "merge_incomplete",
        "step",
    ),
    Wrong(
        "shared array too small",
        (("float reduce_smem[BLOCK];", "float reduce_smem[BLOCK / 2];"),),
        "out_of_bounds",
        "reduce_smem[32]",
    ),
    Wrong(
        "maximum of half the threads",
        ((MAX_STEP, MAX_STEP.replace(", reduce_smem[threadIdx.x + stride]", ", reduce_smem[0]")),),
        "race",
        "",
    ),
    Wrong("rows begin at r", (("x + (size_t)row * num_cols", "x + row"),), "row_offset", "r * num_cols"),
    # not the task
    Wrong("zeros", ((RESULT, "lse[row] = 0.0f;"),), "all_zeros", ""),
    Wrong("nothing stored", ((RESULT, ""),), "unwritten", "Nothing was written"),
]
