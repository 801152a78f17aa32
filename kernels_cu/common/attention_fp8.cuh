// attention_fp8 — one tile of attention by a warpgroup in e4m3: 64 query rows, with wgmma
//
// The parts of a thread as in common/attention_wgmma.cuh, except
//     probs  (KEYS / 32, 4)  the weights in e4m3, four a register
//     part   (HEAD_DIM / 2)  weighted sum of the last tiles of V: what the tensor cores add to
//     m      (2)             running maximum of score * scale + log2 of V's scale
// Tiles in shared memory are panels whose swizzle is as wide as their rows: Q and K one panel of HEAD_DIM bytes, V^T panels of V_WIDTH
// keys, each with HEAD_DIM rows. 8-bit operands run along k only, which is why V is transposed; in which order: 02_transpose_values.
// Needs     compute capability 9.0a · device code only, no host headers
// Source    J. Shah et al., "FlashAttention-3", 2024, section 3.3, arXiv:2407.08608
#pragma once
#include "common/attention_wgmma.cuh"
#include "common/fp8_scale.cuh"  // four_e4m3
#define FP8_GROWTH 2.0f          // a weight may exceed the largest so far by 2^2 before its row is rescaled
#define WEIGHT_LOG2 6.0f         // the largest weight is 2^6, and 2^8 = 256 after that growth: e4m3 ends at 448

// The descriptor of a panel whose rows, and swizzle, are WIDTH bytes wide.
template <int WIDTH>
__device__ __forceinline__ unsigned long long fp8_descriptor(const void* tile_smem) {
    static_assert(WIDTH == 32 || WIDTH == 64 || WIDTH == 128, "WIDTH: the bytes of a row that a swizzle covers");
    return wgmma_descriptor(tile_smem, 16, 8 * WIDTH, WIDTH == 128 ? SWIZZLE_128B : WIDTH == 64 ? SWIZZLE_64B : SWIZZLE_32B);
}

// region: multiply_q_k_fp8
// scores = q k^T, issued and committed: 32 columns a wgmma.
template <int HEAD_DIM_, int REGS>
__device__ __forceinline__ void issue_q_k_fp8(float (&scores)[REGS], unsigned long long q_desc, unsigned long long k_desc) {
    wgmma_keep_order(scores);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < HEAD_DIM_ / 32; ++k) {
        wgmma_m64k32_f32_e4m3_ss(scores, q_desc + k * K_STEP_BYTES / 16, k_desc + k * K_STEP_BYTES / 16, k != 0);
    }
    wgmma_commit_group();
    wgmma_keep_order(scores);
}
// endregion

// region: multiply_p_v_fp8
// part = weights v, added to the old part if `keep`; issued and committed: 32 keys a wgmma.
template <int V_WIDTH, int STEPS, int REGS>
__device__ __forceinline__ void issue_p_v_fp8(float (&part)[REGS], unsigned (&probs)[STEPS][4], unsigned long long v_desc, bool keep) {
    constexpr int PANEL_BYTES = 2 * REGS * V_WIDTH;  // a thread's REGS accumulators are 2 REGS columns, which are rows of V^T
    wgmma_keep_order(part);
    wgmma_keep_order(probs);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < STEPS; ++k) {
        const int bytes = k * K_STEP_BYTES / V_WIDTH * PANEL_BYTES + k * K_STEP_BYTES % V_WIDTH;
        wgmma_m64k32_f32_e4m3_rs(part, probs[k], v_desc + bytes / 16, k != 0 || keep);
    }
    wgmma_commit_group();
    wgmma_keep_order(part);
}
// endregion

// region: pack_fp8
// 32 keys of a row are eight numbers of this lane: keys 2t, 2t+1, 8+2t, 9+2t of each 16, in one register. V^T has the same order.
template <int STEPS, int REGS>
__device__ __forceinline__ void pack_probs_fp8(unsigned (&probs)[STEPS][4], const float (&scores)[REGS]) {
    static_assert(REGS == 16 * STEPS, "32 keys are 16 numbers of a lane, in two rows");
#pragma unroll
    for (int k = 0; k < STEPS; ++k) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int first = 16 * k + r / 2 * 8 + r % 2 * 2;  // keys 32 k + 16 (r / 2) and up, row g + 8 (r % 2)
            probs[k][r] = four_e4m3(scores[first], scores[first + 1], scores[first + 4], scores[first + 5]);
        }
    }
}
// endregion

// region: softmax_fp8
// Scores become weights times V's scale, 2^(score * scale_log2 + log2(v_scale) - m + WEIGHT_LOG2), and l grows by the weights alone.
// m moves as in lazy_softmax. True when it has moved; alpha is what part and acc are then to be multiplied by.
template <int REGS>
__device__ __forceinline__ bool lazy_softmax_fp8(float (&scores)[REGS], float (&m)[2], float (&l)[2], float (&alpha)[2],
                                                 float scale_log2, float v_scale) {
    const float v_scale_log2 = log2f(v_scale), inv_v_scale = fast_exp2(-v_scale_log2);
    float m_lane[2];
    bool outgrown = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        m_lane[half] = lane_max(scores, half) * scale_log2 + v_scale_log2;
        outgrown |= m_lane[half] - m[half] > FP8_GROWTH;  // false for -inf minus -inf
    }
    const bool moved = __any_sync(ALL_LANES, outgrown);
    if (moved) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float m_new = fmaxf(m[half], quad_max(m_lane[half]));
            alpha[half] = m_new == NEG_INF ? 1.0f : fast_exp2(m[half] - m_new);
            m[half] = m_new;
            l[half] *= alpha[half];
        }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float shift = (m[half] == NEG_INF ? 0.0f : m[half]) - v_scale_log2 - WEIGHT_LOG2;  // never -inf minus -inf
        float sum[2] = {0.0f, 0.0f};  // two chains of additions, each half as long
#pragma unroll
        for (int j = 0; j < REGS / 4; ++j) {
#pragma unroll
            for (int e = 4 * j + 2 * half; e < 4 * j + 2 * half + 2; ++e) {
                scores[e] = fast_exp2(scores[e] * scale_log2 - shift);
                sum[j % 2] += scores[e];
            }
        }
        l[half] += (sum[0] + sum[1]) * inv_v_scale;
    }
    return moved;
}
// endregion

// region: promote
// acc += part in float32: the tensor cores add e4m3 products with about 14 bits, and a sum of many tiles would stop growing.
template <int REGS>
__device__ __forceinline__ void promote(float (&acc)[REGS], const float (&part)[REGS]) {
#pragma unroll
    for (int i = 0; i < REGS; ++i) acc[i] += part[i];
}
// endregion
