// lazy_softmax — the online softmax of common/attention_rows.cuh that rescales only when a maximum has grown
//
// Any m near the maximum will do, as long as numerator and denominator use the same one. The old m stays until some weight of
// the warp would exceed 2^MAX_GROWTH; then all rows of the warp take their new maximum.
// All 32 lanes take part. Device code only, no host headers.
// Source    FlashAttention-4, as described in modal.com/blog/reverse-engineer-flash-attention-4
#pragma once
#include "common/constants.cuh"
#include "common/fast_exp2.cuh"
#define MAX_GROWTH 8.0f  // 2^8 = 256: a weight up to this may exceed 1 before its row is rescaled; half holds 65504

// Scores become weights; (m, l, acc) move to a new maximum where one has outgrown the old. m is in units of log2, that is
// times softmax_scale_log2 = softmax_scale * LOG2_E, and -inf while a row has seen no key.
template <int ROWS, int KEYS, int COLS>
__device__ __forceinline__ void lazy_softmax(float (&scores)[ROWS][KEYS][4], float (&m)[ROWS][2], float (&l)[ROWS][2],
                                             float (&acc)[ROWS][COLS][4], float softmax_scale_log2) {
    // region: outgrown
    float m_lane[ROWS][2];  // the largest score in this lane's columns
    bool outgrown = false;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            m_lane[i][half] = scores[i][0][half * 2];
#pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                m_lane[i][half] = fmaxf(m_lane[i][half], fmaxf(scores[i][j][half * 2], scores[i][j][half * 2 + 1]));
            }
            outgrown |= m_lane[i][half] * softmax_scale_log2 - m[i][half] > MAX_GROWTH;  // false for -inf minus -inf
        }
    }
    // endregion

    if (__any_sync(ALL_LANES, outgrown)) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                // region: grow
                float m_new = m_lane[i][half];
                m_new = fmaxf(m_new, __shfl_xor_sync(ALL_LANES, m_new, 1));  // four lanes share a row
                m_new = fmaxf(m_new, __shfl_xor_sync(ALL_LANES, m_new, 2));
                m_new = fmaxf(m[i][half], m_new * softmax_scale_log2);
                const float alpha = m_new == NEG_INF ? 1.0f : fast_exp2(m[i][half] - m_new);
                m[i][half] = m_new;
                l[i][half] *= alpha;
                // endregion
#pragma unroll
                for (int d = 0; d < COLS; ++d) {
                    acc[i][d][half * 2] *= alpha;
                    acc[i][d][half * 2 + 1] *= alpha;
                }
            }
        }
    }

    // region: probs
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float shift = m[i][half] == NEG_INF ? 0.0f : m[i][half];  // -inf only while every key was masked
#pragma unroll
            for (int j = 0; j < KEYS; ++j) {
#pragma unroll
                for (int e = 2 * half; e < 2 * half + 2; ++e) {
                    scores[i][j][e] = fast_exp2(scores[i][j][e] * softmax_scale_log2 - shift);  // a weight, unnormalised
                    l[i][half] += scores[i][j][e];
                }
            }
        }
    }
    // endregion
}
