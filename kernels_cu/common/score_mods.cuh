// score_mods — what an attention engine does to a score before the softmax: a mask, and a modification given as an expression
//
// A caller may set
//     SCORE_MOD      the new score, an expression of `score` (times softmax_scale), head, query, key (positions) and
//                    `parameters` (const float*): ALiBi, …; it may call soft_cap; HAS_SCORE_MOD: 0 if it is `score`
//     CUSTOM_MASK    1: a bit for each query token and key of a request, 1 where the key is visible
// The fragments are those of common/attention_rows.cuh and common/attention_columns.cuh. Device code only, no host headers.
#pragma once
#include "common/constants.cuh"
#include "common/fast_exp2.cuh"
#include "common/work_item.cuh"
#ifndef CUSTOM_MASK
#define CUSTOM_MASK 0  // 1: mask_bits says who sees what, besides causal and window_left
#endif
#ifndef SCORE_MOD
#define SCORE_MOD score  // the score as it is
#define HAS_SCORE_MOD 0
#else
#define HAS_SCORE_MOD 1
#endif

// region: soft_cap
// cap tanh(score / cap) as cap - 2 cap / (1 + e^(2 score / cap)): one exponential and one division, where tanhf takes some
// twenty instructions to be right to the last bits of numbers near 0. The error is below 1e-6 cap: a softmax asks no more.
__device__ __forceinline__ float soft_cap(float score, float cap) {
    return cap - __fdividef(2.0f * cap, 1.0f + fast_exp2(score * (2.0f * LOG2_E / cap)));
}
// endregion

// region: mask
// Which keys a query sees.
struct Mask {
    int causal, window_left;  // window_left: keys before the query's own that it sees; -1: all
    int first_key, end_key;   // of the item
    unsigned seq_len_kv, first_bit;
    const unsigned* bits;
    __device__ __forceinline__ int end(int position) const { return causal ? min(end_key, position + 1) : end_key; }
    __device__ __forceinline__ int begin(int position) const { return window_left < 0 ? 0 : position - window_left; }
    // 32 bits of a custom mask from (token of the item, key) on; the bits have a word more than they need.
    __device__ __forceinline__ unsigned word(int token, int key) const {
        const unsigned idx = first_bit + token * seq_len_kv + key;
        return __funnelshift_r(bits[idx / 32], bits[idx / 32 + 1], idx % 32);
    }
    // Whether some row whose positions are first to last does not see a key of the tile.
    __device__ __forceinline__ bool cuts(int kv_start, int num_keys, int first, int last) const {
        return CUSTOM_MASK || kv_start + num_keys > end(first) || kv_start < begin(last);
    }
};
// endregion

// region: modified
// One score after the expression and the mask; visible: 0 where a custom mask hides it. With a SCORE_MOD it is scaled here.
template <int GROUP_>
__device__ __forceinline__ float modified(float score, const PackedRows<GROUP_>& rows, int row, int key, const Mask& mask, bool cut,
                                          unsigned visible, float softmax_scale, const float* parameters) {
    const int query = rows.position(row), head = rows.head(row);
    // region: expression
    if (HAS_SCORE_MOD) {
        score *= softmax_scale;
        score = SCORE_MOD;
    }
    if (cut) {
        if (key >= mask.end(query) || key < mask.begin(query)) return NEG_INF;
        if (CUSTOM_MASK && !visible) return NEG_INF;
    }
    // endregion
    (void)head;
    (void)parameters;
    return score;
}
// endregion

// region: modify
// Rows as rows: the warp's rows are `warp_row` and up of the item, num_rows exist; the tile's keys kv_start and up.
template <int GROUP_, int ROWS, int KEYS>
__device__ __forceinline__ void modify_rows(float (&scores)[ROWS][KEYS][4], const PackedRows<GROUP_>& rows, int warp_row, int num_rows,
                                            int kv_start, const Mask& mask, bool cut, float softmax_scale, const float* parameters,
                                            int lane) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = min(warp_row + i * 16 + half * 8 + lane / 4, num_rows - 1);  // rows beyond the last: as the last
            unsigned word = ~0u;  // of the next 32 keys
#pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                if (CUSTOM_MASK && j % 4 == 0) word = mask.word(row / GROUP_, kv_start + 8 * j);
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    float& score = scores[i][j][half * 2 + e];
                    const int key = 8 * j + lane % 4 * 2 + e;
                    score = modified(score, rows, row, kv_start + key, mask, cut, word >> key % 32 & 1, softmax_scale, parameters);
                }
            }
        }
    }
}

// Rows as columns.
template <int GROUP_, int KEYS, int COLS>
__device__ __forceinline__ void modify_columns(float (&scores)[KEYS][COLS][4], const PackedRows<GROUP_>& rows, int num_rows,
                                               int kv_start, const Mask& mask, bool cut, float softmax_scale,
                                               const float* parameters, int lane) {
#pragma unroll
    for (int j = 0; j < KEYS; ++j) {
#pragma unroll
        for (int c = 0; c < COLS; ++c) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int row = min(8 * c + lane % 4 * 2 + e % 2, num_rows - 1), key = kv_start + 16 * j + e / 2 * 8 + lane / 4;
                const unsigned visible = CUSTOM_MASK ? mask.word(row / GROUP_, key) & 1 : 1;
                scores[j][c][e] = modified(scores[j][c][e], rows, row, key, mask, cut, visible, softmax_scale, parameters);
            }
        }
    }
}
// endregion
