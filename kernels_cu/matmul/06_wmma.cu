// 06_wmma — matrix product of halves, first contact with tensor cores
//
// Idea      a warp holds a 16 x 16 part of the result as one object, a fragment, and multiplies two others into it in one call
// Builds on 05_vectorised. Changed: tiles of half; multiply is five calls of nvcuda::wmma; store goes through shared memory.
// Contract  a (size_m, size_k) half · b (size_k, size_n) half · out (size_m, size_n) half = a b, summed in float
//           all contiguous and 16-byte aligned, any sizes >= 1; rows whose length is no multiple of 8 are read number by number
// Launch    grid (ceil(size_n / 64), ceil(size_m / 64)) · block 128 · static shared memory of 24576 bytes
// Needs     compute capability 7.5 · compiled by NVRTC: device code only, no host headers
// Source    CUDA C++ Programming Guide, "Warp Matrix Functions"
#include <cuda_fp16.h>
#include <mma.h>
#include "common/constants.cuh"  // WARP_SIZE, 32
#define BLOCK_M 64
#define BLOCK_N 64
#define BLOCK_K 32
#define NUM_THREADS 128  // 2 x 2 warps
#define WARP_M 32        // rows of the result that a warp has: 2 fragments
#define WARP_N 32        // columns: 2 fragments
#define CHUNK 8          // halves in 16 bytes: what a thread takes from global memory
using namespace nvcuda;

// region: load8
// Halves col … col + 7 of a row of `size`, zeros past its end. `row` starts aligned when size is a multiple of 8.
__device__ __forceinline__ uint4 load8(const __half* row, int col, int size) {
    if (size % CHUNK == 0 && col < size) return *reinterpret_cast<const uint4*>(row + col);
    unsigned word[4];
    for (int i = 0; i < 4; ++i) {
        const unsigned low = col + 2 * i < size ? __half_as_ushort(row[col + 2 * i]) : 0;
        const unsigned high = col + 2 * i + 1 < size ? __half_as_ushort(row[col + 2 * i + 1]) : 0;
        word[i] = low | high << 16;
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
matmul_kernel(const __half* a, const __half* b, __half* out, int size_m, int size_n, int size_k) {
    __shared__ __align__(32) __half a_smem[BLOCK_M][BLOCK_K];    // (row, k); wmma wants its tiles at multiples of 32 bytes
    __shared__ __align__(32) __half b_smem[BLOCK_K][BLOCK_N];    // (k, col)
    __shared__ __align__(32) float out_smem[BLOCK_M][BLOCK_N];   // (row, col)
    const int block_row = blockIdx.y * BLOCK_M, block_col = blockIdx.x * BLOCK_N;
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    const int warp_row = warp / 2 * WARP_M, warp_col = warp % 2 * WARP_N;  // in the block's tile
    // region: fragments
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b_frag[WARP_N / 16];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[WARP_M / 16][WARP_N / 16];
    for (int i = 0; i < WARP_M / 16; ++i) {
        for (int j = 0; j < WARP_N / 16; ++j) wmma::fill_fragment(acc[i][j], 0.0f);
    }
    // endregion
    for (int k_start = 0; k_start < size_k; k_start += BLOCK_K) {
        // region: load
        for (int i = threadIdx.x; i < BLOCK_M * BLOCK_K / CHUNK; i += NUM_THREADS) {
            const int tile_row = i / (BLOCK_K / CHUNK), tile_k = i % (BLOCK_K / CHUNK) * CHUNK;
            const int row = block_row + tile_row;
            const int end = row < size_m ? size_k : 0;  // of a row that there is not, nothing is read
            *reinterpret_cast<uint4*>(&a_smem[tile_row][tile_k]) = load8(a + (size_t)row * size_k, k_start + tile_k, end);
        }
        for (int i = threadIdx.x; i < BLOCK_K * BLOCK_N / CHUNK; i += NUM_THREADS) {
            const int tile_k = i / (BLOCK_N / CHUNK), tile_col = i % (BLOCK_N / CHUNK) * CHUNK;
            const int k = k_start + tile_k;
            const int end = k < size_k ? size_n : 0;
            *reinterpret_cast<uint4*>(&b_smem[tile_k][tile_col]) = load8(b + (size_t)k * size_n, block_col + tile_col, end);
        }
        // endregion
        __syncthreads();  // separates the writes of the tiles from their reads
        // region: multiply
        for (int k = 0; k < BLOCK_K; k += 16) {
            for (int j = 0; j < WARP_N / 16; ++j) {
                wmma::load_matrix_sync(b_frag[j], &b_smem[k][warp_col + j * 16], BLOCK_N);
            }
            for (int i = 0; i < WARP_M / 16; ++i) {
                wmma::load_matrix_sync(a_frag, &a_smem[warp_row + i * 16][k], BLOCK_K);
                for (int j = 0; j < WARP_N / 16; ++j) wmma::mma_sync(acc[i][j], a_frag, b_frag[j], acc[i][j]);
            }
        }
        // endregion
        __syncthreads();  // separates the reads of these tiles from the writes of the next
    }
    // region: store
    for (int i = 0; i < WARP_M / 16; ++i) {
        for (int j = 0; j < WARP_N / 16; ++j) {
            float* place = &out_smem[warp_row + i * 16][warp_col + j * 16];
            wmma::store_matrix_sync(place, acc[i][j], BLOCK_N, wmma::mem_row_major);
        }
    }
    __syncwarp();  // separates the warp's writes of its part from its reads, which follow other rules than the fragments
    const int col = block_col + warp_col + lane;  // a lane has one column of the warp's part
    for (int i = 0; i < WARP_M; ++i) {
        const int row = block_row + warp_row + i;
        if (row >= size_m || col >= size_n) break;
        out[(size_t)row * size_n + col] = __float2half_rn(out_smem[warp_row + i][warp_col + lane]);
    }
    // endregion
}
