"""Right answers to 03.5 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

HEAD = """#include <cuda_fp16.h>
#ifndef BLOCK
#define BLOCK 128
#endif
#include "common/softmax_state.cuh"

extern "C" __global__ void log_sum_exp_kernel(const __half* x, float* lse, int num_rows, int num_cols) {
    x += (size_t)blockIdx.x * num_cols;
    float m = NEG_INF, l = 0.0f;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        const float score = __half2float(x[col]), m_new = fmaxf(m, score);
        l = l * exp_shifted(m, m_new) + exp_shifted(score, m_new);
        m = m_new;
    }
"""

ONE_THREAD_MERGES = (
    HEAD
    + """    __shared__ float m_smem[BLOCK], l_smem[BLOCK];
    m_smem[threadIdx.x] = m;
    l_smem[threadIdx.x] = l;
    __syncthreads();
    if (threadIdx.x) return;
    for (int other = 1; other < BLOCK; ++other) {
        const float m_new = fmaxf(m, m_smem[other]);
        l = l * exp_shifted(m, m_new) + l_smem[other] * exp_shifted(m_smem[other], m_new);
        m = m_new;
    }
    lse[blockIdx.x] = m + logf(l);
}
"""
)

SHUFFLES = (
    HEAD
    + """    __shared__ float m_smem[BLOCK / 32], l_smem[BLOCK / 32];
    for (int offset = 16; offset > 0; offset /= 2) {
        const float m_other = __shfl_xor_sync(~0u, m, offset), l_other = __shfl_xor_sync(~0u, l, offset);
        const float m_new = fmaxf(m, m_other);
        l = l * exp_shifted(m, m_new) + l_other * exp_shifted(m_other, m_new);
        m = m_new;
    }
    m_smem[threadIdx.x / 32] = m;
    l_smem[threadIdx.x / 32] = l;
    __syncthreads();
    if (threadIdx.x == 0) {
        float m_row = NEG_INF, l_row = 0.0f;
        for (int warp = 0; warp < BLOCK / 32; ++warp) m_row = fmaxf(m_row, m_smem[warp]);
        for (int warp = 0; warp < BLOCK / 32; ++warp) l_row += l_smem[warp] * exp_shifted(m_smem[warp], m_row);
        lse[blockIdx.x] = l_row > 0.0f ? logf(l_row) + m_row : NEG_INF;
    }
}
""".replace(
        "m_smem[threadIdx.x / 32] = m;\n    l_smem[threadIdx.x / 32] = l;",
        "if (threadIdx.x % 32 == 0) m_smem[threadIdx.x / 32] = m, l_smem[threadIdx.x / 32] = l;",
    )
)

PAIRS = """    const int pairs = num_cols % 2 == 0 ? num_cols / 2 : 0;  // else a row may begin in the middle of a pair
    for (int pair = threadIdx.x; pair < pairs; pair += BLOCK) {
        const __half2 two = reinterpret_cast<const __half2*>(x_row)[pair];
        const float a = __low2float(two), b = __high2float(two);
        const float m_new = fmaxf(m, fmaxf(a, b));
        l = l * exp_shifted(m, m_new) + exp_shifted(a, m_new) + exp_shifted(b, m_new);
        m = m_new;
    }
    for (int col = 2 * pairs + threadIdx.x; col < num_cols; col += BLOCK) {
"""

RUNS_OF_EIGHT = """    for (int run = 8 * threadIdx.x; run < num_cols; run += 8 * BLOCK)
    for (int col = run; col < min(run + 8, num_cols); ++col) {
"""

ANSWERS = [
    Right(
        "runs of eight scores", (("    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {\n", RUNS_OF_EIGHT),)
    ),
    Right("pairs of scores", (("    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {\n", PAIRS),)),
    Right(
        "from the end of the row",
        (
            (
                "for (int col = threadIdx.x; col < num_cols; col += BLOCK)",
                "for (int col = num_cols - 1 - threadIdx.x; col >= 0; col -= BLOCK)",
            ),
        ),
    ),
    Right("one thread merges", text=ONE_THREAD_MERGES),
    Right("shuffles, then warps", text=SHUFFLES),
    Right(
        "base 2 inside",
        (
            (
                "l = l * exp_shifted(m, m_new) + exp_shifted(score, m_new);",
                "l = l * exp2f((m == NEG_INF ? NEG_INF : m - m_new) * LOG2_E)"
                " + (score == NEG_INF ? 0.0f : exp2f(score * LOG2_E - m_new * LOG2_E));",
            ),
            ("m_row + logf(reduce_smem[0])", "m_row + LN_2 * log2f(reduce_smem[0])"),
        ),
    ),
    Right(
        "barriers everywhere",
        (
            (
                "const float m_row = reduce_smem[0];",
                "__syncthreads();\n    const float m_row = reduce_smem[0];\n    __syncthreads();",
            ),
        ),
    ),
]
