"""Right answers to 05.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

# Every key is read; masked ones become -inf. Maximum first, then the sum, then the weights; base e.
THREE_SWEEPS = """#include "common/softmax_state.cuh"

extern "C" __global__ void
scale_mask_softmax_warp_kernel(const float* scores, float* probs, float* lse, int seq_len_q, int seq_len_kv,
                               float softmax_scale, int causal) {
    const size_t row = blockIdx.y * (size_t)gridDim.x + blockIdx.x;
    const int last = causal ? (int)blockIdx.x + seq_len_kv - seq_len_q : seq_len_kv;
    float m = NEG_INF, l = 0.0f;
    for (int key = threadIdx.x; key < seq_len_kv; key += 32) {
        m = fmaxf(m, key <= last ? scores[row * seq_len_kv + key] * softmax_scale : NEG_INF);
    }
    for (int offset = 1; offset < 32; offset *= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, offset));
    for (int key = threadIdx.x; key < seq_len_kv; key += 32) {
        if (key <= last) l += expf(scores[row * seq_len_kv + key] * softmax_scale - m);
    }
    for (int offset = 1; offset < 32; offset *= 2) l += __shfl_xor_sync(~0u, l, offset);
    const float total = m + logf(l);
    for (int key = threadIdx.x; key < seq_len_kv; key += 32) {
        const float score = scores[row * seq_len_kv + key] * softmax_scale;
        probs[row * seq_len_kv + key] = key <= last ? expf(score - m) / l : 0.0f;
    }
    if (threadIdx.x == 0) lse[row] = total;
}
"""

ANSWERS = [
    Right("three sweeps, base e", text=THREE_SWEEPS),
    Right(
        "additive mask",
        (
            (
                "for (int key = lane; key < num_visible; key += WARP_SIZE) {",
                "for (int key = lane; key < seq_len_kv; key += WARP_SIZE) {",
            ),
            (
                "const float score = scores_row[key] * softmax_scale_log2;",
                "const float score = scores_row[key] * softmax_scale_log2 + (key < num_visible ? 0.0f : NEG_INF);",
            ),
            (
                "l = l * exp2f(m - m_new) + exp2f(score - m_new);",
                "l = m_new == NEG_INF ? 0.0f : l * exp2f(m - m_new) + exp2f(score - m_new);",
            ),
        ),
    ),
    Right("inverse once", (("- m_row) / l : 0.0f", "- m_row) * (1.0f / l) : 0.0f"),)),
    Right(
        "keys from the last one",
        (
            (
                "for (int key = lane; key < num_visible; key += WARP_SIZE) {",
                "for (int key = num_visible - 1 - lane; key >= 0; key -= WARP_SIZE) {",
            ),
        ),
    ),
    Right(
        "lse by the last lane",
        (("if (lane == 0) lse[row]", "if (lane == WARP_SIZE - 1) lse[row]"),),
    ),
]
