// 04_log_sum_exp — log(sum(exp(x))) of every row, scores in half precision, one thread block a row
//
// Idea      one number replaces the pair: lse = m + log(l). Merge all states at once: the block's maximum first, then one scaled sum
// Builds on 02_online. Changed regions: update reads half and computes in float; merge is two tree reductions; nothing else is written.
// Contract  x (num_rows, num_cols) half, contiguous · lse (num_rows,) float, natural log · any num_rows, num_cols >= 1
//           -inf is a masked score · a row of -inf only: lse -inf
// Launch    grid num_rows · block BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/softmax.py: log_sum_exp_kernel
// Source    M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, section 3.1, arXiv:1805.02867
#include <cuda_fp16.h>
#ifndef BLOCK
#define BLOCK 128  // threads that share one row
#endif
static_assert(BLOCK >= 1 && (BLOCK & (BLOCK - 1)) == 0, "BLOCK: the tree reduction halves it; use a power of two");
#include "common/softmax_state.cuh"  // NEG_INF, exp_shifted(score, m)

extern "C" __global__ void __launch_bounds__(BLOCK)
log_sum_exp_kernel(const __half* x, float* lse, int num_rows, int num_cols) {
    __shared__ float reduce_smem[BLOCK];  // (BLOCK,) one partial result a thread
    const int row = blockIdx.x;
    // BEGIN SOLUTION
    if (row >= num_rows) return;  // the whole block leaves together: no barrier is left waiting
    const __half* x_row = x + (size_t)row * num_cols;  // (num_cols,)

    // region: update
    float m = NEG_INF;
    float l = 0.0f;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        const float score = __half2float(x_row[col]);  // half is for storage: 2048 + 1 is 2048 in half
        const float m_new = fmaxf(m, score);
        l = l * exp_shifted(m, m_new) + exp_shifted(score, m_new);
        m = m_new;
    }
    // endregion

    // region: merge_max
    reduce_smem[threadIdx.x] = m;
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        __syncthreads();  // separates the writes of the step before from the reads of this one
        if (threadIdx.x < stride) {
            reduce_smem[threadIdx.x] = fmaxf(reduce_smem[threadIdx.x], reduce_smem[threadIdx.x + stride]);
        }
    }
    __syncthreads();  // separates the last write of the maximum from its reads
    const float m_row = reduce_smem[0];
    // endregion
    __syncthreads();  // separates all reads of the maximum from the first writes of the sum

    // region: merge_sum
    reduce_smem[threadIdx.x] = l * exp_shifted(m, m_row);
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        __syncthreads();  // separates the writes of the step before from the reads of this one
        if (threadIdx.x < stride) {
            reduce_smem[threadIdx.x] += reduce_smem[threadIdx.x + stride];
        }
    }
    // endregion

    // region: write
    if (threadIdx.x == 0) {  // thread 0 wrote reduce_smem[0] itself: it needs no barrier to read it
        lse[row] = m_row + logf(reduce_smem[0]);  // a row of -inf: -inf + log(0) is -inf
    }
    // endregion
    // END SOLUTION
}
