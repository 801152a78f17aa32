// 03_warp_rows — sum of every row, one warp a row, shuffles alone
//
// Idea      when one warp owns the row, the tree of shuffles is the whole reduction: no shared memory, no barrier
// Builds on 02_warp_shuffle. Changed regions: a row belongs to a warp; block_sum is gone.
// Contract  x (num_rows, num_cols) float, contiguous · out (num_rows,) float · any num_rows, num_cols >= 1
// Launch    grid ceil(num_rows / warps in a block) · block any multiple of 32 · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/reduction.py: row_sum_kernel · one for 01 to 03: Triton's compiler chooses
// Source    J. Luitjens, "Faster Parallel Reductions on Kepler", 2014, NVIDIA developer blog
#include "common/constants.cuh"  // WARP_SIZE (32), ALL_LANES (the mask of a whole warp)

extern "C" __global__ void
row_sum_warp_kernel(const float* x, float* out, int num_rows, int num_cols) {
    const int lane = threadIdx.x % WARP_SIZE;
    const int row = blockIdx.x * (blockDim.x / WARP_SIZE) + threadIdx.x / WARP_SIZE;
    // BEGIN SOLUTION
    if (row >= num_rows) return;  // a whole warp leaves together: no lane is missing in the shuffles
    const float* x_row = x + (size_t)row * num_cols;  // (num_cols,)

    // region: own_sum
    float sum = 0.0f;
    for (int col = lane; col < num_cols; col += WARP_SIZE) {
        sum += x_row[col];
    }
    // endregion

    // region: warp_tree
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {  // all 32 lanes take part
        sum += __shfl_down_sync(ALL_LANES, sum, offset);
    }
    // endregion

    // region: write
    if (lane == 0) {
        out[row] = sum;
    }
    // endregion
    // END SOLUTION
}
