// 02_online — safe softmax of every row, one thread block a row, maximum and sum in one pass
//
// Idea      keep a running (m, l); when the maximum grows, rescale l by exp(m - m_new): the row is read twice, not three times
// Builds on 01_three_pass. Changed regions: update and merge replace pass_1_max and pass_2_sum.
// Contract  x (num_rows, num_cols) float, contiguous · out like x · any num_rows, num_cols >= 1
//           -inf is a masked score: weight 0 · a row of -inf only: out 0
// Launch    grid num_rows · block BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/softmax.py: online_softmax_kernel
// Source    M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3, arXiv:1805.02867
#ifndef BLOCK
#define BLOCK 128  // threads that share one row
#endif
static_assert(BLOCK % 32 == 0 && BLOCK <= 1024, "BLOCK: whole warps merge by shuffles; use a multiple of 32, at most 1024");
#include "common/softmax_state.cuh"
#define NUM_WARPS (BLOCK / WARP_SIZE)

// region: merge
// (m, l) of two parts of a row -> (m, l) of both. (-inf, 0) is the neutral element: the state of no scores at all.
__device__ void merge(float& m, float& l, float m_other, float l_other) {
    const float m_new = fmaxf(m, m_other);
    l = l * exp_shifted(m, m_new) + l_other * exp_shifted(m_other, m_new);
    m = m_new;
}
// endregion

extern "C" __global__ void __launch_bounds__(BLOCK)
online_softmax_kernel(const float* x, float* out, int num_rows, int num_cols) {
    __shared__ float m_smem[NUM_WARPS];  // (NUM_WARPS,) one running maximum a warp
    __shared__ float l_smem[NUM_WARPS];  // (NUM_WARPS,) one running sum a warp
    const int row = blockIdx.x;
    if (row >= num_rows) return;  // the whole block leaves together: no barrier is left waiting
    const float* x_row = x + (size_t)row * num_cols;  // (num_cols,)
    float* out_row = out + (size_t)row * num_cols;    // (num_cols,)

    // region: update
    // Pass 1: each thread keeps the state of the columns that it reads.
    float m = NEG_INF;
    float l = 0.0f;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        const float score = x_row[col];
        const float m_new = fmaxf(m, score);
        l = l * exp_shifted(m, m_new) + exp_shifted(score, m_new);
        m = m_new;
    }
    // endregion

    // region: merge_warp
    // All 32 lanes take part: after the step with `offset`, a lane holds the state of 2 * offset lanes.
    for (int offset = 1; offset < WARP_SIZE; offset *= 2) {
        const float m_other = __shfl_xor_sync(ALL_LANES, m, offset);
        const float l_other = __shfl_xor_sync(ALL_LANES, l, offset);
        merge(m, l, m_other, l_other);
    }
    // endregion

    // region: merge_block
    if (threadIdx.x % WARP_SIZE == 0) {
        m_smem[threadIdx.x / WARP_SIZE] = m;
        l_smem[threadIdx.x / WARP_SIZE] = l;
    }
    __syncthreads();  // separates each warp's write of its state from the reads of all states
    m = m_smem[0];
    l = l_smem[0];
    for (int warp = 1; warp < NUM_WARPS; ++warp) {  // every thread merges the same states: no second barrier
        merge(m, l, m_smem[warp], l_smem[warp]);
    }
    // endregion

    // region: write
    // Pass 2: the row is read again, and divided.
    const float inv_l = l == 0.0f ? 0.0f : 1.0f / l;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        out_row[col] = exp_shifted(x_row[col], m) * inv_l;
    }
    // endregion
}
