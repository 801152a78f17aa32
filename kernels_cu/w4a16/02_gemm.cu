// 02_gemm — any number of activations times weights of four bits: tiles by cp.async, weights unpacked in registers
//
// Idea      weights stay packed until they are in a register: global and shared memory carry a quarter of the bytes
// Builds on 01_gemv: the same words, the same order of k in both operands. New: stages in shared memory, tiles of tokens.
// Contract  x (num_tokens, size_k) ELEMENT, rows stride_x apart · out (num_tokens, size_n) ELEMENT, contiguous
//           packed, scales, zeros and out = x w^T as in 01_gemv; any num_tokens, size_n >= 1; GROUP divides size_k
//           x, packed at multiples of 16 bytes, 8 divides stride_x
// Launch    grid (ceil(num_tokens / BLOCK_M), ceil(size_n / (16 ROW_TILES WARPS_N))) · block 32 WARPS_N WARPS_K
//           dynamic shared memory of NUM_STAGES WARPS_K (BLOCK_N * 64 + BLOCK_M * 256) bytes, BLOCK_N = 16 ROW_TILES WARPS_N,
//           or, if that is more, WARPS_K BLOCK_M (BLOCK_N + 4) * 4 bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: there the compiler decides which lane takes which number
// gate: -DELEMENT=__nv_bfloat16 -DGROUP=128 -DBLOCK_M=64 -DROW_TILES=2 -DWARPS_N=4 -DWARPS_K=1 -DNUM_STAGES=3
// gate: -DELEMENT=__half -DGROUP=32 -DBLOCK_M=64 -DROW_TILES=2 -DWARPS_N=4 -DWARPS_K=1 -DNUM_STAGES=3
// gate: -DELEMENT=__nv_bfloat16 -DGROUP=64 -DBLOCK_M=16 -DROW_TILES=1 -DWARPS_N=2 -DWARPS_K=4 -DNUM_STAGES=4
// Source    E. Frantar and others, "MARLIN", 2024, section 3, arXiv:2408.11743
#if !defined(ELEMENT) || !defined(GROUP)
#error "pass -DELEMENT=__half -DGROUP=128 (weights of a scale)"
#endif
#if !defined(BLOCK_M) || !defined(ROW_TILES) || !defined(WARPS_N) || !defined(WARPS_K) || !defined(NUM_STAGES)
#error "pass -DBLOCK_M=64 (tokens) -DROW_TILES=2 (of a warp) -DWARPS_N=4 (share the rows) -DWARPS_K=1 (share k) -DNUM_STAGES=3"
#endif
#include "common/async_copy.cuh"  // cp_async_16_zfill, cp_async_commit_group, cp_async_wait_group
#include "common/constants.cuh"
#include "common/four_bits.cuh"   // pair_of
#include "common/half_types.cuh"  // mma_m16n8k16
#define STRETCH 128                          // numbers of a row in 64 bytes of packed
#define BLOCK_N (16 * ROW_TILES * WARPS_N)   // rows of the weights that a block has
#define COLS (BLOCK_M / 8)                   // tiles of 8 tokens
#define NUM_THREADS (WARPS_N * WARPS_K * WARP_SIZE)
#define W_BYTES (WARPS_K * BLOCK_N * 64)     // of a stage: (stretch, row, 64 bytes), then
#define X_BYTES (WARPS_K * 4 * BLOCK_M * 64)  // (stretch, 32 numbers of it, token, 64 bytes): eight lanes read 128 bytes in a row
#define STAGE_BYTES (W_BYTES + X_BYTES)
#define SUM_STRIDE (BLOCK_N + 4)             // of the sums in shared memory: lanes of four tokens meet no bank twice
static_assert(GROUP == 32 || GROUP == 64 || GROUP == 128, "GROUP: word i of four lanes is 32 numbers of one group");
static_assert(BLOCK_M % 8 == 0, "BLOCK_M: whole tiles of eight tokens");
static_assert(NUM_STAGES >= 2, "NUM_STAGES: one to read and one to fill, at least");

