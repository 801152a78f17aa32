// attention_bytes — the products of attention on tensor cores with K and V of one byte a number, which become halves in registers
//
// BYTE is char (int8) or __nv_fp8_e4m3. ldmatrix moves pairs of bytes: of a row, lane 4 g + t gets four neighbours where it would
// get two numbers of 16 bits. So in every 16 columns of K a lane has the columns 4 t to 4 t + 3, and Q is laid out to match; the
// columns of V come as 2 g and 2 g + 1. A number denotes itself times the scale of its row: scores are multiplied by the scales of
// K, weights by those of V, and l by neither. A tile has rows of ROW_BYTES_ bytes, swizzled (common/swizzle.cuh).
// All 32 lanes take part in every function.
// Needs     compute capability 8.0 · device code only, no host headers
#pragma once
#include "common/byte_pairs.cuh"  // to_halves, to_halves_apart
#include "common/constants.cuh"
#include "common/half_chunk.cuh"  // unpack_pair
#include "common/half_types.cuh"
#include "common/movmatrix.cuh"

// Two neighbouring numbers of Q as halves.
template <typename T>
__device__ __forceinline__ unsigned half_pair(const T* q) {
    const float2 pair = unpack_pair(*reinterpret_cast<const unsigned*>(q), T());
    return pack_pair(pair.x, pair.y, __half());
}

// Keys as rows, query heads as columns: the fragments of common/attention_columns.cuh. A warp's tile has KEYS * 16 keys, 16 or 32.
// lane_offset: swizzle_offset of chunk lane / (16 KEYS) of row lane % (16 KEYS).

// region: load_heads_bytes
// The group's queries as right operands in half; heads from num_heads on are 0. `q` points at the group's first head.
template <typename T, int DIMS, int COLS>
__device__ __forceinline__ void load_heads_as_half(unsigned (&q_reg)[DIMS][COLS][2], const T* q, long long stride_head,
                                                   int num_heads, int lane) {
    q += lane % 4 * 4;
#pragma unroll
    for (int d = 0; d < DIMS; ++d) {
#pragma unroll
        for (int c = 0; c < COLS; ++c) {
            const int head = lane / 4 + 8 * c;
#pragma unroll
            for (int r = 0; r < 2; ++r) q_reg[d][c][r] = head < num_heads ? half_pair(q + head * stride_head + d * 16 + r * 2) : 0u;
        }
    }
}
// endregion

// region: multiply_k_q_bytes
// scores = k q^T, with the scale of each key. scale_smem points at the scale of key g.
template <typename BYTE, int KEYS, int DIMS, int COLS>
__device__ __forceinline__ void multiply_k_q_bytes(float (&scores)[KEYS][COLS][4], const unsigned (&q_reg)[DIMS][COLS][2],
                                                   const unsigned char* k_smem, const float* scale_smem, int lane_offset) {
#pragma unroll
    for (int d = 0; d < DIMS; d += 2 / KEYS) {
        unsigned k_bytes[4];  // one chunk of 32 keys, or two of 16; of eight keys: four neighbours of key g
        ldmatrix_x4(k_bytes[0], k_bytes[1], k_bytes[2], k_bytes[3], k_smem + (lane_offset ^ (d * 16)));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            unsigned low[2], high[2];  // keys 0-7 and 8-15 of 16
            to_halves(low, k_bytes[2 * i], BYTE());
            to_halves(high, k_bytes[2 * i + 1], BYTE());
            const unsigned k_reg[4] = {low[0], high[0], low[1], high[1]};
#pragma unroll
            for (int c = 0; c < COLS; ++c) {
                mma_m16n8k16(scores[i % KEYS][c], k_reg, q_reg[d + i / KEYS][c], __half());
            }
        }
    }
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
#pragma unroll
            for (int c = 0; c < COLS; ++c) scores[j][c][e] *= scale_smem[16 * j + e / 2 * 8];
        }
    }
}
// endregion

// region: multiply_v_p_bytes
// acc += v^T weights^T. The weights take the scales of V, which follow those of K; l does not.
template <typename BYTE, int KEYS, int DIMS, int COLS>
__device__ __forceinline__ void multiply_v_p_bytes(float (&acc)[DIMS][COLS][4], const float (&scores)[KEYS][COLS][4],
                                                   const unsigned char* v_smem, const float* scale_smem, int lane_offset) {
    unsigned probs_reg[KEYS][COLS][2];  // keys 0-7 and 8-15: head g, keys 2 t and 2 t + 1
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
#pragma unroll
        for (int c = 0; c < COLS; ++c) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const float scale = scale_smem[16 * KEYS + 16 * j + 8 * r];
                probs_reg[j][c][r] =
                    movmatrix_trans(pack_pair(scores[j][c][2 * r] * scale, scores[j][c][2 * r + 1] * scale, __half()));
            }
        }
    }
#pragma unroll
    for (int d = 0; d < DIMS; d += 2 / KEYS) {
        unsigned v_bytes[4];  // of eight keys: columns 2 g and 2 g + 1 of key 2 t, then of key 2 t + 1
        ldmatrix_x4_trans(v_bytes[0], v_bytes[1], v_bytes[2], v_bytes[3], v_smem + (lane_offset ^ (d * 16)));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            unsigned low[2], high[2];  // keys 0-7 and 8-15 of 16: column 2 g, column 2 g + 1
            to_halves_apart(low, v_bytes[2 * i], BYTE());
            to_halves_apart(high, v_bytes[2 * i + 1], BYTE());
            const unsigned v_reg[4] = {low[0], low[1], high[0], high[1]};
#pragma unroll
            for (int c = 0; c < COLS; ++c) {
                mma_m16n8k16(acc[d + i / KEYS][c], v_reg, probs_reg[i % KEYS][c], __half());
            }
        }
    }
}
// endregion

