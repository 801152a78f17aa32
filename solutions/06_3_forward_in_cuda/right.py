"""Right answers to 06.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

# One key after the other: the state is updated for every key, and the row of out stays in registers over the tile.
KEY_BY_KEY = """#include "common/softmax_state.cuh"

extern "C" __global__ void
flash_attention_1_rows_kernel(const float* q, const float* k, const float* v, float* out, float* m, float* l,
                              float* lse, int num_q_per_kv, int seq_len_q, int seq_len_kv, float softmax_scale) {
    __shared__ float kv[2][BLOCK_N * HEAD_DIM];
    const int head = blockIdx.y * gridDim.x + blockIdx.x;
    const long long kv_first = (long long)(head / num_q_per_kv) * seq_len_kv * HEAD_DIM;
    const long long row_first = (long long)head * seq_len_q;
    for (int start = 0; start < seq_len_kv; start += BLOCK_N) {
        const int count = min(BLOCK_N, seq_len_kv - start) * HEAD_DIM;
        for (int i = threadIdx.x; i < count; i += BLOCK_M) {
            kv[0][i] = k[kv_first + start * HEAD_DIM + i];
            kv[1][i] = v[kv_first + start * HEAD_DIM + i];
        }
        __syncthreads();
        for (long long row = row_first + threadIdx.x; row < row_first + seq_len_q; row += BLOCK_M) {
            float q_reg[HEAD_DIM], o[HEAD_DIM];
            float m_row = start ? m[row] : NEG_INF, l_row = start ? l[row] : 0.0f;
            for (int d = 0; d < HEAD_DIM; ++d) {
                q_reg[d] = q[row * HEAD_DIM + d] * softmax_scale;
                o[d] = start ? out[row * HEAD_DIM + d] * l_row : 0.0f;
            }
            for (int at = 0; at < count; at += HEAD_DIM) {
                float score = 0.0f;
                for (int d = 0; d < HEAD_DIM; ++d) score += q_reg[d] * kv[0][at + d];
                const float m_new = fmaxf(m_row, score);
                const float alpha = exp_shifted(m_row, m_new), weight = expf(score - m_new);
                l_row = l_row * alpha + weight;
                for (int d = 0; d < HEAD_DIM; ++d) o[d] = o[d] * alpha + weight * kv[1][at + d];
                m_row = m_new;
            }
            for (int d = 0; d < HEAD_DIM; ++d) out[row * HEAD_DIM + d] = o[d] / l_row;
            m[row] = m_row;
            l[row] = l_row;
            lse[row] = m_row + logf(l_row);
        }
        __syncthreads();
    }
}
"""

ANSWERS = [
    Right("one key after the other", text=KEY_BY_KEY),
    Right(
        "base 2",
        (
            (
                "const float old_sum = l_old * exp_shifted(m_old, m_new);",
                "const float old_sum = l_old * exp2f((m_old - m_new) * LOG2_E);",
            ),
        ),
    ),
    Right(
        "a barrier more",
        (
            (
                "__syncthreads();  // separates the writes of the tiles from their reads",
                "__syncthreads();\n        __syncthreads();",
            ),
        ),
    ),
    Right(
        "division after the last tile",
        (
            (
                "out[(size_t)q_row * HEAD_DIM + d] * old_sum : 0.0f;",
                "out[(size_t)q_row * HEAD_DIM + d] * exp_shifted(m_old, m_new) : 0.0f;",
            ),
            (
                "out[(size_t)q_row * HEAD_DIM + d] = acc / l_new;",
                "out[(size_t)q_row * HEAD_DIM + d] = kv_start + BLOCK_N < seq_len_kv ? acc : acc / l_new;",
            ),
        ),
    ),
    Right(
        "division as a product",
        (
            (
                "out[(size_t)q_row * HEAD_DIM + d] = acc / l_new;",
                "out[(size_t)q_row * HEAD_DIM + d] = acc * (1.0f / l_new);",
            ),
        ),
    ),
    Right(
        "q scaled before the product",
        (
            (
                "const float q_d = q[(size_t)q_row * HEAD_DIM + d];",
                "const float q_d = q[(size_t)q_row * HEAD_DIM + d] * softmax_scale;",
            ),
            (
                "probs[tile_key] = tile_key < num_keys ? probs[tile_key] * softmax_scale : NEG_INF;",
                "probs[tile_key] = tile_key < num_keys ? probs[tile_key] : NEG_INF;",
            ),
        ),
    ),
    Right(
        "rows from the last one, lse in every tile",
        (
            (
                "            m[q_row] = m_new;\n",
                "            m[q_row] = m_new;\n            lse[q_row] = m_new + logf(l_new);\n",
            ),
            (
                "    for (int q_row = threadIdx.x; q_row < seq_len_q; q_row += BLOCK_M) {\n"
                "        lse[q_row] = m[q_row] + logf(l[q_row]);  // this thread wrote both\n    }\n",
                "",
            ),
            (
                "        for (int q_row = threadIdx.x; q_row < seq_len_q; q_row += BLOCK_M) {\n            float probs",
                "        for (int q_row = seq_len_q - 1 - (int)threadIdx.x; q_row >= 0; q_row -= BLOCK_M) {\n"
                "            float probs",
            ),
        ),
    ),
    Right(
        "columns of the tile by a thread each",
        (
            (
                "for (int i = threadIdx.x; i < BLOCK_N * HEAD_DIM; i += BLOCK_M) {",
                "for (int i = BLOCK_N * HEAD_DIM - 1 - (int)threadIdx.x; i >= 0; i -= BLOCK_M) {",
            ),
        ),
    ),
    Right(
        "m, l and out initialised in a pass of their own",
        (
            (
                "    for (int kv_start = 0; kv_start < seq_len_kv; kv_start += BLOCK_N) {\n",
                "    for (int q_row = threadIdx.x; q_row < seq_len_q; q_row += BLOCK_M) {\n"
                "        m[q_row] = NEG_INF;\n        l[q_row] = 0.0f;\n"
                "        for (int d = 0; d < HEAD_DIM; ++d) out[(size_t)q_row * HEAD_DIM + d] = 0.0f;\n"
                "    }\n"
                "    for (int kv_start = 0; kv_start < seq_len_kv; kv_start += BLOCK_N) {\n",
            ),
            ("kv_start > 0 ? m[q_row] : NEG_INF", "m[q_row]"),
            ("kv_start > 0 ? l[q_row] : 0.0f", "l[q_row]"),
            (
                "kv_start > 0 ? out[(size_t)q_row * HEAD_DIM + d] * old_sum : 0.0f",
                "out[(size_t)q_row * HEAD_DIM + d] * old_sum",
            ),
        ),
    ),
    Right(
        "m and l initialised in a pass of their own",
        (
            (
                "    for (int kv_start = 0; kv_start < seq_len_kv; kv_start += BLOCK_N) {\n",
                "    for (int q_row = threadIdx.x; q_row < seq_len_q; q_row += BLOCK_M) {\n"
                "        m[q_row] = NEG_INF;\n        l[q_row] = 0.0f;\n"
                "    }\n"
                "    for (int kv_start = 0; kv_start < seq_len_kv; kv_start += BLOCK_N) {\n",
            ),
            ("kv_start > 0 ? m[q_row] : NEG_INF", "m[q_row]"),
            ("kv_start > 0 ? l[q_row] : 0.0f", "l[q_row]"),
        ),
    ),
    Right(
        "out divided in a pass after the last tile",
        (
            (
                "out[(size_t)q_row * HEAD_DIM + d] * old_sum : 0.0f;",
                "out[(size_t)q_row * HEAD_DIM + d] * exp_shifted(m_old, m_new) : 0.0f;",
            ),
            ("out[(size_t)q_row * HEAD_DIM + d] = acc / l_new;", "out[(size_t)q_row * HEAD_DIM + d] = acc;"),
            (
                "        lse[q_row] = m[q_row] + logf(l[q_row]);  // this thread wrote both\n",
                "        const float l_row = l[q_row];\n        lse[q_row] = m[q_row] + logf(l_row);\n"
                "        for (int d = 0; d < HEAD_DIM; ++d) out[(size_t)q_row * HEAD_DIM + d] /= l_row;\n",
            ),
        ),
    ),
]
