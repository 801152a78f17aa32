// attention_rows — one tile of attention on tensor cores, with the queries as the rows of both products
//
// A warp owns ROWS * 16 query rows. A tile of KEYS * 8 keys is multiplied, masked, exponentiated and multiplied by V without
// leaving the registers. Lane 4 g + t holds, of every m16n8 fragment (common/tensor_core.cuh):
//     [0], [1]  row g,      columns 2 t and 2 t + 1      `half` 0
//     [2], [3]  row g + 8,  columns 2 t and 2 t + 1      `half` 1
// so the four lanes of one g share their rows.
//     scores (ROWS, KEYS, 4)  q k^T without the scale; after the softmax the weights, unnormalised
//     acc    (ROWS, COLS, 4)  weighted sum of V, unnormalised; COLS * 8 is the head width
//     m      (ROWS, 2)        running maximum of a row
//     l      (ROWS, 2)        running sum of its weights, over this lane's columns only
// `Fragments` is a type of the kernel; it gives the address that this lane passes to ldmatrix for 16 rows x 16 columns of a tile:
//     rows(tile, row, d)     tile rows row to row + 15 as rows (Q; V, which ldmatrix_trans transposes), columns 16 d to 16 d + 15
//     columns(tile, row, d)  the same rows as columns (K)
// All 32 lanes take part in every function.
// Needs     compute capability 8.0 · device code only, no host headers
#pragma once
#include "common/constants.cuh"
#include "common/fast_exp2.cuh"
#include "common/half_types.cuh"

// Columns 16 d to 16 d + 15 of the warp's query rows, of which the tile's row first_row is the first.
template <int ROWS, typename Fragments>
__device__ __forceinline__ void load_q_fragments(unsigned (&q_reg)[ROWS][4], const unsigned char* q_smem, int first_row, int d,
                                                 const Fragments& fragments) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        ldmatrix_x4(q_reg[i][0], q_reg[i][1], q_reg[i][2], q_reg[i][3], fragments.rows(q_smem, first_row + i * 16, d));
    }
}

// region: multiply_q_k
// scores += q k^T over columns 16 d to 16 d + 15. A row of K is a column of K^T, as mma wants it: no transpose.
template <typename T, int ROWS, int KEYS, typename Fragments>
__device__ __forceinline__ void multiply_q_k(float (&scores)[ROWS][KEYS][4], const unsigned (&q_reg)[ROWS][4],
                                             const unsigned char* k_smem, int d, const Fragments& fragments) {
#pragma unroll
    for (int j = 0; j < KEYS / 2; ++j) {
        unsigned k_reg[2][2];  // keys 0-7 and keys 8-15 of 16
        ldmatrix_x4(k_reg[0][0], k_reg[0][1], k_reg[1][0], k_reg[1][1], fragments.columns(k_smem, j * 16, d));
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            mma_m16n8k16(scores[i][2 * j], q_reg[i], k_reg[0], T());
            mma_m16n8k16(scores[i][2 * j + 1], q_reg[i], k_reg[1], T());
        }
    }
}
// endregion

// region: mask
// -inf for every key that its row does not see. The warp's rows are queries first_row and up, the tile's keys kv_start and up.
template <int ROWS, int KEYS>
__device__ __forceinline__ void mask_scores(float (&scores)[ROWS][KEYS][4], int first_row, int kv_start, int seq_len_kv,
                                            int offset, int causal, int lane) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int q_row = first_row + i * 16 + half * 8 + lane / 4;
            const int end = causal ? min(seq_len_kv, q_row + 1 + offset) : seq_len_kv;
            const int limit = end - kv_start - lane % 4 * 2;  // this lane's column 8 j + e is seen below it
#pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                if (8 * j >= limit) scores[i][j][half * 2] = NEG_INF;
                if (8 * j + 1 >= limit) scores[i][j][half * 2 + 1] = NEG_INF;
            }
        }
    }
}
// endregion

// region: online_softmax
// Scores become weights, and (m, l, acc) of each row move to its new maximum. scale_log2 is softmax_scale * LOG2_E.
template <int ROWS, int KEYS, int COLS>
__device__ __forceinline__ void online_softmax(float (&scores)[ROWS][KEYS][4], float (&m)[ROWS][2], float (&l)[ROWS][2],
                                               float (&acc)[ROWS][COLS][4], float scale_log2) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            // region: row_max
            float m_new = m[i][half];
#pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                m_new = fmaxf(m_new, fmaxf(scores[i][j][half * 2], scores[i][j][half * 2 + 1]));
            }
            m_new = fmaxf(m_new, __shfl_xor_sync(ALL_LANES, m_new, 1));  // four lanes share a row
            m_new = fmaxf(m_new, __shfl_xor_sync(ALL_LANES, m_new, 2));
            const float shift = m_new == NEG_INF ? 0.0f : m_new * scale_log2;  // never -inf minus -inf
            const float alpha = fast_exp2(m[i][half] * scale_log2 - shift);
            m[i][half] = m_new;
            l[i][half] *= alpha;
            // endregion
#pragma unroll
            for (int j = 0; j < KEYS; ++j) {
#pragma unroll
                for (int e = 2 * half; e < 2 * half + 2; ++e) {
                    scores[i][j][e] = fast_exp2(scores[i][j][e] * scale_log2 - shift);  // a weight, unnormalised
                    l[i][half] += scores[i][j][e];
                }
            }
            // region: rescale
#pragma unroll
            for (int d = 0; d < COLS; ++d) {
                acc[i][d][half * 2] *= alpha;
                acc[i][d][half * 2 + 1] *= alpha;
            }
            // endregion
        }
    }
}
// endregion

// region: multiply_p_v
// acc += weights v. Two neighbouring fragments of weights, rounded and packed, are one left operand of 16 keys.
template <typename T, int ROWS, int KEYS, int COLS, typename Fragments>
__device__ __forceinline__ void multiply_p_v(float (&acc)[ROWS][COLS][4], const float (&scores)[ROWS][KEYS][4],
                                             const unsigned char* v_smem, const Fragments& fragments) {
#pragma unroll
    for (int j = 0; j < KEYS / 2; ++j) {
        // region: pack
        unsigned probs_reg[ROWS][4];  // rows g, g + 8 of keys 0-7, then of keys 8-15: two fragments of scores, packed
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const float* pair = &scores[i][2 * j + r / 2][r % 2 * 2];
                probs_reg[i][r] = pack_pair(pair[0], pair[1], T());
            }
        }
        // endregion
#pragma unroll
        for (int d = 0; d < COLS / 2; ++d) {
            unsigned v_reg[2][2];  // columns 0-7 and 8-15; V's rows are keys, so ldmatrix transposes here
            ldmatrix_x4_trans(v_reg[0][0], v_reg[0][1], v_reg[1][0], v_reg[1][1], fragments.rows(v_smem, j * 16, d));
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                mma_m16n8k16(acc[i][2 * d], probs_reg[i], v_reg[0], T());
                mma_m16n8k16(acc[i][2 * d + 1], probs_reg[i], v_reg[1], T());
            }
        }
    }
}
// endregion

// Sum over the four lanes that share a row.
__device__ __forceinline__ float row_sum(float l) {
    l += __shfl_xor_sync(ALL_LANES, l, 1);
    l += __shfl_xor_sync(ALL_LANES, l, 2);
    return l;
}

// region: store_rows
// out = acc / l and lse = m * m_scale + log(l) for the warp's rows, tile rows first_row and up, 4 bytes a lane. out and lse point
// at tile row 0, the next is row_stride rows further, num_rows exist. A fully masked row: out 0, lse -inf + log(0) = -inf.
template <typename T, int ROWS, int COLS>
__device__ __forceinline__ void store_rows(T* out, float* lse, const float (&acc)[ROWS][COLS][4], const float (&m)[ROWS][2],
                                           const float (&l)[ROWS][2], int first_row, int num_rows, int row_stride,
                                           float m_scale, int lane) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float l_row = row_sum(l[i][half]);  // once, after the last tile
            const float inv_l = l_row > 0.0f ? 1.0f / l_row : 0.0f;
            const int row = first_row + i * 16 + half * 8 + lane / 4;
            if (row >= num_rows) continue;
            if (lane % 4 == 0) lse[row * row_stride] = m[i][half] * m_scale + logf(l_row);
#pragma unroll
            for (int d = 0; d < COLS; ++d) {
                *reinterpret_cast<unsigned*>(out + row * row_stride * (COLS * 8) + d * 8 + lane % 4 * 2) =
                    pack_pair(acc[i][d][half * 2] * inv_l, acc[i][d][half * 2 + 1] * inv_l, T());
            }
        }
    }
}
// endregion
