// attention_wgmma_backward — one tile of the attention backward by a warpgroup: 64 keys, with wgmma
//
// Keys are the rows of every accumulator, queries its columns, so that P^T and dS^T are left operands as they are. With g = lane / 4
// and t = lane % 4, number 4 j + 2 half + e is key 16 warp + g + 8 half, query 8 j + 2 t + e (common/wgmma.cuh).
//     scores    (QUERIES / 2)      k q^T without the scale; then the probabilities P^T
//     d_scores  (QUERIES / 2)      v dO^T; then dS^T = P^T * (dP^T - row_dot), without the scale
//     packed    (QUERIES / 16, 4)  either of them, rounded: the left operand of the next product
// Tiles in shared memory are panels of 64 columns = 128 bytes with the swizzle of 128 bytes, as in common/attention_wgmma.cuh.
// Needs     compute capability 9.0a · device code only, no host headers
#pragma once
#include "common/attention_wgmma.cuh"

// wgmma_keep_order of several.
template <typename... Parts>
__device__ __forceinline__ void keep_order(Parts&... parts) {
    (wgmma_keep_order(parts), ...);
}

// region: row_stats
// What a tile of QUERIES rows needs besides Q and dO: neighbours in global memory, so that one bulk copy brings both.
template <int QUERIES>
struct RowStats {
    float lse_log2[QUERIES];  // +inf for a row that sees no key, and past the last row: its probabilities become 0
    float row_dot[QUERIES];   // sum of dO * O
};
// endregion

// region: mask_keys
// -inf for every query that does not see its key. first_key is this lane's first key, the tile's queries are q_start and up.
template <int REGS>
__device__ __forceinline__ void mask_keys(float (&scores)[REGS], int first_key, int q_start, int seq_len_kv, int offset, int causal,
                                          int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int key = first_key + 8 * half;
        int first_q = causal ? key - offset - q_start : 0;  // of the tile: the first query that sees the key
        if (key >= seq_len_kv) first_q = 2 * REGS;          // none
        const int limit = first_q - lane % 4 * 2;           // this lane's column 8 j + e sees it from there on
#pragma unroll
        for (int j = 0; j < REGS / 4; ++j) {
            if (8 * j < limit) scores[4 * j + 2 * half] = NEG_INF;
            if (8 * j + 1 < limit) scores[4 * j + 2 * half + 1] = NEG_INF;
        }
    }
}
// endregion

// region: exp_columns
// Scores become probabilities 2^(score * scale_log2 - lse_log2).
template <int REGS>
__device__ __forceinline__ void exp_columns(float (&scores)[REGS], const float* lse_log2, float scale_log2, int lane) {
#pragma unroll
    for (int j = 0; j < REGS / 4; ++j) {
        const float2 lse = *reinterpret_cast<const float2*>(lse_log2 + 8 * j + lane % 4 * 2);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = 4 * j + 2 * half;
            scores[i] = fast_exp2(scores[i] * scale_log2 - lse.x);
            scores[i + 1] = fast_exp2(scores[i + 1] * scale_log2 - lse.y);
        }
    }
}
// endregion

// region: softmax_gradient
// d_scores = probs * (d_scores - row_dot): the gradient of the scaled scores.
template <int REGS>
__device__ __forceinline__ void softmax_gradient(float (&d_scores)[REGS], const float (&probs)[REGS], const float* row_dot, int lane) {
#pragma unroll
    for (int j = 0; j < REGS / 4; ++j) {
        const float2 dot = *reinterpret_cast<const float2*>(row_dot + 8 * j + lane % 4 * 2);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = 4 * j + 2 * half;
            d_scores[i] = probs[i] * (d_scores[i] - dot.x);
            d_scores[i + 1] = probs[i + 1] * (d_scores[i + 1] - dot.y);
        }
    }
}
// endregion

// region: multiply_tile
// acc += packed tile, issued and committed; add = 0 ignores the old acc. The rows of the tile are the queries: wgmma reads it transposed.
template <typename T, int STEPS, int REGS>
__device__ __forceinline__ void issue_packed(float (&acc)[REGS], unsigned (&packed)[STEPS][4], unsigned long long tile_desc, int add) {
    wgmma_keep_order(acc);
    wgmma_keep_order(packed);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < STEPS; ++k) wgmma_rs<1>(acc, packed[k], tile_desc + k * V_STEP_BYTES / 16, k == 0 ? add : 1, T());
    wgmma_commit_group();
    wgmma_keep_order(acc);
}
// endregion

