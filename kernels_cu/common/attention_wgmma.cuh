// attention_wgmma — one tile of attention by a warpgroup: 64 query rows, with wgmma
//
// The parts of a thread are those of wgmma's accumulators (common/wgmma.cuh): with g = lane / 4 and t = lane % 4, number 4 j + 2 half + e
// is row 16 warp + g + 8 half, column 8 j + 2 t + e; the four lanes of one g share their two rows.
//     scores (KEYS / 2)      q k^T without the scale; after the softmax the weights, unnormalised
//     probs  (KEYS / 16, 4)  the weights, rounded and packed: the left operand of the second product
//     acc    (HEAD_DIM / 2)  weighted sum of V, unnormalised
//     m      (2)             running maximum of a row, times softmax_scale_log2; -inf while the row has seen no key
//     l      (2)             running sum of its weights, over this lane's columns only
// Tiles in shared memory are panels of 64 columns = 128 bytes with the swizzle of 128 bytes, as TMA writes them; panel p of a tile of
// `rows` rows begins p * rows * 128 bytes further.
// Needs     compute capability 9.0a · device code only, no host headers
#pragma once
#include "common/constants.cuh"
#include "common/fast_exp2.cuh"
#include "common/half_types.cuh"
#include "common/lazy_softmax.cuh"  // MAX_GROWTH
#include "common/tma.cuh"
#include "common/wgmma.cuh"
#define PANEL_COLS 64         // of 16-bit numbers
#define PANEL_ROW_BYTES 128   // the width of the swizzle
#define WARPGROUP_ROWS 64     // m of a wgmma
#define K_STEP_BYTES 32       // 16 numbers further along a row
#define V_STEP_BYTES 2048     // 16 rows further down

// region: query_tile
// The queries that a block computes, and the keys that they see.
struct QueryTile {
    int q_start, head, kv_head, batch;
    int num_kv_tiles;  // walked from the last to the first; 0 when no row sees a key
    int full_end;      // keys below it are seen by every row: tiles that end there need no mask
};

__device__ __forceinline__ QueryTile query_tile(int q_start, int block_m, int block_n, int batch_head, int num_heads,
                                                int num_q_per_kv, int seq_len_q, int seq_len_kv, int causal) {
    const int offset = seq_len_kv - seq_len_q;  // causal: query q_row sees the keys up to q_row + offset
    const int kv_end = causal ? min(seq_len_kv, min(q_start + block_m, seq_len_q) + offset) : seq_len_kv;
    QueryTile tile;
    tile.q_start = q_start;
    tile.head = batch_head % num_heads;
    tile.kv_head = tile.head / num_q_per_kv;
    tile.batch = batch_head / num_heads;
    tile.num_kv_tiles = max(0, CEIL_DIV(kv_end, block_n));
    tile.full_end = causal ? min(seq_len_kv, q_start + 1 + offset) : seq_len_kv;
    return tile;
}
// endregion

// region: load_panels
// Rows `row` to row + ROWS - 1 of a head into a tile, one TMA load a panel; their bytes complete on `full`.
template <int HEAD_DIM_, int ROWS>
__device__ __forceinline__ void load_panels(unsigned char* tile_smem, const TensorMap* map, mbarrier_t* full, int row, int head,
                                            int batch) {
#pragma unroll
    for (int panel = 0; panel < HEAD_DIM_ / PANEL_COLS; ++panel) {
        tma_load_4d(tile_smem + panel * ROWS * PANEL_ROW_BYTES, map, full, panel * PANEL_COLS, row, head, batch);
    }
}
// endregion

// region: multiply_q_k
// scores = q k^T, issued and committed. Panels of Q have Q_ROWS rows, those of K as many as the tile has keys.
template <typename T, int HEAD_DIM_, int Q_ROWS, int REGS>
__device__ __forceinline__ void issue_q_k(float (&scores)[REGS], unsigned long long q_desc, unsigned long long k_desc) {
    constexpr int KEYS = 2 * REGS;
    wgmma_keep_order(scores);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < HEAD_DIM_ / 16; ++k) {
        const int panel = k / 4, step_bytes = k % 4 * K_STEP_BYTES;
        wgmma_ss(scores, q_desc + (panel * Q_ROWS * PANEL_ROW_BYTES + step_bytes) / 16,
                 k_desc + (panel * KEYS * PANEL_ROW_BYTES + step_bytes) / 16, k != 0, T());
    }
    wgmma_commit_group();
    wgmma_keep_order(scores);
}
// endregion

