// token_rows — the tokens that a block multiplies, brought into shared memory as weight_stream reads them, normalised on the way
//
// NORM_KIND 0 copies, 1 is RMSNorm, 2 LayerNorm; statistics in float, the result rounded once. The warps are shared out evenly: a
// token has NUM_WARPS / num_tokens of them, its team.
// Needs     compute capability 8.0 · device code only, no host headers
#pragma once
#include "common/half_chunk.cuh"
#include "common/weight_stream.cuh"

// Eight neighbours, rounded: their pairs 0, 2, 1 and 3, so that the 16 bytes are an operand a of mma with two pairs in row g and
// two in row g + 8.
__device__ __forceinline__ void store_eight(unsigned char* dst_smem, const float (&x)[8]) {
    *reinterpret_cast<uint4*>(dst_smem) = make_uint4(pack_pair(x[0], x[1], ELEMENT()), pack_pair(x[4], x[5], ELEMENT()),
                                                     pack_pair(x[2], x[3], ELEMENT()), pack_pair(x[6], x[7], ELEMENT()));
}

__device__ __forceinline__ void load_eight(float (&x)[8], const unsigned char* src_smem) {
    float stored[8];
    load_chunk(stored, reinterpret_cast<const ELEMENT*>(src_smem));
#pragma unroll
    for (int j = 0; j < 8; ++j) x[j] = stored[j / 4 * 2 + j / 2 % 2 * 4 + j % 2];
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
#pragma unroll 1  // else 16 loads at a time, and their registers
    for (int k = threadIdx.x * 8; k < size_k; k += NUM_THREADS * 8) {
        *reinterpret_cast<uint4*>(norm_smem + k) = *reinterpret_cast<const uint4*>(norm_weight + k);
        if (NORM_KIND == 2) *reinterpret_cast<uint4*>(norm_smem + size_k + k) = *reinterpret_cast<const uint4*>(norm_bias + k);
    }
}

// region: load_tokens
// x (num_tokens, size_k) -> x_smem (num_tokens, token_bytes(size_k)) as store_eight has it, zeros beyond size_k. part_smem (2,
// NUM_WARPS). Ends with a barrier.
template <int NORM_KIND>
__device__ __forceinline__ void load_tokens(unsigned char* x_smem, const ELEMENT* x, const ELEMENT* norm_smem, float eps,
                                            int num_tokens, int size_k, float* part_smem) {
    const int warps = num_tokens == 1 ? NUM_WARPS : NUM_WARPS / num_tokens, team = warps * WARP_SIZE;
    const int token = num_tokens == 1 ? 0 : threadIdx.x / team, first = threadIdx.x - token * team;
    const int end = token < num_tokens ? CEIL_DIV(size_k, PIECE) * CHUNKS : 0, num_chunks = token < num_tokens ? size_k / 8 : 0;
    unsigned char* token_smem = x_smem + token * token_bytes(size_k);
    const float inv_size = 1.0f / size_k;
    float total = 0.0f, mean = 0.0f, rstd = 1.0f;
    for (int chunk = first; chunk < end; chunk += 2 * team) {
        float numbers[2][8] = {};  // two loads under way
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int from = chunk + i * team;
            if (from < num_chunks) load_chunk(numbers[i], x + static_cast<long long>(token) * size_k + from * 8);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if (chunk + i * team < end) store_eight(token_smem + chunk_offset(token, chunk + i * team), numbers[i]);
#pragma unroll
            for (int j = 0; j < 8; ++j) total += NORM_KIND == 1 ? numbers[i][j] * numbers[i][j] : numbers[i][j];
        }
    }
    if (NORM_KIND != 0) total = team_sum(total, part_smem, token * warps, warps);
    if (NORM_KIND == 1) rstd = rsqrtf(total * inv_size + eps);
    if (NORM_KIND == 2) {
        mean = total * inv_size, total = 0.0f;
        for (int chunk = first; chunk < num_chunks; chunk += team) {
            float numbers[8];
            load_eight(numbers, token_smem + chunk_offset(token, chunk));
#pragma unroll
            for (int j = 0; j < 8; ++j) total += (numbers[j] - mean) * (numbers[j] - mean);
        }
        rstd = rsqrtf(team_sum(total, part_smem + NUM_WARPS, token * warps, warps) * inv_size + eps);
    }
    for (int chunk = first; NORM_KIND != 0 && chunk < num_chunks; chunk += team) {
        float numbers[8], scale[8], offset[8] = {};
        load_eight(numbers, token_smem + chunk_offset(token, chunk));
        load_chunk(scale, norm_smem + chunk * 8);
        if (NORM_KIND == 2) load_chunk(offset, norm_smem + size_k + chunk * 8);
#pragma unroll
        for (int j = 0; j < 8; ++j) numbers[j] = (numbers[j] - mean) * rstd * scale[j] + offset[j];
        store_eight(token_smem + chunk_offset(token, chunk), numbers);
    }
    __syncthreads();  // separates the writes of the tokens from their reads by all warps
}
// endregion
