// 04_rows_in_turn — every row minus its mean; a block takes one row after the other
//
// Idea      a few blocks serve many rows: the same block, and the same shared memory, takes one row after the other
// Builds on 01_shared_tree. Changed: a loop over rows around it; the mean is subtracted from the row.
// Contract  x (num_rows, num_cols) float, contiguous · out like x · any num_rows, num_cols >= 1
// Launch    grid any number of blocks, fewer than rows too · block BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
//           (no Triton twin: there the compiler places the barriers)
// gate: -DBLOCK=64
#ifndef BLOCK
#define BLOCK 64  // threads that share one row
#endif
static_assert(BLOCK >= 1 && (BLOCK & (BLOCK - 1)) == 0, "BLOCK: the tree halves it; use a power of two");

extern "C" __global__ void __launch_bounds__(BLOCK)
centre_rows_kernel(const float* x, float* out, int num_rows, int num_cols) {
    // BEGIN SOLUTION
    // END SOLUTION
    __shared__ float sum_smem[BLOCK];  // (BLOCK,) one partial sum a thread
    for (int row = blockIdx.x; row < num_rows; row += gridDim.x) {
        const float* x_row = x + (size_t)row * num_cols;  // (num_cols,)
        float* out_row = out + (size_t)row * num_cols;    // (num_cols,)
        float sum = 0.0f;
        for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
            sum += x_row[col];
        }
        sum_smem[threadIdx.x] = sum;
        for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
            __syncthreads();  // separates the writes of the step before from the reads of this one
            if (threadIdx.x < stride) {
                sum_smem[threadIdx.x] += sum_smem[threadIdx.x + stride];
            }
        }
        __syncthreads();  // separates thread 0's last write from its reads
        const float mean = sum_smem[0] / num_cols;
        for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
            out_row[col] = x_row[col] - mean;
        }
        // BEGIN SOLUTION unmarked
        __syncthreads();  // separates all reads of sum_smem[0] from the first write for the next row
        // END SOLUTION
    }
}
