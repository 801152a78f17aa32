// 01_unfused — softmax of every row as three kernels: maximum, exponentials and their sum, division
//
// Idea      one kernel an operation, as a library of single operations would do it: what one leaves for the next goes through global memory
// Contract  x (num_rows, num_cols) float, contiguous, finite · m, l (num_rows,) float · weights, out like x · any sizes >= 1
// Launch    three launches, one after the other: each with grid num_rows · block BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/row_softmax.py: row_max_kernel, row_exp_sum_kernel, row_divide_kernel
// gate: -DBLOCK=128
#ifndef BLOCK
#error "BLOCK: threads that share one row; pass -DBLOCK=128"
#endif
static_assert(BLOCK >= 1 && (BLOCK & (BLOCK - 1)) == 0, "BLOCK: the tree reduction halves it; use a power of two");
#include "common/block_reduce.cuh"  // block_max, block_sum
#include "common/constants.cuh"     // NEG_INF

// region: row_max
extern "C" __global__ void __launch_bounds__(BLOCK)
row_max_kernel(const float* x, float* m, int num_rows, int num_cols) {
    __shared__ float reduce_smem[BLOCK];  // (BLOCK,) one partial result a thread
    const int row = blockIdx.x;
    const float* x_row = x + (size_t)row * num_cols;  // (num_cols,)
    float m_thread = NEG_INF;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        m_thread = fmaxf(m_thread, x_row[col]);
    }
    const float m_row = block_max(m_thread, reduce_smem);
    if (threadIdx.x == 0) m[row] = m_row;
}
// endregion

// region: row_exp_sum
extern "C" __global__ void __launch_bounds__(BLOCK)
row_exp_sum_kernel(const float* x, const float* m, float* weights, float* l, int num_rows, int num_cols) {
    __shared__ float reduce_smem[BLOCK];  // (BLOCK,) one partial result a thread
    const int row = blockIdx.x;
    const float m_row = m[row];
    float l_thread = 0.0f;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        const float weight = expf(x[(size_t)row * num_cols + col] - m_row);
        weights[(size_t)row * num_cols + col] = weight;
        l_thread += weight;
    }
    const float l_row = block_sum(l_thread, reduce_smem);
    if (threadIdx.x == 0) l[row] = l_row;
}
// endregion

// region: row_divide
extern "C" __global__ void __launch_bounds__(BLOCK)
row_divide_kernel(const float* weights, const float* l, float* out, int num_rows, int num_cols) {
    const int row = blockIdx.x;
    const float l_row = l[row];
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        out[(size_t)row * num_cols + col] = weights[(size_t)row * num_cols + col] / l_row;
    }
}
// endregion
