// token_rows — the tokens that a block multiplies, brought into shared memory as weight_stream reads them, normalised on the way
//
// NORM_KIND 0 copies, 1 is RMSNorm, 2 LayerNorm; statistics in float, the result rounded once. The warps are shared out evenly: a
// token has NUM_WARPS / num_tokens of them, its team.
// Needs     compute capability 8.0 · device code only, no host headers
#pragma once
#include "common/half_chunk.cuh"
#include "common/weight_stream.cuh"

// Eight neighbours, rounded, one store of 16 bytes.
__device__ __forceinline__ void store_piece(unsigned char* dst, const float (&x)[8]) {
    *reinterpret_cast<uint4*>(dst) = make_uint4(pack_pair(x[0], x[1], ELEMENT()), pack_pair(x[2], x[3], ELEMENT()),
                                                pack_pair(x[4], x[5], ELEMENT()), pack_pair(x[6], x[7], ELEMENT()));
}

// The sum of `value` over the warps of a team; all threads of the block take part.
__device__ __forceinline__ float team_sum(float value, float* part_smem, int first_warp, int num_warps) {
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
#pragma unroll
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(ALL_LANES, value, offset);
    if (lane == 0) part_smem[warp] = value;
    __syncthreads();  // separates the warps' writes of their sums from the reads of all of them
    value = lane < num_warps && first_warp + lane < NUM_WARPS ? part_smem[first_warp + lane] : 0.0f;
#pragma unroll
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(ALL_LANES, value, offset);
    return value;
}

// norm_smem (2, size_k) = the weights of the norm, and its bias: they do not depend on the kernel before either.
template <int NORM_KIND>
__device__ __forceinline__ void load_norm(ELEMENT* norm_smem, const ELEMENT* norm_weight, const ELEMENT* norm_bias, int size_k) {
    for (int k = threadIdx.x * 8; k < size_k; k += NUM_THREADS * 8) {
        *reinterpret_cast<uint4*>(norm_smem + k) = *reinterpret_cast<const uint4*>(norm_weight + k);
        if (NORM_KIND == 2) *reinterpret_cast<uint4*>(norm_smem + size_k + k) = *reinterpret_cast<const uint4*>(norm_bias + k);
    }
}

// region: load_tokens
// x (num_tokens, size_k) -> x_smem (num_tokens, token_bytes(size_k)), zeros beyond size_k. part_smem (2, NUM_WARPS). Ends with a barrier.
template <int NORM_KIND>
__device__ __forceinline__ void load_tokens(unsigned char* x_smem, const ELEMENT* x, const ELEMENT* norm_smem, float eps,
                                            int num_tokens, int size_k, float* part_smem) {
    const int warps = num_tokens == 1 ? NUM_WARPS : NUM_WARPS / num_tokens, team = warps * WARP_SIZE;
    const int token = num_tokens == 1 ? 0 : threadIdx.x / team, first = threadIdx.x - token * team;
    const int end = token < num_tokens ? token_bytes(size_k) / 16 : 0, num_pieces = token < num_tokens ? size_k / 8 : 0;
    unsigned char* row_smem = x_smem + token * token_bytes(size_k);
    const float inv_size = 1.0f / size_k;
    float total = 0.0f, mean = 0.0f, rstd = 1.0f;
    for (int piece = first; piece < end; piece += team) {
        float numbers[8] = {};
        if (piece < num_pieces) load_chunk(numbers, x + static_cast<long long>(token) * size_k + piece * 8);
        store_piece(row_smem + chunk_offset(token, piece), numbers);
#pragma unroll
        for (int j = 0; j < 8; ++j) total += NORM_KIND == 1 ? numbers[j] * numbers[j] : numbers[j];
    }
    if (NORM_KIND != 0) total = team_sum(total, part_smem, token * warps, warps);
    if (NORM_KIND == 1) rstd = rsqrtf(total * inv_size + eps);
    if (NORM_KIND == 2) {
        mean = total * inv_size, total = 0.0f;
        for (int piece = first; piece < num_pieces; piece += team) {
            float numbers[8];
            load_chunk(numbers, reinterpret_cast<const ELEMENT*>(row_smem + chunk_offset(token, piece)));
#pragma unroll
            for (int j = 0; j < 8; ++j) total += (numbers[j] - mean) * (numbers[j] - mean);
        }
        rstd = rsqrtf(team_sum(total, part_smem + NUM_WARPS, token * warps, warps) * inv_size + eps);
    }
    for (int piece = first; NORM_KIND != 0 && piece < num_pieces; piece += team) {
        float numbers[8], scale[8], offset[8] = {};
        load_chunk(numbers, reinterpret_cast<const ELEMENT*>(row_smem + chunk_offset(token, piece)));
        load_chunk(scale, norm_smem + piece * 8);
        if (NORM_KIND == 2) load_chunk(offset, norm_smem + size_k + piece * 8);
#pragma unroll
        for (int j = 0; j < 8; ++j) numbers[j] = (numbers[j] - mean) * rstd * scale[j] + offset[j];
        store_piece(row_smem + chunk_offset(token, piece), numbers);
    }
    __syncthreads();  // separates the writes of the tokens from their reads by all warps
}
// endregion
