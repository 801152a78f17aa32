// 01_shared_tree — sum of every row, one thread block a row, a tree in shared memory
//
// Idea      each step halves the number of partial sums: half of the threads add, and all wait for them
// Contract  x (num_rows, num_cols) float, contiguous · out (num_rows,) float · any num_rows, num_cols >= 1
// Launch    grid num_rows · block BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/reduction.py: row_sum_kernel · one for 01 to 03: Triton's compiler chooses
// gate: -DBLOCK=128
// Source    M. Harris, "Optimizing Parallel Reduction in CUDA", 2007, NVIDIA: the tree with sequential addressing
#ifndef BLOCK
#error "BLOCK: threads that share one row; pass -DBLOCK=128"
#endif
static_assert(BLOCK >= 1 && (BLOCK & (BLOCK - 1)) == 0, "BLOCK: the tree halves it; use a power of two");

extern "C" __global__ void __launch_bounds__(BLOCK)
row_sum_tree_kernel(const float* x, float* out, int num_rows, int num_cols) {
    __shared__ float sum_smem[BLOCK];  // (BLOCK,) one partial sum a thread
    const int row = blockIdx.x;
    if (row >= num_rows) return;  // the whole block leaves together: no barrier is left waiting
    const float* x_row = x + (size_t)row * num_cols;  // (num_cols,)

    // region: own_sum
    float sum = 0.0f;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        sum += x_row[col];
    }
    // endregion

    // region: tree
    sum_smem[threadIdx.x] = sum;
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        __syncthreads();  // separates the writes of the step before from the reads of this one
        if (threadIdx.x < stride) {
            sum_smem[threadIdx.x] += sum_smem[threadIdx.x + stride];
        }
    }
    // endregion

    // region: write
    if (threadIdx.x == 0) {
        out[row] = sum_smem[0];  // thread 0 wrote it itself: no barrier needed
    }
    // endregion
}