// region: multiply_p_v
// acc += weights v, issued and committed. V's rows are the keys, so wgmma reads it transposed.
template <typename T, int STEPS, int REGS>
__device__ __forceinline__ void issue_p_v(float (&acc)[REGS], unsigned (&probs)[STEPS][4], unsigned long long v_desc) {
    wgmma_keep_order(acc);
    wgmma_keep_order(probs);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < STEPS; ++k) wgmma_rs<1>(acc, probs[k], v_desc + k * V_STEP_BYTES / 16, 1, T());
    wgmma_commit_group();
    wgmma_keep_order(acc);
}
// endregion

// region: pack
// 16 keys of a row are eight numbers of this lane: four registers, in the order of the left operand.
template <typename T, int STEPS, int REGS>
__device__ __forceinline__ void pack_probs(unsigned (&probs)[STEPS][4], const float (&scores)[REGS]) {
    static_assert(REGS == 8 * STEPS, "16 keys are 8 numbers of a lane");
#pragma unroll
    for (int k = 0; k < STEPS; ++k) {
#pragma unroll
        for (int r = 0; r < 4; ++r) probs[k][r] = pack_pair(scores[8 * k + 2 * r], scores[8 * k + 2 * r + 1], T());
    }
}
// endregion

// region: mask
// -inf for every key that its row does not see. first_row is this lane's first query, the tile's keys are kv_start and up.
template <int REGS>
__device__ __forceinline__ void mask_scores(float (&scores)[REGS], int first_row, int kv_start, int seq_len_kv, int offset,
                                            int causal, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int end = causal ? min(seq_len_kv, first_row + 8 * half + 1 + offset) : seq_len_kv;
        const int limit = end - kv_start - lane % 4 * 2;  // this lane's column 8 j + e is seen below it
#pragma unroll
        for (int j = 0; j < REGS / 4; ++j) {
            if (8 * j >= limit) scores[4 * j + 2 * half] = NEG_INF;
            if (8 * j + 1 >= limit) scores[4 * j + 2 * half + 1] = NEG_INF;
        }
    }
}
// endregion

// region: row_max
// The largest number of this lane in row `half`.
template <int REGS>
__device__ __forceinline__ float lane_max(const float (&scores)[REGS], int half) {
    float m_lane = fmaxf(scores[2 * half], scores[2 * half + 1]);
#pragma unroll
    for (int j = 1; j < REGS / 4; ++j) m_lane = fmaxf(m_lane, fmaxf(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
    return m_lane;
}

// Largest number among the four lanes that share a row; their sum.
__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 1));
    return fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(ALL_LANES, x, 1);
    return x + __shfl_xor_sync(ALL_LANES, x, 2);
}
// endregion

// region: weights
// Scores become weights 2^(score * scale_log2 - m), and l grows by their sum.
template <int REGS>
__device__ __forceinline__ void exp_scores(float (&scores)[REGS], const float (&m)[2], float (&l)[2], float scale_log2) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float shift = m[half] == NEG_INF ? 0.0f : m[half];  // never -inf minus -inf
#pragma unroll
        for (int j = 0; j < REGS / 4; ++j) {
#pragma unroll
            for (int e = 4 * j + 2 * half; e < 4 * j + 2 * half + 2; ++e) {
                scores[e] = fast_exp2(scores[e] * scale_log2 - shift);
                l[half] += scores[e];
            }
        }
    }
}
// endregion

// region: online_softmax
// Scores become weights; m and l move to the new maximum. alpha is what acc is still to be multiplied by.
template <int REGS>
__device__ __forceinline__ void online_softmax(float (&scores)[REGS], float (&m)[2], float (&l)[2], float (&alpha)[2],
                                               float scale_log2) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float m_new = fmaxf(m[half], quad_max(lane_max(scores, half)) * scale_log2);
        alpha[half] = m_new == NEG_INF ? 1.0f : fast_exp2(m[half] - m_new);
        m[half] = m_new;
        l[half] *= alpha[half];
    }
    exp_scores(scores, m, l, scale_log2);
}
// endregion

