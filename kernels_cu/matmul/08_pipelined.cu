// 08_pipelined — matrix product of halves on tensor cores, copies and products at the same time
//
// Idea      while the tensor cores multiply one tile, cp.async brings the next ones, and ldmatrix the next fragments
// Builds on 07_mma. Changed: large tiles; NUM_STAGES of them in shared memory, one barrier a tile; fragments in two sets of
//           registers; grouped order of the blocks; the result goes through shared memory to whole lines.
// Contract  a (size_m, size_k) half · b (size_k, size_n) half · out (size_m, size_n) half = a b, summed in float
//           all contiguous and 16-byte aligned; size_k and size_n multiples of 8 (rows of whole 16-byte chunks), any size_m
// Launch    grid ceil(size_m / BLOCK_M) ceil(size_n / BLOCK_N) · block 32 BLOCK_M BLOCK_N / (WARP_M WARP_N)
//           dynamic shared memory of NUM_STAGES (BLOCK_M + BLOCK_N) BLOCK_K * 2 bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/matmul.py: matmul_kernel
// gate: -DBLOCK_M=128 -DBLOCK_N=256 -DBLOCK_K=64 -DWARP_M=64 -DWARP_N=64 -DNUM_STAGES=3 -DGROUP_M=8
// gate: -DBLOCK_M=128 -DBLOCK_N=128 -DBLOCK_K=32 -DWARP_M=64 -DWARP_N=64 -DNUM_STAGES=4 -DGROUP_M=8
// gate: -DBLOCK_M=64 -DBLOCK_N=64 -DBLOCK_K=32 -DWARP_M=32 -DWARP_N=32 -DNUM_STAGES=2 -DGROUP_M=2
// Source    PTX ISA, "cp.async" and "Matrix Fragments for mma.m16n8k16"; order of the blocks: Triton tutorial 03, "L2 Cache Optimizations"
#include <cuda_fp16.h>
#include "common/async_copy.cuh"   // cp_async_16_zfill, cp_async_commit_group, cp_async_wait_group, cp_async_wait_all
#include "common/constants.cuh"    // WARP_SIZE, CEIL_DIV
#include "common/swizzle.cuh"      // swizzle_offset<row bytes>(row, chunk)
#include "common/tensor_core.cuh"  // ldmatrix_x4, ldmatrix_x4_trans, mma_m16n8k16_f32_f16
#if !defined(BLOCK_M) || !defined(BLOCK_N) || !defined(BLOCK_K)
#error "BLOCK_M, BLOCK_N, BLOCK_K: the block's tile; pass -DBLOCK_M=128 -DBLOCK_N=256 -DBLOCK_K=64"
#endif
#if !defined(WARP_M) || !defined(WARP_N)
#error "WARP_M, WARP_N: the part of the tile that a warp has; pass -DWARP_M=64 -DWARP_N=64"
#endif
#if !defined(NUM_STAGES) || !defined(GROUP_M)
#error "NUM_STAGES: tiles in shared memory; GROUP_M: rows of tiles that are walked together; pass -DNUM_STAGES=3 -DGROUP_M=8"
#endif
#define CHUNK 8  // halves in 16 bytes: what one cp.async copies, and what ldmatrix takes from a row
#define WARPS_N (BLOCK_N / WARP_N)
#define NUM_THREADS (BLOCK_M / WARP_M * WARPS_N * WARP_SIZE)
#define A_BYTES (BLOCK_M * BLOCK_K * 2)
#define STAGE_BYTES (A_BYTES + BLOCK_K * BLOCK_N * 2)
#define A_COPIES (BLOCK_M * BLOCK_K / CHUNK / NUM_THREADS)  // of a thread for one tile
#define B_COPIES (BLOCK_K * BLOCK_N / CHUNK / NUM_THREADS)
#define NUM_STEPS (BLOCK_K / 16)  // mma takes 16 of k at a time
#define NUM_ROWS (WARP_M / 16)    // tiles of 16 rows that a warp has
#define NUM_COLS (WARP_N / 8)     // tiles of 8 columns
static_assert(BLOCK_M % WARP_M == 0 && BLOCK_N % WARP_N == 0, "WARP_M, WARP_N: the warps share the block's tile evenly");
static_assert(WARP_M % 16 == 0 && (WARP_N == 32 || WARP_N == 64), "WARP_M: whole tiles of mma; WARP_N: a row that swizzles");
static_assert(NUM_STEPS % 2 == 0, "BLOCK_K: the two sets of fragments take turns, so an even number of steps");
static_assert(NUM_STAGES >= 2, "NUM_STAGES: one to read and one to fill, at least");
static_assert(BLOCK_M * BLOCK_N * 2 <= NUM_STAGES * STAGE_BYTES, "NUM_STAGES: the result passes through the same memory");
static_assert(BLOCK_M * BLOCK_K / CHUNK % NUM_THREADS == 0 && BLOCK_K * BLOCK_N / CHUNK % NUM_THREADS == 0,
              "BLOCK_M, BLOCK_N, BLOCK_K: every thread copies the same number of chunks");