// region: copies
// Starts the copies of a stage, of the stretches from first_stretch on; zeros arrive where there is no token, row or number.
__device__ __forceinline__ void copy_stage(unsigned char* stage, const ELEMENT* x, const uint4* packed, int first_token,
                                           int first_row, int first_stretch, int num_tokens, int size_n, int size_k,
                                           long long stride_x) {
    const int num_stretches = CEIL_DIV(size_k, STRETCH);
    for (int i = threadIdx.x; i < W_BYTES / 16; i += NUM_THREADS) {
        const int row = first_row + i / 4 % BLOCK_N, stretch = first_stretch + i / (4 * BLOCK_N);
        const bool exists = row < size_n && stretch < num_stretches;
        const size_t place = exists ? (static_cast<size_t>(row) * num_stretches + stretch) * 4 + i % 4 : 0;
        cp_async_16_zfill(stage + i * 16, packed + place, exists ? 16 : 0);
    }
    for (int i = threadIdx.x; i < X_BYTES / 16; i += NUM_THREADS) {
        const int token = first_token + i / 4 % BLOCK_M;
        const int k = first_stretch * STRETCH + i / (4 * BLOCK_M) * 32 + i % 4 * 8;
        const bool exists = token < num_tokens && k < size_k;
        cp_async_16_zfill(stage + W_BYTES + i * 16, exists ? x + token * stride_x + k : x, exists ? 16 : 0);
    }
    cp_async_commit_group();
}
// endregion

// Scales and zeros of a warp's rows for a stretch; a lane has rows g and g + 8 of each tile. A row that there is not counts 0.
struct Scales {
    float scale[STRETCH / GROUP][ROW_TILES][2];
    unsigned zero[STRETCH / GROUP][ROW_TILES][2];
};
__device__ __forceinline__ void read_scales(Scales& of, const ELEMENT* scales, const unsigned char* zeros, int k_start, int row,
                                            int size_n, int size_k) {
#pragma unroll
    for (int i = 0; i < STRETCH / GROUP; ++i) {
#pragma unroll
        for (int e = 0; e < 2 * ROW_TILES; ++e) {
            const bool exists = k_start + i * GROUP < size_k && row + 8 * e < size_n;
            const size_t place = exists ? static_cast<size_t>(k_start / GROUP + i) * size_n + row + 8 * e : 0;
            of.scale[i][e / 2][e % 2] = exists ? as_float(scales[place]) : 0.0f;
            of.zero[i][e / 2][e % 2] = exists ? zeros[place] : 0;
        }
    }
}

