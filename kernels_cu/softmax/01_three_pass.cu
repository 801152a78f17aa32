// 01_three_pass — safe softmax of every row, one thread block a row, the row is read three times
//
// Idea      find the maximum, then sum exp(x - max), then divide: three loops over global memory
// Contract  x (num_rows, num_cols) float, contiguous · out like x · any num_rows, num_cols >= 1
//           -inf is a masked score: weight 0 · a row of -inf only: out 0
// Launch    grid num_rows · block BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/softmax.py: three_pass_softmax_kernel
// Source    M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 2, arXiv:1805.02867
#ifndef BLOCK
#define BLOCK 128  // threads that share one row
#endif
static_assert(BLOCK >= 1 && (BLOCK & (BLOCK - 1)) == 0, "BLOCK: the tree reduction halves it; use a power of two");
#include "common/softmax_state.cuh"

// region: block_reduce
// Tree over shared memory: after the step with `stride`, reduce_smem[0 .. stride) holds what is left to combine.
// All BLOCK threads take part, and all get the result. reduce_smem (BLOCK,)
__device__ float block_max(float value, float* reduce_smem) {
    reduce_smem[threadIdx.x] = value;
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        __syncthreads();  // separates the writes of the step before from the reads of this one
        if (threadIdx.x < stride) {
            reduce_smem[threadIdx.x] = fmaxf(reduce_smem[threadIdx.x], reduce_smem[threadIdx.x + stride]);
        }
    }
    __syncthreads();  // separates the last write to reduce_smem[0] from its reads
    return reduce_smem[0];
}

__device__ float block_sum(float value, float* reduce_smem) {
    reduce_smem[threadIdx.x] = value;
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        __syncthreads();  // separates the writes of the step before from the reads of this one
        if (threadIdx.x < stride) {
            reduce_smem[threadIdx.x] += reduce_smem[threadIdx.x + stride];
        }
    }
    __syncthreads();  // separates the last write to reduce_smem[0] from its reads
    return reduce_smem[0];
}
// endregion

extern "C" __global__ void __launch_bounds__(BLOCK)
three_pass_softmax_kernel(const float* x, float* out, int num_rows, int num_cols) {
    __shared__ float reduce_smem[BLOCK];  // (BLOCK,) one partial result a thread
    const int row = blockIdx.x;
    if (row >= num_rows) return;  // the whole block leaves together: no barrier is left waiting
    const float* x_row = x + (size_t)row * num_cols;  // (num_cols,)
    float* out_row = out + (size_t)row * num_cols;    // (num_cols,)

    // region: pass_1_max
    float m = NEG_INF;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        m = fmaxf(m, x_row[col]);
    }
    m = block_max(m, reduce_smem);  // maximum of the row
    // endregion
    __syncthreads();  // separates the reads of the maximum from the first writes of the sum: both live in reduce_smem

    // region: pass_2_sum
    float l = 0.0f;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        l += exp_shifted(x_row[col], m);
    }
    l = block_sum(l, reduce_smem);  // sum of the row's exponentials; at least 1, or 0 for a row of -inf
    // endregion

    // region: pass_3_write
    const float inv_l = l == 0.0f ? 0.0f : 1.0f / l;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        out_row[col] = exp_shifted(x_row[col], m) * inv_l;
    }
    // endregion
}