// region: copies
// One thread's share of the copies: chunk `chunk` of every ROW_STEP-th row, from `row` on, of each tile.
struct Copies {
    const __half* src;  // its first chunk in the tile that is copied next
    int dst;            // the same chunk in a stage, bytes
    int row, chunk;     // the same in the tile
};
template <int ROW_CHUNKS>
__device__ __forceinline__ Copies first_copy(const __half* tile, int row_len) {
    const int row = threadIdx.x / ROW_CHUNKS, chunk = threadIdx.x % ROW_CHUNKS;
    return {tile + (size_t)row * row_len + chunk * CHUNK, swizzle_offset<ROW_CHUNKS * 16>(row, chunk), row, chunk};
}
// Starts copy i of a thread. Outside the matrix (rows_left, cols_left from the tile's corner) zeros arrive and nothing is read.
template <int ROW_CHUNKS>
__device__ __forceinline__ void start_copy(unsigned char* stage, const Copies& mine, int i, int row_len, int rows_left,
                                           int cols_left) {
    constexpr int ROW_STEP = NUM_THREADS / ROW_CHUNKS;
    static_assert(ROW_STEP % 8 == 0, "NUM_THREADS: a thread's rows are 8 n apart, so that each has the same swizzle");
    const bool there = mine.row + i * ROW_STEP < rows_left && mine.chunk * CHUNK < cols_left;
    cp_async_16_zfill(stage + mine.dst + i * ROW_STEP * ROW_CHUNKS * 16, mine.src + (size_t)(i * ROW_STEP) * row_len,
                      there ? 16 : 0);
}
// endregion

// region: load_fragments
// The warp's fragments for 16 of k, from one stage; lanes % 16 name rows, lanes / 16 the half.
__device__ __forceinline__ void load_fragments(unsigned (&a_reg)[NUM_ROWS][4], unsigned (&b_reg)[NUM_COLS][2],
                                               const unsigned char* stage, int warp_row, int warp_col, int step) {
    const int lane = threadIdx.x % WARP_SIZE;
#pragma unroll
    for (int i = 0; i < NUM_ROWS; ++i) {
        const int row = warp_row + i * 16 + lane % 16, chunk = step * 2 + lane / 16;
        ldmatrix_x4(a_reg[i][0], a_reg[i][1], a_reg[i][2], a_reg[i][3], stage + swizzle_offset<BLOCK_K * 2>(row, chunk));
    }
#pragma unroll
    for (int j = 0; j < NUM_COLS; j += 2) {  // two tiles of columns at once
        const int row = step * 16 + lane % 16, chunk = warp_col / CHUNK + j + lane / 16;
        ldmatrix_x4_trans(b_reg[j][0], b_reg[j][1], b_reg[j + 1][0], b_reg[j + 1][1],
                          stage + A_BYTES + swizzle_offset<BLOCK_N * 2>(row, chunk));
    }
}
// endregion

// region: store_tile
// The warp's sums as halves into its own part of shared memory, and from there to global memory a line at a time.
__device__ __forceinline__ void store_tile(__half* out, const float (&acc)[NUM_ROWS][NUM_COLS][4], unsigned char* mine,
                                           int first_row, int first_col, int size_m, int size_n) {
    const int lane = threadIdx.x % WARP_SIZE;
#pragma unroll
    for (int i = 0; i < NUM_ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < NUM_COLS; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {  // lane 4 g + t has rows g and g + 8, columns 2 t and 2 t + 1
                const int place = swizzle_offset<WARP_N * 2>(i * 16 + half * 8 + lane / 4, j) + lane % 4 * 4;
                *reinterpret_cast<__half2*>(mine + place) = __floats2half2_rn(acc[i][j][half * 2], acc[i][j][half * 2 + 1]);
            }
        }
    }
    __syncwarp();  // separates the warp's writes from its reads of the same part
