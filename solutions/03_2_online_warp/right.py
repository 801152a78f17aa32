"""Right answers to 03.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

HEAD = """#include "common/softmax_state.cuh"

extern "C" __global__ void
online_softmax_warp_kernel(const float* x, float* out, int num_rows, int num_cols) {
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= num_rows) return;
    x += (size_t)row * num_cols;
    out += (size_t)row * num_cols;
"""

# Base 2 throughout, the scores scaled before the difference, the maximum of the warp first, then one scaled sum.
BASE_2 = (
    HEAD
    + """    float m = -1e30f, l = 0.0f;
    for (int col = lane; col < num_cols; col += 32) {
        const float score = x[col] * LOG2_E;
        if (score > m) {
            l *= exp2f(m - score);
            m = score;
        }
        l += exp2f(score - m);
    }
    float m_row = m;
    for (int offset = 16; offset; offset >>= 1) m_row = fmaxf(m_row, __shfl_xor_sync(~0u, m_row, offset));
    l *= exp2f(m - m_row);
    for (int offset = 16; offset; offset >>= 1) l += __shfl_xor_sync(~0u, l, offset);
    for (int col = lane; col < num_cols; col += 32) out[col] = exp2f(x[col] * LOG2_E - m_row) / fmaxf(l, 1.0f);
}
"""
)

# Each lane takes a run of neighbouring columns: right, and slow, since the lanes of a request are far apart.
COLUMNS_IN_RUNS = (
    HEAD
    + """    const int share = (num_cols + 31) / 32;
    const int first = min(lane * share, num_cols), last = min(first + share, num_cols);
    float m = NEG_INF, l = 0.0f;
    for (int col = first; col < last; ++col) {
        const float score = x[col];
        const float m_new = fmaxf(m, score);
        l = l * exp_shifted(m, m_new) + exp_shifted(score, m_new);
        m = m_new;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        const float m_other = __shfl_xor_sync(ALL_LANES, m, offset), l_other = __shfl_xor_sync(ALL_LANES, l, offset);
        const float m_new = fmaxf(m, m_other);
        l = l * exp_shifted(m, m_new) + l_other * exp_shifted(m_other, m_new);
        m = m_new;
    }
    for (int col = first; col < last; ++col) out[col] = l == 0.0f ? 0.0f : exp_shifted(x[col], m) / l;
}
"""
)

DOWN_AND_BROADCAST = (
    HEAD
    + """    float m = NEG_INF, l = 0.0f;
    for (int col = num_cols - 1 - lane; col >= 0; col -= 32) {
        const float score = x[col];
        const float m_new = fmaxf(m, score);
        l = l * exp_shifted(m, m_new) + exp_shifted(score, m_new);
        m = m_new;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        const float m_other = __shfl_down_sync(ALL_LANES, m, offset), l_other = __shfl_down_sync(ALL_LANES, l, offset);
        const float m_new = fmaxf(m, m_other);
        l = l * exp_shifted(m, m_new) + l_other * exp_shifted(m_other, m_new);
        m = m_new;
    }
    m = __shfl_sync(ALL_LANES, m, 0);
    l = __shfl_sync(ALL_LANES, l, 0);
    for (int col = lane; col < num_cols; col += 32) out[col] = l == 0.0f ? 0.0f : exp_shifted(x[col], m) / l;
}
"""
)

ANSWERS = [
    Right("base 2, scaled first", text=BASE_2),
    Right("columns in runs", text=COLUMNS_IN_RUNS, remark="sectors"),
    Right("shuffle down and broadcast, columns backwards", text=DOWN_AND_BROADCAST),
    Right(
        "merge from near to far",
        (("int offset = WARP_SIZE / 2; offset > 0; offset /= 2", "int offset = 1; offset < WARP_SIZE; offset *= 2"),),
    ),
    Right(
        "the fast exponential",
        (
            (
                "l = l * exp_shifted(m, m_new) + exp_shifted(score, m_new);",
                "l = l * exp_shifted(m, m_new) + (score == NEG_INF ? 0.0f : __expf(score - m_new));",
            ),
        ),
    ),
    Right(
        "two columns a turn",
        (
            (
                "for (int col = lane; col < num_cols; col += WARP_SIZE) {\n        const float score = x_row[col];",
                "for (int twice = 2 * lane; twice < 2 * num_cols; twice += WARP_SIZE * 2) {\n"
                "        const float score = x_row[twice / 2];",
            ),
        ),
    ),
    Right(
        "logarithm in the exponent",
        (
            (
                "out_row[col] = exp_shifted(x_row[col], m) * inv_l;",
                "out_row[col] = l > 0.0f ? exp_shifted(x_row[col], m + logf(l)) : inv_l;",
            ),
        ),
    ),
]