// region: lazy_softmax
// The same, but m moves only when a weight of the warp would exceed 2^MAX_GROWTH. True when it has moved.
template <int REGS>
__device__ __forceinline__ bool lazy_softmax(float (&scores)[REGS], float (&m)[2], float (&l)[2], float (&alpha)[2],
                                             float scale_log2) {
    const float m_lane[2] = {lane_max(scores, 0), lane_max(scores, 1)};
    const bool outgrown = m_lane[0] * scale_log2 - m[0] > MAX_GROWTH || m_lane[1] * scale_log2 - m[1] > MAX_GROWTH;
    const bool moved = __any_sync(ALL_LANES, outgrown);
    if (moved) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float m_new = fmaxf(m[half], quad_max(m_lane[half]) * scale_log2);
            alpha[half] = m_new == NEG_INF ? 1.0f : fast_exp2(m[half] - m_new);
            m[half] = m_new;
            l[half] *= alpha[half];
        }
    }
    exp_scores(scores, m, l, scale_log2);
    return moved;
}
// endregion

// region: rescale
template <int REGS>
__device__ __forceinline__ void rescale(float (&acc)[REGS], const float (&alpha)[2]) {
#pragma unroll
    for (int i = 0; i < REGS; ++i) acc[i] *= alpha[i / 2 % 2];
}
// endregion

// region: stage_out
// acc / l, rounded, into the warpgroup's 64 rows of a tile in shared memory; panels are PANEL_BYTES apart. first_row is this lane's
// first row of the 64. fully masked row: 0.
template <typename T, int PANEL_BYTES, int REGS>
__device__ __forceinline__ void stage_out(unsigned char* out_smem, const float (&acc)[REGS], const float (&l_row)[2], int first_row,
                                          int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float inv_l = l_row[half] > 0.0f ? 1.0f / l_row[half] : 0.0f;
        const int row = first_row + 8 * half;
#pragma unroll
        for (int j = 0; j < REGS / 4; ++j) {
            const int chunk = j % 8 ^ row % 8;  // of 16 bytes: the swizzle that the TMA store undoes
            *reinterpret_cast<unsigned*>(out_smem + j / 8 * PANEL_BYTES + row * PANEL_ROW_BYTES + chunk * 16 + lane % 4 * 4) =
                pack_pair(acc[4 * j + 2 * half] * inv_l, acc[4 * j + 2 * half + 1] * inv_l, T());
        }
    }
}
// endregion

// region: store_lse
// lse = m ln 2 + log(l) of this lane's two rows; lse points at the head's row 0, first_row is this lane's first, num_rows exist.
__device__ __forceinline__ void store_lse(float* lse, const float (&m)[2], const float (&l_row)[2], int first_row, int num_rows,
                                          int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = first_row + 8 * half;
        if (lane % 4 == 0 && row < num_rows) lse[row] = m[half] * LN_2 + logf(l_row[half]);  // no key: -inf + log(0) = -inf
    }
}
// endregion

// region: store_rows
// out = acc / l from the registers, 4 bytes a lane; out points at the head's row 0. Fully masked row: 0.
template <typename T, int REGS>
__device__ __forceinline__ void store_rows(T* out, const float (&acc)[REGS], const float (&l_row)[2], int first_row, int num_rows,
                                           int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float inv_l = l_row[half] > 0.0f ? 1.0f / l_row[half] : 0.0f;
        const int row = first_row + 8 * half;
        if (row >= num_rows) continue;
#pragma unroll
        for (int j = 0; j < REGS / 4; ++j) {
            *reinterpret_cast<unsigned*>(out + row * (REGS * 2) + j * 8 + lane % 4 * 2) =
                pack_pair(acc[4 * j + 2 * half] * inv_l, acc[4 * j + 2 * half + 1] * inv_l, T());
        }
    }
}
// endregion