#pragma unroll
    for (int i = 0; i < WARP_M * WARP_N / CHUNK; i += WARP_SIZE) {
        const int tile_row = (i + lane) / (WARP_N / CHUNK), chunk = (i + lane) % (WARP_N / CHUNK);
        const int row = first_row + tile_row, col = first_col + chunk * CHUNK;
        if (row >= size_m || col >= size_n) continue;
        *reinterpret_cast<uint4*>(out + (size_t)row * size_n + col) =
            *reinterpret_cast<const uint4*>(mine + swizzle_offset<WARP_N * 2>(tile_row, chunk));
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
matmul_kernel(const __half* a, const __half* b, __half* out, int size_m, int size_n, int size_k) {
    extern __shared__ __align__(128) unsigned char smem[];  // NUM_STAGES times: a (row, k), then b (k, col), both swizzled
    // region: grouped_order
    const int tiles_m = CEIL_DIV(size_m, BLOCK_M), tiles_n = CEIL_DIV(size_n, BLOCK_N);
    const int group_row = blockIdx.x / (GROUP_M * tiles_n) * GROUP_M;  // first row of tiles of this block's group
    const int group_rows = min(GROUP_M, tiles_m - group_row), in_group = blockIdx.x % (GROUP_M * tiles_n);
    const int block_row = (group_row + in_group % group_rows) * BLOCK_M, block_col = in_group / group_rows * BLOCK_N;
    // endregion
    const int warp = threadIdx.x / WARP_SIZE, num_tiles = CEIL_DIV(size_k, BLOCK_K);
    const int warp_row = warp / WARPS_N * WARP_M, warp_col = warp % WARPS_N * WARP_N;  // in the block's tile
    float acc[NUM_ROWS][NUM_COLS][4] = {};
    unsigned a_reg[2][NUM_ROWS][4], b_reg[2][NUM_COLS][2];  // one set is multiplied while the other is loaded
    Copies a_copies = first_copy<BLOCK_K / CHUNK>(a + (size_t)block_row * size_k, size_k);
    Copies b_copies = first_copy<BLOCK_N / CHUNK>(b + block_col, size_n);
    int k_left = size_k;  // from the tile that is copied next; 0 or less after the last one
    // Starts part `part` of `parts` of the copies of the next tile.
    auto copy_part = [&](unsigned char* stage, int part, int parts) {
#pragma unroll
        for (int i = 0; i < A_COPIES; ++i) {
            if (i * parts / A_COPIES == part) start_copy<BLOCK_K / CHUNK>(stage, a_copies, i, size_k, size_m - block_row, k_left);
        }
#pragma unroll
        for (int i = 0; i < B_COPIES; ++i) {
            if (i * parts / B_COPIES == part) start_copy<BLOCK_N / CHUNK>(stage + A_BYTES, b_copies, i, size_n, k_left, size_n - block_col);
        }
        if (part < parts - 1) return;
        cp_async_commit_group();
        a_copies.src += BLOCK_K;
        b_copies.src += (size_t)BLOCK_K * size_n;
        k_left -= BLOCK_K;
    };
    // region: fill_pipeline
    for (int tile = 0; tile < NUM_STAGES - 1; ++tile) copy_part(smem + tile * STAGE_BYTES, 0, 1);
    cp_async_wait_group<NUM_STAGES - 2>();
    __syncthreads();  // separates all threads' copies of tile 0 from its reads
    load_fragments(a_reg[0], b_reg[0], smem, warp_row, warp_col, 0);
    // endregion
    int read_stage = 0, fill_stage = NUM_STAGES - 1;
    for (int tile = 0; tile < num_tiles; ++tile) {
        // region: main_loop
#pragma unroll
        for (int step = 0; step < NUM_STEPS; ++step) {
            // region: step
            if (step == NUM_STEPS - 1) {  // every fragment of this tile is in registers
                cp_async_wait_group<NUM_STAGES - 2>();
                __syncthreads();  // separates the copies of the next tile from its reads, the reads of this from copies over it
                read_stage = read_stage + 1 == NUM_STAGES ? 0 : read_stage + 1;
                fill_stage = fill_stage + 1 == NUM_STAGES ? 0 : fill_stage + 1;
            }
            load_fragments(a_reg[(step + 1) % 2], b_reg[(step + 1) % 2], smem + read_stage * STAGE_BYTES, warp_row, warp_col,
                           (step + 1) % NUM_STEPS);
            if (step < NUM_STEPS - 1) copy_part(smem + fill_stage * STAGE_BYTES, step, NUM_STEPS - 1);
            // endregion
#pragma unroll
            for (int i = 0; i < NUM_ROWS; ++i) {
#pragma unroll
                for (int j = 0; j < NUM_COLS; ++j) {
                    mma_m16n8k16_f32_f16(acc[i][j], a_reg[step % 2][i], b_reg[step % 2][j], acc[i][j]);
                }
            }
        }
        // endregion
    }
    cp_async_wait_all();
    __syncthreads();  // separates the last copies and reads of the stages from the result that takes their place
    store_tile(out, acc, smem + warp * (WARP_M * WARP_N * 2), block_row + warp_row, block_col + warp_col, size_m, size_n);
}
