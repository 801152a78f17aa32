// 01_naive — transpose a matrix straight from global memory to global memory
//
// Idea      reading along rows means writing along columns: one of the two touches a sector for every number
// Contract  x (num_rows, num_cols) float, contiguous · out (num_cols, num_rows), out[c][r] = x[r][c] · any sizes >= 1
// Launch    grid (ceil(num_cols / 32), ceil(num_rows / 32)) · block (32, 32) · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: there the compiler decides how a tile passes through shared memory
// Source    M. Harris, "An Efficient Matrix Transpose in CUDA C/C++", NVIDIA technical blog, 2013
#include "common/constants.cuh"
#define TILE WARP_SIZE

extern "C" __global__ void __launch_bounds__(TILE * TILE)
transpose_naive_kernel(const float* x, float* out, int num_rows, int num_cols) {
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int col = blockIdx.x * TILE + threadIdx.x;  // neighbouring lanes: neighbouring columns
    // region: copy
    if (row < num_rows && col < num_cols) {
        out[(size_t)col * num_rows + row] = x[(size_t)row * num_cols + col];
    }
    // endregion
}
