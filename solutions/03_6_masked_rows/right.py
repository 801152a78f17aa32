"""Right answers to 03.6 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

# Every key is looked at and selected; lengths from an early return per column, weights from the log-sum-exp.
SELECTED = """#include "common/softmax_state.cuh"

extern "C" __global__ void
masked_softmax_kernel(const float* scores, const int* seq_lens_kv, float* out, float* lse,
                      int seq_len_q, int seq_len_kv) {
    const int q_row = blockIdx.x, last_key = q_row + seq_lens_kv[blockIdx.y] - seq_len_q;
    const size_t row = blockIdx.y * (size_t)gridDim.x + q_row;
    float m = -3.0e38f, l = 0.0f;
    for (int key = threadIdx.x; key < seq_len_kv; key += 32) {
        const float score = scores[row * seq_len_kv + key];
        if (key > last_key || score == NEG_INF) continue;
        if (score > m) l *= expf(m - score), m = score;
        l += expf(score - m);
    }
    float m_row = m;
    for (int offset = 16; offset > 0; offset /= 2) m_row = fmaxf(m_row, __shfl_xor_sync(~0u, m_row, offset));
    l *= expf(m - m_row);
    for (int offset = 16; offset > 0; offset /= 2) l += __shfl_xor_sync(~0u, l, offset);
    for (int key = seq_len_kv - 1 - threadIdx.x; key >= 0; key -= 32) {
        const float score = scores[row * seq_len_kv + key];
        out[row * seq_len_kv + key] = key <= last_key && l > 0.0f ? exp_shifted(score, m_row) / l : 0.0f;
    }
    if (threadIdx.x == 31) lse[row] = l == 0.0f ? NEG_INF : m_row + logf(l);
}
"""

LOOP = "    for (int col = lane; col < {}; col += WARP_SIZE) {{\n"
RUNS = """    for (int run = 4 * lane; run < {0}; run += 4 * WARP_SIZE)
    for (int col = run; col < min(run + 4, {0}); ++col) {{
"""
WRITE = """    for (int col = lane; col < seq_len_kv; col += WARP_SIZE) {
        out_row[col] = col < num_visible ? exp_shifted(scores_row[col], m) * inv_l : 0.0f;
    }
"""
WRITE_TWICE = """    const int first_hidden = max(num_visible, 0);
    for (int col = lane; col < num_visible; col += WARP_SIZE) out_row[col] = exp_shifted(scores_row[col], m) * inv_l;
    for (int col = first_hidden + lane; col < seq_len_kv; col += WARP_SIZE) out_row[col] = 0.0f;
"""

ANSWERS = [
    Right("visible keys first, then the others", ((WRITE, WRITE_TWICE),)),
    Right("runs of four keys", tuple((LOOP.format(end), RUNS.format(end)) for end in ("num_visible", "seq_len_kv"))),
    Right("selected, the maximum of the warp first, written from the end", text=SELECTED),
    Right("no special case for lse", (("lse[row] = l == 0.0f ? NEG_INF : m + logf(l);", "lse[row] = m + logf(l);"),)),
    Right(
        "masked scores as -inf",
        (
            (
                "for (int col = lane; col < num_visible; col += WARP_SIZE) {\n"
                "        const float score = scores_row[col];",
                "for (int col = lane; col < seq_len_kv; col += WARP_SIZE) {\n"
                "        const float score = col < num_visible ? scores_row[col] : NEG_INF;",
            ),
        ),
    ),
    Right(
        "weights from lse",
        (
            (
                "exp_shifted(scores_row[col], m) * inv_l : 0.0f",
                "exp_shifted(scores_row[col], m + logf(l + (l == 0.0f))) : inv_l * 0",
            ),
        ),
    ),
]
