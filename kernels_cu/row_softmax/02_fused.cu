// 02_fused — softmax of every row in one kernel; the row stays in shared memory
//
// Idea      the row is read once, everything between happens on chip, the result is written once
// Builds on 01_unfused. Changed: one kernel; row_smem replaces x and weights in global memory, registers replace m and l.
// Contract  x (num_rows, num_cols) float, contiguous, finite · out like x · any num_rows >= 1 · a row fits in shared memory
// Launch    grid num_rows · block BLOCK · dynamic shared memory num_cols * 4 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/row_softmax.py: fused_softmax_kernel
// gate: -DBLOCK=128
#ifndef BLOCK
#define BLOCK 64  // threads that share one row
#endif
static_assert(BLOCK >= 1 && (BLOCK & (BLOCK - 1)) == 0, "BLOCK: the tree reduction halves it; use a power of two");
#include "common/block_reduce.cuh"  // block_max(value, reduce_smem), block_sum(value, reduce_smem)
#include "common/constants.cuh"     // NEG_INF

extern "C" __global__ void __launch_bounds__(BLOCK)
fused_softmax_kernel(const float* x, float* out, int num_rows, int num_cols) {
    extern __shared__ float row_smem[];   // (num_cols,) the row, then its exponentials
    __shared__ float reduce_smem[BLOCK];  // (BLOCK,) one partial result a thread
    const int row = blockIdx.x;
    const float* x_row = x + (size_t)row * num_cols;  // (num_cols,)
    float* out_row = out + (size_t)row * num_cols;    // (num_cols,)
    // BEGIN SOLUTION
    float m_thread = NEG_INF;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        row_smem[col] = x_row[col];  // read by this thread alone: no barrier needed
        m_thread = fmaxf(m_thread, row_smem[col]);
    }
    const float m = block_max(m_thread, reduce_smem);
    __syncthreads();  // separates all reads of the maximum from the first write of the sum

    float l_thread = 0.0f;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        row_smem[col] = expf(row_smem[col] - m);
        l_thread += row_smem[col];
    }
    const float l = block_sum(l_thread, reduce_smem);

    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        out_row[col] = row_smem[col] / l;
    }
    // END SOLUTION
}
