"""Right answers to 09.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

# Two passes over the split: the maximum first, then the sums; last key first.
TWO_PASSES = """#include <cuda_fp16.h>
#include "common/softmax_state.cuh"
#include "common/warp_reduce.cuh"
#define HEAD_DIM 64

__device__ float one_score(const __half* q, const __half* k, int lane) {
    float sum = 0.0f;
    for (int d = lane; d < HEAD_DIM; d += WARP_SIZE) sum += __half2float(q[d]) * __half2float(k[d]);
    return warp_sum(sum);
}

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
split_kernel(const __half* q, const __half* k, const __half* v, float* partial_out, float* partial_lse,
             int num_q_per_kv, int seq_len_kv, int capacity, int split_len, float softmax_scale) {
    const int lane = threadIdx.x;
    const size_t row = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
    const size_t kv_head = row / num_q_per_kv;
    q += row * HEAD_DIM;
    k += kv_head * capacity * HEAD_DIM;
    v += kv_head * capacity * HEAD_DIM;
    const int first = blockIdx.x * split_len, end = min(first + split_len, seq_len_kv);
    float m = NEG_INF, l = 0.0f, acc[2] = {0.0f, 0.0f};
    for (int key = first; key < end; ++key) {
        m = fmaxf(m, one_score(q, k + (size_t)key * HEAD_DIM, lane) * softmax_scale);
    }
    for (int key = end - 1; key >= first; --key) {
        const float weight = expf(one_score(q, k + (size_t)key * HEAD_DIM, lane) * softmax_scale - m);
        l += weight;
        for (int i = 0; i < 2; ++i) acc[i] += weight * __half2float(v[(size_t)key * HEAD_DIM + lane + i * WARP_SIZE]);
    }
    const size_t offset = blockIdx.x * (size_t)gridDim.y * gridDim.z + row;
    for (int i = 0; i < 2; ++i) partial_out[offset * HEAD_DIM + lane + i * WARP_SIZE] = acc[i] / l;
    if (lane == 31) partial_lse[offset] = logf(l) + m;
}
"""

SCORE = "const float score = warp_sum(q_reg.x * k_reg.x + q_reg.y * k_reg.y) * softmax_scale;"
ALPHA = "const float alpha = exp_shifted(m, m_new), weight = exp_shifted(score, m_new);"
LSE = "partial_lse[offset] = m + logf(l);"

ANSWERS = [
    Right("every lane writes lse, all the same number", (("if (lane == 0) partial_lse", "partial_lse"),)),
    Right("two passes, k read twice, last key first", text=TWO_PASSES),
    Right(
        "base 2",
        (
            (SCORE, SCORE.replace("* softmax_scale", "* (softmax_scale * LOG2_E)")),
            (ALPHA, "const float alpha = exp2f(m - m_new), weight = exp2f(score - m_new);"),
            (LSE, "partial_lse[offset] = (m + log2f(l)) * LN_2;"),
        ),
    ),
    Right(
        "lanes in another order",
        (("const int lane = threadIdx.x, split", "const int lane = threadIdx.x ^ 5, split"),),
    ),
]
