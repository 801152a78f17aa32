// 03_merge_parts — the parts of every token of a ragged batch, of a shared prefix and of its own keys, merged: one warp a row
//
// Idea      the states of the parts, (lse, out), are merged one after the other as chapter 03 merges tiles: m, l and acc stay in
//           registers, and each part is read once
// Builds on 09_4_combine_cuda. New: each token has a number of parts of its own, and one without parts is left alone.
// Contract  part_out (num_parts, num_heads, HEAD_DIM), part_lse (num_parts, num_heads) float, contiguous, natural log
//           token_parts (num_tokens + 1) int: token t has the parts token_parts[t] to token_parts[t + 1] - 1, or none
//           out (num_tokens, num_heads, HEAD_DIM), lse (num_tokens, num_heads) float, natural log; of a token without parts: kept
//           an empty part: part_lse -inf, its part_out undefined, NaN included · a row of empty parts: out 0, lse -inf
//           HEAD_DIM a multiple of 32
//           no Triton twin: the states of a row would be one vector there
// Launch    grid (num_heads, num_tokens) · block 32
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DHEAD_DIM=64
#ifndef HEAD_DIM
#error "HEAD_DIM: columns of out, a multiple of 32; pass -DHEAD_DIM=64"
#endif
#include "common/constants.cuh"  // NEG_INF, WARP_SIZE
static_assert(HEAD_DIM % 32 == 0, "HEAD_DIM: every lane has as many columns");
#define COLS (HEAD_DIM / WARP_SIZE)  // columns of a lane: lane, lane + 32, …

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
merge_parts_kernel(const float* part_out, const float* part_lse, const int* token_parts, float* out, float* lse) {
    const int head = blockIdx.x, num_heads = gridDim.x, token = blockIdx.y, lane = threadIdx.x;
    const int first = token_parts[token], end = token_parts[token + 1];
    // BEGIN SOLUTION
    if (first == end) return;  // a single item has written this token
    float m = NEG_INF, l = 0.0f, acc[COLS] = {};  // acc (COLS,)
    for (int part = first; part < end; ++part) {
        const int row = part * num_heads + head;
        const float score = part_lse[row];
        if (score == NEG_INF) continue;  // no key: its part_out is undefined
        const float m_new = fmaxf(m, score), alpha = expf(m - m_new), weight = expf(score - m_new);
        l = l * alpha + weight;
        for (int i = 0; i < COLS; ++i) acc[i] = acc[i] * alpha + weight * part_out[row * HEAD_DIM + lane + i * WARP_SIZE];
        m = m_new;
    }
    const int row = token * num_heads + head;
    for (int i = 0; i < COLS; ++i) out[row * HEAD_DIM + lane + i * WARP_SIZE] = l > 0.0f ? acc[i] / l : 0.0f;
    if (lane == 0) lse[row] = m + logf(l);  // without a key: -inf
    // END SOLUTION
}