// Queries as rows: the fragments of common/attention_rows.cuh; KEYS * 8 keys are a multiple of 32.

// region: load_q_bytes
// 16 columns of a row of Q as two chunks of halves, of which ldmatrix gives lane 4 g + t the columns 4 t to 4 t + 3. q: null for 0.
template <typename T>
__device__ __forceinline__ void load_q_chunks(uint4& first, uint4& second, const T* q) {
    unsigned pairs[8] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (q != nullptr) pairs[i] = half_pair(q + 2 * i);
    }
    first = make_uint4(pairs[0], pairs[2], pairs[4], pairs[6]);
    second = make_uint4(pairs[1], pairs[3], pairs[5], pairs[7]);
}
// endregion

// region: multiply_q_k_bytes
// scores += q k^T over columns 16 d to 16 d + 15, without the scales. lane_offset: swizzle_offset of chunk 0 of row `lane`.
template <typename BYTE, int ROW_BYTES_, int ROWS, int KEYS>
__device__ __forceinline__ void multiply_q_k_bytes(float (&scores)[ROWS][KEYS][4], const unsigned (&q_reg)[ROWS][4],
                                                   const unsigned char* k_smem, int d, int lane_offset) {
#pragma unroll
    for (int j = 0; j < KEYS / 4; ++j) {
        unsigned k_bytes[4];  // of 32 keys: four neighbours of key g, g + 8, g + 16, g + 24
        ldmatrix_x4(k_bytes[0], k_bytes[1], k_bytes[2], k_bytes[3], k_smem + (lane_offset ^ (d * 16)) + j * 32 * ROW_BYTES_);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            unsigned k_reg[2];
            to_halves(k_reg, k_bytes[n], BYTE());
#pragma unroll
            for (int i = 0; i < ROWS; ++i) mma_m16n8k16(scores[i][4 * j + n], q_reg[i], k_reg, __half());
        }
    }
}

// Each score times the scale of its key.
template <int ROWS, int KEYS>
__device__ __forceinline__ void scale_columns(float (&scores)[ROWS][KEYS][4], const float* scale_smem, int lane) {
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
        const float2 scale = *reinterpret_cast<const float2*>(scale_smem + 8 * j + lane % 4 * 2);
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int e = 0; e < 4; ++e) scores[i][j][e] *= e % 2 == 0 ? scale.x : scale.y;
        }
    }
}
// endregion

// region: multiply_p_v_bytes
// acc += weights v; the weights carry the scales of V. acc[..][2 d] has the columns 16 d + 4 t and 16 d + 4 t + 2, acc[..][2 d + 1]
// those after them, until in_order. lane_offset: swizzle_offset of chunk lane / 16 of row lane % 16.
template <typename BYTE, int ROW_BYTES_, int ROWS, int KEYS, int COLS>
__device__ __forceinline__ void multiply_p_v_bytes(float (&acc)[ROWS][COLS][4], const float (&scores)[ROWS][KEYS][4],
                                                   const unsigned char* v_smem, int lane_offset) {
#pragma unroll
    for (int j = 0; j < KEYS / 2; ++j) {
        unsigned probs_reg[ROWS][4];  // of 16 keys, as common/attention_rows.cuh packs them
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const float* pair = &scores[i][2 * j + r / 2][r % 2 * 2];
                probs_reg[i][r] = pack_pair(pair[0], pair[1], __half());
            }
        }
#pragma unroll
        for (int d = 0; d < COLS / 2; d += 2) {
            unsigned v_bytes[4];  // of eight keys and 16 columns: columns 2 g and 2 g + 1 of key 2 t, then of key 2 t + 1
            ldmatrix_x4_trans(v_bytes[0], v_bytes[1], v_bytes[2], v_bytes[3],
                              v_smem + (lane_offset ^ (d * 16)) + j * 16 * ROW_BYTES_);
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                unsigned low[2], high[2];  // keys 0-7 and 8-15: column 2 g, column 2 g + 1
                to_halves_apart(low, v_bytes[2 * s], BYTE());
                to_halves_apart(high, v_bytes[2 * s + 1], BYTE());
                const unsigned even[2] = {low[0], high[0]}, odd[2] = {low[1], high[1]};
#pragma unroll
                for (int i = 0; i < ROWS; ++i) {
                    mma_m16n8k16(acc[i][2 * (d + s)], probs_reg[i], even, __half());
                    mma_m16n8k16(acc[i][2 * (d + s) + 1], probs_reg[i], odd, __half());
                }
            }
        }
    }
}

// The columns of acc as common/attention_rows.cuh has them: lane 4 g + t takes 2 t and 2 t + 1 of every eight.
template <int ROWS, int COLS>
__device__ __forceinline__ void in_order(float (&acc)[ROWS][COLS][4], int lane) {
    const int first = lane / 4 * 4 + lane % 4 / 2;  // the lane with columns 2 t and 2 t + 1 of 16; two further: those 8 further
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int d = 0; d < COLS; d += 2) {
#pragma unroll
            for (int half = 0; half < 4; half += 2) {
                float mine[4] = {acc[i][d][half], acc[i][d + 1][half], acc[i][d][half + 1], acc[i][d + 1][half + 1]};
#pragma unroll
                for (int side = 0; side < 2; ++side) {
                    float got[4];
#pragma unroll
                    for (int e = 0; e < 4; ++e) got[e] = __shfl_sync(ALL_LANES, mine[e], first + 2 * side);
                    acc[i][d + side][half] = lane % 2 == 0 ? got[0] : got[2];
                    acc[i][d + side][half + 1] = lane % 2 == 0 ? got[1] : got[3];
                }
            }
        }
    }
}
// endregion
