// 03_online_warp — safe softmax of every row, one warp a row, no shared memory and no barrier
//
// Idea      32 lanes keep 32 running states (m, l) and merge them by shuffles: a row needs no other warp
// Builds on 02_online. Changed regions: a row belongs to a warp; merge_block is gone.
// Contract  x (num_rows, num_cols) float, contiguous · out like x · any num_rows, num_cols >= 1
//           -inf is a masked score: weight 0 · a row of -inf only: out 0
// Launch    grid ceil(num_rows / warps in a block) · block any multiple of 32 · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/softmax.py: online_softmax_tile_kernel
// Source    M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, section 3.1, arXiv:1805.02867
#include "common/softmax_state.cuh"  // WARP_SIZE, ALL_LANES, NEG_INF, exp_shifted(score, m)

extern "C" __global__ void
online_softmax_warp_kernel(const float* x, float* out, int num_rows, int num_cols) {
    const int lane = threadIdx.x % WARP_SIZE;
    const int row = blockIdx.x * (blockDim.x / WARP_SIZE) + threadIdx.x / WARP_SIZE;
    // BEGIN SOLUTION
    if (row >= num_rows) return;  // a whole warp leaves together: no lane is missing in the shuffles
    const float* x_row = x + (size_t)row * num_cols;  // (num_cols,)
    float* out_row = out + (size_t)row * num_cols;    // (num_cols,)

    // region: update
    float m = NEG_INF;
    float l = 0.0f;
    for (int col = lane; col < num_cols; col += WARP_SIZE) {
        const float score = x_row[col];
        const float m_new = fmaxf(m, score);
        l = l * exp_shifted(m, m_new) + exp_shifted(score, m_new);
        m = m_new;
    }
    // endregion

    // region: merge_warp
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {  // all 32 lanes take part
        const float m_other = __shfl_xor_sync(ALL_LANES, m, offset);
        const float l_other = __shfl_xor_sync(ALL_LANES, l, offset);
        const float m_new = fmaxf(m, m_other);
        l = l * exp_shifted(m, m_new) + l_other * exp_shifted(m_other, m_new);
        m = m_new;
    }
    // endregion

    // region: write
    const float inv_l = l == 0.0f ? 0.0f : 1.0f / l;
    for (int col = lane; col < num_cols; col += WARP_SIZE) {
        out_row[col] = exp_shifted(x_row[col], m) * inv_l;
    }
    // endregion
    // END SOLUTION
}
