// 07_mma — matrix product of halves on tensor cores
//
// Idea      a warp multiplies 16 x 16 by 16 x 8 in one instruction; ldmatrix brings the tiles into its registers
// Builds on 06_wmma. Changed: tiles swizzled in shared memory; multiply and store know which lane holds what.
// Contract  a (size_m, size_k) half · b (size_k, size_n) half · out (size_m, size_n) half = a b, summed in float
//           all contiguous and 16-byte aligned, any sizes >= 1; rows whose length is no multiple of 8 are read number by number
// Launch    grid (ceil(size_n / 64), ceil(size_m / 64)) · block 128 · static shared memory of 8192 bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Source    PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" (layouts: common/tensor_core.cuh)
#include <cuda_fp16.h>
#include "common/constants.cuh"    // WARP_SIZE, 32
#include "common/swizzle.cuh"      // swizzle_offset<row bytes>(row, chunk)
#include "common/tensor_core.cuh"  // ldmatrix_x4, ldmatrix_x4_trans, mma_m16n8k16_f32_f16
#define BLOCK_M 64
#define BLOCK_N 64
#define BLOCK_K 32
#define NUM_THREADS 128  // 2 x 2 warps
#define WARP_M 32        // rows of the result that a warp has: 2 tiles of 16
#define WARP_N 32        // columns: 4 tiles of 8
#define CHUNK 8          // halves in 16 bytes: what ldmatrix takes from a row, and a thread from global memory

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
    __shared__ __align__(128) unsigned char a_smem[BLOCK_M * BLOCK_K * 2];  // (row, k), rows of 64 bytes, swizzled
    __shared__ __align__(128) unsigned char b_smem[BLOCK_K * BLOCK_N * 2];  // (k, col), rows of 128 bytes, swizzled
    const int block_row = blockIdx.y * BLOCK_M, block_col = blockIdx.x * BLOCK_N;
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    const int warp_row = warp / 2 * WARP_M, warp_col = warp % 2 * WARP_N;  // in the block's tile
    float acc[WARP_M / 16][WARP_N / 8][4] = {};
    for (int k_start = 0; k_start < size_k; k_start += BLOCK_K) {
        // region: load
        for (int i = threadIdx.x; i < BLOCK_M * BLOCK_K / CHUNK; i += NUM_THREADS) {
            const int tile_row = i / (BLOCK_K / CHUNK), chunk = i % (BLOCK_K / CHUNK);
            const int row = block_row + tile_row;
            const int end = row < size_m ? size_k : 0;  // of a row that there is not, nothing is read
            *reinterpret_cast<uint4*>(a_smem + swizzle_offset<BLOCK_K * 2>(tile_row, chunk)) =
                load8(a + (size_t)row * size_k, k_start + chunk * CHUNK, end);
        }
        for (int i = threadIdx.x; i < BLOCK_K * BLOCK_N / CHUNK; i += NUM_THREADS) {
            const int tile_k = i / (BLOCK_N / CHUNK), chunk = i % (BLOCK_N / CHUNK);
            const int k = k_start + tile_k;
            const int end = k < size_k ? size_n : 0;
            *reinterpret_cast<uint4*>(b_smem + swizzle_offset<BLOCK_N * 2>(tile_k, chunk)) =
                load8(b + (size_t)k * size_n, block_col + chunk * CHUNK, end);
        }
        // endregion
        __syncthreads();  // separates the writes of the tiles from their reads
        // region: multiply
        for (int k = 0; k < BLOCK_K; k += 16) {
            // region: fetch
            unsigned a_reg[WARP_M / 16][4], b_reg[WARP_N / 8][2];  // fragments; lanes % 16 name rows, lanes / 16 the half
            for (int i = 0; i < WARP_M / 16; ++i) {
                const int row = warp_row + i * 16 + lane % 16, chunk = k / CHUNK + lane / 16;
                ldmatrix_x4(a_reg[i][0], a_reg[i][1], a_reg[i][2], a_reg[i][3],
                            a_smem + swizzle_offset<BLOCK_K * 2>(row, chunk));
            }
            for (int j = 0; j < WARP_N / 8; j += 2) {  // two tiles of columns at once
                const int row = k + lane % 16, chunk = warp_col / CHUNK + j + lane / 16;
                ldmatrix_x4_trans(b_reg[j][0], b_reg[j][1], b_reg[j + 1][0], b_reg[j + 1][1],
                                  b_smem + swizzle_offset<BLOCK_N * 2>(row, chunk));
            }
            // endregion
            // region: products
            for (int i = 0; i < WARP_M / 16; ++i) {
                for (int j = 0; j < WARP_N / 8; ++j) mma_m16n8k16_f32_f16(acc[i][j], a_reg[i], b_reg[j], acc[i][j]);
            }
            // endregion
        }
        // endregion
        __syncthreads();  // separates the reads of these tiles from the writes of the next
    }
    // region: store
    for (int i = 0; i < WARP_M / 16; ++i) {
        for (int j = 0; j < WARP_N / 8; ++j) {
            for (int half = 0; half < 2; ++half) {  // lane 4 g + t has rows g and g + 8, columns 2 t and 2 t + 1 of each
                const int row = block_row + warp_row + i * 16 + lane / 4 + half * 8;
                const int col = block_col + warp_col + j * 8 + lane % 4 * 2;
                if (row >= size_m || col >= size_n) continue;
                __half* place = out + (size_t)row * size_n + col;
                const __half2 pair = __floats2half2_rn(acc[i][j][half * 2], acc[i][j][half * 2 + 1]);
                if (size_n % 2 == 0) {
                    *reinterpret_cast<__half2*>(place) = pair;
                } else {
                    place[0] = pair.x;
                    if (col + 1 < size_n) place[1] = pair.y;
                }
            }
        }
    }
    // endregion
}
