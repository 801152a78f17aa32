// 03_grouped — every row times the weights of its expert, one launch: a tile of rows belongs to one expert
//
// Idea      rows sorted by expert are small matrices, one after the other; a list says which expert each tile of rows has
// Contract  x (rows of x, size_k) ELEMENT · w (num_experts, size_n, size_k) ELEMENT · out (num_pairs, size_n) ELEMENT
//           order (num_pairs,) int, offsets, tiles (max_tiles, 2) int as 02_sort leaves them, with this BLOCK_M
//           out[place] = x[row] w[expert of the place]^T, in float, rounded once; row = order[place] / top_k, or the place itself
//           where top_k is 0 · x, w, out contiguous and 16-byte aligned, 8 divides size_k and 2 size_n, any sizes >= 1
// Launch    grid (max_tiles, ceil(size_n / 64)): neighbours share the expert's columns, which L2 keeps · block 128 · static shared memory of 8192 bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/moe.py: grouped_kernel
// gate: -DELEMENT=__nv_bfloat16 -DBLOCK_M=64
// gate: -DELEMENT=__half -DBLOCK_M=64
// Source    T. Gale and others, "MegaBlocks", 2022, arXiv:2211.15841
#if !defined(ELEMENT) || !defined(BLOCK_M)
#error "pass -DELEMENT=__half -DBLOCK_M=64 (rows of a tile)"
#endif
#include "common/constants.cuh"
#include "common/half_types.cuh"
#include "common/swizzle.cuh"
#define BLOCK_N 64
#define BLOCK_K 32
#define NUM_THREADS 128  // 2 x 2 warps
#define WARP_M 32        // rows of the result that a warp has: 2 tiles of 16
#define WARP_N 32        // columns: 4 tiles of 8
#define CHUNK 8          // numbers in 16 bytes
#define ROW_BYTES (BLOCK_K * 2)
static_assert(BLOCK_M == 64, "BLOCK_M: two warps of 32 rows");

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
grouped_kernel(const ELEMENT* x, const ELEMENT* w, const int* order, const int* offsets, const int* tiles, ELEMENT* out,
               int size_n, int size_k, int top_k) {
    __shared__ __align__(128) unsigned char x_smem[BLOCK_M * ROW_BYTES];  // (row, k), rows of 64 bytes, swizzled
    __shared__ __align__(128) unsigned char w_smem[BLOCK_N * ROW_BYTES];  // (column, k), the same
    const int expert = tiles[2 * blockIdx.x], first_row = tiles[2 * blockIdx.x + 1];
    if (expert < 0) return;  // the whole block: there are fewer tiles than the grid allows for
    const int end_row = min(first_row + BLOCK_M, offsets[expert + 1]), block_col = blockIdx.y * BLOCK_N;
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    const int warp_row = warp / 2 * WARP_M, warp_col = warp % 2 * WARP_N;  // in the block's tile
    const ELEMENT* w_expert = w + static_cast<size_t>(expert) * size_n * size_k;
    float acc[WARP_M / 16][WARP_N / 8][4] = {};
    for (int k_start = 0; k_start < size_k; k_start += BLOCK_K) {
        // region: load
        for (int i = threadIdx.x; i < (BLOCK_M + BLOCK_N) * BLOCK_K / CHUNK; i += NUM_THREADS) {
            const int line = i / (BLOCK_K / CHUNK), chunk = i % (BLOCK_K / CHUNK), k = k_start + chunk * CHUNK;
            const bool of_x = line < BLOCK_M;
            const int tile_row = of_x ? line : line - BLOCK_M;
            const int place = first_row + tile_row, col = block_col + tile_row;
            const ELEMENT* source = nullptr;
            if (of_x && place < end_row) source = x + static_cast<size_t>(top_k ? order[place] / top_k : place) * size_k;
            if (!of_x && col < size_n) source = w_expert + static_cast<size_t>(col) * size_k;
            *reinterpret_cast<uint4*>((of_x ? x_smem : w_smem) + swizzle_offset<ROW_BYTES>(tile_row, chunk)) =
                source && k < size_k ? *reinterpret_cast<const uint4*>(source + k) : make_uint4(0, 0, 0, 0);
        }
        // endregion
        __syncthreads();  // separates the writes of the tiles from their reads
        // region: multiply
        for (int k = 0; k < BLOCK_K; k += 16) {
            unsigned x_reg[WARP_M / 16][4], w_reg[WARP_N / 8][2];
            for (int i = 0; i < WARP_M / 16; ++i) {
                const int row = warp_row + i * 16 + lane % 16, chunk = k / CHUNK + lane / 16;
                ldmatrix_x4(x_reg[i][0], x_reg[i][1], x_reg[i][2], x_reg[i][3], x_smem + swizzle_offset<ROW_BYTES>(row, chunk));
            }
            for (int j = 0; j < WARP_N / 8; j += 2) {  // a row of w is a column of w^T, as mma wants it: no transpose
                const int col = warp_col + j * 8 + lane / 16 * 8 + lane % 8, chunk = k / CHUNK + lane / 8 % 2;
                ldmatrix_x4(w_reg[j][0], w_reg[j][1], w_reg[j + 1][0], w_reg[j + 1][1],
                            w_smem + swizzle_offset<ROW_BYTES>(col, chunk));
            }
            for (int i = 0; i < WARP_M / 16; ++i) {
                for (int j = 0; j < WARP_N / 8; ++j) mma_m16n8k16(acc[i][j], x_reg[i], w_reg[j], ELEMENT());
            }
        }
        // endregion
        __syncthreads();  // separates the reads of these tiles from the writes of the next
    }
    // region: store
    for (int i = 0; i < WARP_M / 16; ++i) {
        for (int j = 0; j < WARP_N / 8; ++j) {
            for (int half = 0; half < 2; ++half) {  // lane 4 g + t has rows g and g + 8, columns 2 t and 2 t + 1 of each
                const int place = first_row + warp_row + i * 16 + lane / 4 + half * 8;
                const int col = block_col + warp_col + j * 8 + lane % 4 * 2;
                if (place >= end_row || col >= size_n) continue;
                *reinterpret_cast<unsigned*>(out + static_cast<size_t>(place) * size_n + col) =
                    pack_pair(acc[i][j][half * 2], acc[i][j][half * 2 + 1], ELEMENT());
            }
        }
    }
    // endregion
}