// region: multiply_ds_k
// d_q (64 queries, 64 columns) = dS k over KEYS keys, issued and committed. Keys are the rows of both operands: both are transposed.
template <typename T, int KEYS, int REGS>
__device__ __forceinline__ void issue_ds_k(float (&d_q)[REGS], unsigned long long d_scores_desc, unsigned long long k_desc) {
    wgmma_keep_order(d_q);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k) {
        wgmma_ss<1, 1>(d_q, d_scores_desc + k * V_STEP_BYTES / 16, k_desc + k * V_STEP_BYTES / 16, k != 0, T());
    }
    wgmma_commit_group();
    wgmma_keep_order(d_q);
}
// endregion

// region: stage_packed
// The packed dS^T into shared memory, a row a key, where the product with K reads all keys of the block. rows_smem: the row of this
// lane's first key; panels are PANEL_BYTES apart. Eight rows of a warp, 16 bytes of each: the swizzle puts them into 32 banks.
template <int PANEL_BYTES, int STEPS>
__device__ __forceinline__ void stage_packed(unsigned char* rows_smem, const unsigned (&packed)[STEPS][4], int lane) {
#pragma unroll
    for (int k = 0; k < STEPS; ++k) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int j = 2 * k + r / 2;          // queries 8 j to 8 j + 7
            const int chunk = j % 8 ^ lane / 4;   // rows g and g + 8 have the same swizzle
            unsigned char* panel_smem = rows_smem + j / 8 * PANEL_BYTES + r % 2 * 8 * PANEL_ROW_BYTES;
            *reinterpret_cast<unsigned*>(panel_smem + chunk * 16 + lane % 4 * 4) = packed[k][r];
        }
    }
}
// endregion

// region: stage_floats
// The accumulators in the order of the threads, 16 bytes each: numbers 4 i to 4 i + 3 of a thread are piece 128 i + thread.
template <int REGS>
__device__ __forceinline__ void stage_floats(float* chunk_smem, const float (&acc)[REGS], int thread) {
    float4* pieces = reinterpret_cast<float4*>(chunk_smem);
#pragma unroll
    for (int i = 0; i < REGS / 4; ++i) {
        pieces[128 * i + thread] = make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]);
    }
}

// And back, from global memory.
template <int REGS>
__device__ __forceinline__ void load_floats(float (&acc)[REGS], const float* chunk, int thread) {
    const float4* pieces = reinterpret_cast<const float4*>(chunk);
#pragma unroll
    for (int i = 0; i < REGS / 4; ++i) {
        const float4 piece = pieces[128 * i + thread];
        acc[4 * i] = piece.x;
        acc[4 * i + 1] = piece.y;
        acc[4 * i + 2] = piece.z;
        acc[4 * i + 3] = piece.w;
    }
}
// endregion

// region: stage_rows
// acc * scale, rounded, into the warpgroup's 64 rows of a tile in shared memory; panels are PANEL_BYTES apart.
template <typename T, int PANEL_BYTES, int REGS>
__device__ __forceinline__ void stage_rows(unsigned char* tile_smem, const float (&acc)[REGS], float scale, int thread) {
    const int lane = thread % WARP_SIZE;
    unsigned char* rows_smem = tile_smem + (thread / WARP_SIZE * 16 + lane / 4) * PANEL_ROW_BYTES;
#pragma unroll
    for (int j = 0; j < REGS / 4; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int chunk = j % 8 ^ lane / 4;  // of 16 bytes: the swizzle that the TMA store undoes
            unsigned char* panel_smem = rows_smem + j / 8 * PANEL_BYTES + half * 8 * PANEL_ROW_BYTES;
            *reinterpret_cast<unsigned*>(panel_smem + chunk * 16 + lane % 4 * 4) =
                pack_pair(acc[4 * j + 2 * half] * scale, acc[4 * j + 2 * half + 1] * scale, T());
        }
    }
}
// endregion
