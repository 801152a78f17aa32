// 02_warp_shuffle — sum of every row, one thread block a row, each warp adds up by shuffles
//
// Idea      the lanes of a warp read one another's registers: no shared memory and no barrier until one sum a warp is left
// Builds on 01_shared_tree. Changed regions: warp_tree and block_sum replace tree.
// Contract  x (num_rows, num_cols) float, contiguous · out (num_rows,) float · any num_rows, num_cols >= 1
// Launch    grid num_rows · block BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/reduction.py: row_sum_kernel · one for 01 to 03: Triton's compiler chooses
// gate: -DBLOCK=128
// Source    J. Luitjens, "Faster Parallel Reductions on Kepler", 2014, NVIDIA developer blog
#ifndef BLOCK
#error "BLOCK: threads that share one row; pass -DBLOCK=128"
#endif
static_assert(BLOCK % 32 == 0 && BLOCK <= 1024, "BLOCK: whole warps take part; use a multiple of 32, at most 1024");
#include "common/constants.cuh"  // WARP_SIZE, ALL_LANES
#define NUM_WARPS (BLOCK / WARP_SIZE)

extern "C" __global__ void __launch_bounds__(BLOCK)
row_sum_shuffle_kernel(const float* x, float* out, int num_rows, int num_cols) {
    __shared__ float sum_smem[NUM_WARPS];  // (NUM_WARPS,) one partial sum a warp
    const int row = blockIdx.x;
    if (row >= num_rows) return;  // the whole block leaves together: no barrier is left waiting
    const float* x_row = x + (size_t)row * num_cols;  // (num_cols,)

    // region: own_sum
    float sum = 0.0f;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        sum += x_row[col];
    }
    // endregion

    // region: warp_tree
    // All 32 lanes take part. After the step with `offset`, the first `offset` lanes hold all that is left to add.
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(ALL_LANES, sum, offset);
    }
    // endregion

    // region: block_sum
    if (threadIdx.x % WARP_SIZE == 0) {
        sum_smem[threadIdx.x / WARP_SIZE] = sum;  // lane 0 holds the sum of its warp
    }
    __syncthreads();  // separates each warp's write of its sum from thread 0's read of all sums
    // endregion

    // region: write
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < NUM_WARPS; ++warp) {
            sum += sum_smem[warp];
        }
        out[row] = sum;
    }
    // endregion
}
