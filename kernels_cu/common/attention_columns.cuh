// attention_columns — one tile of decode attention on tensor cores: keys as the rows of the products, query heads as the columns
//
// A warp multiplies KEYS * 16 keys with a group of up to COLS * 8 query heads that share them. Lane 4 g + t holds, of every
// m16n8 fragment (common/tensor_core.cuh), rows g and g + 8 and columns 2 t and 2 t + 1; the eight lanes of one t share a head.
//     scores (KEYS, COLS, 4)  k q^T without the scale: [e] is key g + e / 2 * 8, head 2 t + e % 2; after the softmax the weights
//     acc    (DIMS, COLS, 4)  (weights v)^T, unnormalised: columns of V as rows, heads as columns; DIMS * 16 is the head width
//     m      (COLS, 2)        running maximum of a head, in units of log2; -inf before the first key
//     l      (COLS, 2)        running sum of its weights, over this lane's keys only
// All 32 lanes take part in every function.
// Needs     compute capability 8.0 · device code only, no host headers
#pragma once
#include "common/constants.cuh"
#include "common/fast_exp2.cuh"
#include "common/half_types.cuh"
#include "common/lazy_softmax.cuh"  // MAX_GROWTH
#include "common/movmatrix.cuh"

// region: load_heads
// The group's queries as right operands, for the whole walk; heads from num_heads on are 0. `q` points at the group's first head.
template <typename T, int DIMS, int COLS>
__device__ __forceinline__ void load_heads(unsigned (&q_reg)[DIMS][COLS][2], const T* q, long long stride_head, int num_heads,
                                           int lane) {
    q += lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < DIMS; ++d) {
#pragma unroll
        for (int c = 0; c < COLS; ++c) {
            const int head = lane / 4 + 8 * c;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                q_reg[d][c][r] =
                    head < num_heads ? *reinterpret_cast<const unsigned*>(q + head * stride_head + d * 16 + r * 8) : 0u;
            }
        }
    }
}
// endregion

// scores += k q^T. lane_offset: where this lane's row of 16 keys begins in k_smem, swizzled; ROW_BYTES_ bytes a row.
// region: multiply_k_q
template <typename T, int ROW_BYTES_, int KEYS, int DIMS, int COLS>
__device__ __forceinline__ void multiply_k_q(float (&scores)[KEYS][COLS][4], const unsigned (&q_reg)[DIMS][COLS][2],
                                             const unsigned char* k_smem, int lane_offset) {
#pragma unroll
    for (int d = 0; d < DIMS; ++d) {
#pragma unroll
        for (int j = 0; j < KEYS; ++j) {
            unsigned k_reg[4];  // 16 keys, columns 16 d to 16 d + 15
            ldmatrix_x4(k_reg[0], k_reg[1], k_reg[2], k_reg[3],
                        k_smem + (lane_offset ^ (d % 4 * 32)) + d / 4 * 128 + j * 16 * ROW_BYTES_);
#pragma unroll
            for (int c = 0; c < COLS; ++c) mma_m16n8k16(scores[j][c], k_reg, q_reg[d][c], T());
        }
    }
}
// endregion

// region: mask
// -inf for the keys past the end: key 16 j + 8 r + g of the tile exists if 16 j + 8 r < limit.
template <int KEYS, int COLS>
__device__ __forceinline__ void mask_keys(float (&scores)[KEYS][COLS][4], int limit) {
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
#pragma unroll
        for (int c = 0; c < COLS; ++c) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if (16 * j + e / 2 * 8 >= limit) scores[j][c][e] = NEG_INF;
            }
        }
    }
}
// endregion

// region: lazy_softmax_columns
// lazy_softmax with a head's scores in eight lanes. Without MAY_BE_EMPTY the first key of the tile must not be masked.
template <bool MAY_BE_EMPTY = false, int KEYS, int COLS, int DIMS>
__device__ __forceinline__ void lazy_softmax_columns(float (&scores)[KEYS][COLS][4], float (&m)[COLS][2], float (&l)[COLS][2],
                                                     float (&acc)[DIMS][COLS][4], float softmax_scale_log2) {
    bool outgrown = false;
    float m_lane[COLS][2];  // the largest score of this lane's keys
#pragma unroll
    for (int c = 0; c < COLS; ++c) {
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            m_lane[c][s] = NEG_INF;
#pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                m_lane[c][s] = fmaxf(m_lane[c][s], fmaxf(scores[j][c][s], scores[j][c][s + 2]));
            }
            outgrown |= m_lane[c][s] * softmax_scale_log2 - m[c][s] > MAX_GROWTH;  // false for -inf minus -inf
        }
    }
    if (__any_sync(ALL_LANES, outgrown)) {
#pragma unroll
        for (int c = 0; c < COLS; ++c) {
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                float m_new = m_lane[c][s];
                for (int other = 4; other < WARP_SIZE; other *= 2) {  // the eight lanes that share the head
                    m_new = fmaxf(m_new, __shfl_xor_sync(ALL_LANES, m_new, other));
                }
                m_new = fmaxf(m[c][s], m_new * softmax_scale_log2);
                const float alpha = m_new == NEG_INF ? 1.0f : fast_exp2(m[c][s] - m_new);
                m[c][s] = m_new;
                l[c][s] *= alpha;
#pragma unroll
                for (int d = 0; d < DIMS; ++d) {
                    acc[d][c][s] *= alpha;
                    acc[d][c][s + 2] *= alpha;
                }
            }
        }
    }
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
#pragma unroll
        for (int c = 0; c < COLS; ++c) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const float shift = MAY_BE_EMPTY && m[c][e % 2] == NEG_INF ? 0.0f : m[c][e % 2];  // never -inf minus -inf
                scores[j][c][e] = fast_exp2(scores[j][c][e] * softmax_scale_log2 - shift);        // a weight, unnormalised
                l[c][e % 2] += scores[j][c][e];
            }
        }
    }
}
// endregion

// region: multiply_v_p
// acc += v^T weights^T. The second product wants neighbouring keys in a lane, the first has left neighbouring heads.
template <typename T, int ROW_BYTES_, int KEYS, int DIMS, int COLS>
__device__ __forceinline__ void multiply_v_p(float (&acc)[DIMS][COLS][4], const float (&scores)[KEYS][COLS][4],
                                             const unsigned char* v_smem, int lane_offset) {
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
        // region: turn
        unsigned probs_reg[COLS][2];  // of keys 0-7 and 8-15: head g, keys 2 t and 2 t + 1
#pragma unroll
        for (int c = 0; c < COLS; ++c) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                probs_reg[c][r] = movmatrix_trans(pack_pair(scores[j][c][2 * r], scores[j][c][2 * r + 1], T()));
            }
        }
        // endregion
        // region: weighted_sum
#pragma unroll
        for (int d = 0; d < DIMS; ++d) {
            unsigned v_reg[4];  // columns 16 d to 16 d + 15 as rows, 16 keys
            ldmatrix_x4_trans(v_reg[0], v_reg[2], v_reg[1], v_reg[3],
                              v_smem + (lane_offset ^ (d % 4 * 32)) + d / 4 * 128 + j * 16 * ROW_BYTES_);
#pragma unroll
            for (int c = 0; c < COLS; ++c) mma_m16n8k16(acc[d][c], v_reg, probs_reg[c], T());
        }
        // endregion
    }
}
// endregion