// region: multiply
// acc += scale * (q - zero) x over the warp's stretch of a stage. A lane's 16 bytes of x are the numbers of its word of weights.
__device__ __forceinline__ void multiply(float (&acc)[ROW_TILES][COLS][4], const uint4* w_smem, const uint4* x_smem,
                                         const Scales& of, int numbers) {
    const int lane = threadIdx.x % WARP_SIZE;
    uint4 words[ROW_TILES][2];
#pragma unroll
    for (int e = 0; e < 2 * ROW_TILES; ++e) words[e / 2][e % 2] = w_smem[e * 32 + lane];  // rows 8 e + g, lane t's 16 bytes
    float sum[ROW_TILES][COLS][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (32 * i >= numbers) break;
        const int group = 32 * i / GROUP;
        unsigned a[ROW_TILES][2][4];
#pragma unroll
        for (int r = 0; r < ROW_TILES; ++r) {
#pragma unroll
            for (int e = 0; e < 8; ++e) {
                a[r][e / 4][e % 4] = pair_of(word_of(words[r][e % 2], i), e / 2, of.zero[group][r][e % 2], ELEMENT());
            }
        }
#pragma unroll
        for (int j = 0; j < COLS; ++j) {
            const uint4 x_reg = x_smem[(i * BLOCK_M + j * 8) * 4 + lane];  // token 8 j + g, numbers 32 i + 8 t and on
            const unsigned b[2][2] = {{x_reg.x, x_reg.y}, {x_reg.z, x_reg.w}};
#pragma unroll
            for (int r = 0; r < ROW_TILES; ++r) {
                if (32 * i % GROUP == 0) sum[r][j][0] = sum[r][j][1] = sum[r][j][2] = sum[r][j][3] = 0.0f;
#pragma unroll
                for (int half = 0; half < 2; ++half) mma_m16n8k16(sum[r][j], a[r][half], b[half], ELEMENT());
                if ((32 * i + 32) % GROUP == 0) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) acc[r][j][e] += of.scale[group][r][e / 2] * sum[r][j][e];
                }
            }
        }
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
gemm_kernel(const ELEMENT* x, const uint4* packed, const ELEMENT* scales, const unsigned char* zeros, ELEMENT* out,
            int num_tokens, int size_n, int size_k, long long stride_x) {
    extern __shared__ __align__(128) unsigned char smem[];  // NUM_STAGES stages; then the sums (warp of k, token, row) float
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE, warp_n = warp % WARPS_N, warp_k = warp / WARPS_N;
    const int first_token = blockIdx.x * BLOCK_M, first_row = blockIdx.y * BLOCK_N, warp_row = warp_n * 16 * ROW_TILES;
    const int num_steps = CEIL_DIV(size_k, WARPS_K * STRETCH);
    float acc[ROW_TILES][COLS][4] = {};
    auto copy = [&](int step) {  // a step after the last commits an empty group, so that the count of groups stays right
        if (step >= num_steps) return cp_async_commit_group();
        copy_stage(smem + step % NUM_STAGES * STAGE_BYTES, x, packed, first_token, first_row, step * WARPS_K, num_tokens, size_n,
                   size_k, stride_x);
    };

    // region: main_loop
    for (int step = 0; step < NUM_STAGES - 1; ++step) copy(step);
    for (int step = 0; step < num_steps; ++step) {
        const int k_start = (step * WARPS_K + warp_k) * STRETCH;
        const unsigned char* stage = smem + step % NUM_STAGES * STAGE_BYTES;
        Scales of;
        read_scales(of, scales, zeros, k_start, first_row + warp_row + lane / 4, size_n, size_k);  // under way during the wait
        cp_async_wait_group<NUM_STAGES - 2>();
        __syncthreads();  // separates all copies of this stage from its reads, the reads of the stage before from copies over it
        copy(step + NUM_STAGES - 1);
        multiply(acc, reinterpret_cast<const uint4*>(stage + (warp_k * BLOCK_N + warp_row) * 64),
                 reinterpret_cast<const uint4*>(stage + W_BYTES + warp_k * 4 * BLOCK_M * 64), of, size_k - k_start);
    }
    // endregion

    // region: sum
    __syncthreads();  // separates the reads of the last stage from the sums in their place; no copy is under way any more
    float* sum_smem = reinterpret_cast<float*>(smem);  // (WARPS_K, BLOCK_M, SUM_STRIDE)
#pragma unroll
    for (int i = 0; i < ROW_TILES * COLS * 4; ++i) {  // lane 4 g + t has rows g and g + 8, tokens 2 t and 2 t + 1 of each tile
        const int r = i / (COLS * 4), j = i / 4 % COLS, e = i % 4;
        const int token = j * 8 + lane % 4 * 2 + e % 2, row = warp_row + r * 16 + lane / 4 + e / 2 * 8;
        sum_smem[(warp_k * BLOCK_M + token) * SUM_STRIDE + row] = acc[r][j][e];
    }
    __syncthreads();  // separates the warps' writes of their sums from the reads of all of them
    for (int i = threadIdx.x; i < BLOCK_M * BLOCK_N; i += NUM_THREADS) {
        const int token = i / BLOCK_N, row = i % BLOCK_N;
        if (first_token + token >= num_tokens || first_row + row >= size_n) continue;
        float sum = 0.0f;
        for (int w = 0; w < WARPS_K; ++w) sum += sum_smem[(w * BLOCK_M + token) * SUM_STRIDE + row];  // one order: the same bits
        out[static_cast<size_t>(first_token + token) * size_n + first_row + row] = static_cast<ELEMENT>(sum);
    }
    // endregion
}
