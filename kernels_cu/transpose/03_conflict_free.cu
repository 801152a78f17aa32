// 03_conflict_free — transpose a matrix in tiles that are transposed in shared memory, no two lanes in one bank
//
// Idea      the tile is laid out in shared memory so that its rows and its columns both spread over all 32 banks
// Builds on 02_shared_tile. Changed: the offset of an element in the tile.
// Contract  x (num_rows, num_cols) float, contiguous · out (num_cols, num_rows), out[c][r] = x[r][c] · any sizes >= 1
// Launch    grid (ceil(num_cols / 32), ceil(num_rows / 32)) · block (32, 32) · static shared memory of one tile
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: there the compiler decides how a tile passes through shared memory
// Source    M. Harris, "An Efficient Matrix Transpose in CUDA C/C++", NVIDIA technical blog, 2013
#include "common/constants.cuh"  // WARP_SIZE, 32
#define TILE WARP_SIZE

extern "C" __global__ void __launch_bounds__(TILE * TILE)
transpose_kernel(const float* x, float* out, int num_rows, int num_cols) {
    // BEGIN SOLUTION
    // GIVEN: __shared__ float tile_smem[TILE][TILE];  // (TILE, TILE), rows as in x
    __shared__ float tile_smem[TILE][TILE + 1];  // (TILE, TILE), rows as in x; the last column stays unused
    // END SOLUTION
    const int tile_row = threadIdx.y;
    const int tile_col = threadIdx.x;  // the lane: a warp is one row of threads
    // region: load
    const int row = blockIdx.y * TILE + tile_row;
    const int col = blockIdx.x * TILE + tile_col;
    if (row < num_rows && col < num_cols) {
        tile_smem[tile_row][tile_col] = x[(size_t)row * num_cols + col];
    }
    // endregion
    __syncthreads();  // separates the writes of the tile from the reads of its columns
    // region: store
    const int out_row = blockIdx.x * TILE + tile_row;  // a row of out is a column of x
    const int out_col = blockIdx.y * TILE + tile_col;
    if (out_row < num_cols && out_col < num_rows) {
        out[(size_t)out_row * num_rows + out_col] = tile_smem[tile_col][tile_row];
    }
    // endregion
}
