// 02_fused_softmax — scale, mask and softmax of the scores in one kernel
//
// Idea      the three operations in the middle work on one row each: read it once, do all three on chip, write it once
// Builds on 01_naive. Changed: scale and mask move into the first loop of softmax; scores and weighted_sum stay as they are.
// Contract  scores, probs (batch_size, num_heads, seq_len_q, seq_len_kv) float, contiguous · any sizes >= 1
//           causal (0 or 1) is bottom-right aligned · fully masked row: probs 0 · a row fits in shared memory
// Launch    grid batch_size * num_heads * seq_len_q · block BLOCK · dynamic shared memory seq_len_kv * 4 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/attention.py: scale_mask_softmax_kernel
// gate: -DBLOCK=128
#ifndef BLOCK
#error "BLOCK: threads of a block; pass -DBLOCK=128"
#endif
static_assert(BLOCK >= 1 && (BLOCK & (BLOCK - 1)) == 0, "BLOCK: the tree reduction halves it; use a power of two");
#include "common/block_reduce.cuh"   // block_max(value, reduce_smem), block_sum(value, reduce_smem)
#include "common/softmax_state.cuh"  // NEG_INF, exp_shifted(score, m)

extern "C" __global__ void __launch_bounds__(BLOCK)
scale_mask_softmax_kernel(const float* scores, float* probs, int seq_len_q, int seq_len_kv, float softmax_scale, int causal) {
    extern __shared__ float row_smem[];   // (seq_len_kv,) the scaled and masked scores, then their exponentials
    __shared__ float reduce_smem[BLOCK];  // (BLOCK,) one partial result a thread
    const size_t first = (size_t)blockIdx.x * seq_len_kv;

    // region: scale_mask
    const int q_row = blockIdx.x % seq_len_q;
    const int last_key = causal ? q_row + seq_len_kv - seq_len_q : seq_len_kv - 1;  // the last key that the row sees
    float m_thread = NEG_INF;
    for (int key = threadIdx.x; key < seq_len_kv; key += BLOCK) {
        const float score = scores[first + key] * softmax_scale;
        row_smem[key] = key <= last_key ? score : NEG_INF;
        m_thread = fmaxf(m_thread, row_smem[key]);
    }
    // endregion

    // region: softmax
    const float m = block_max(m_thread, reduce_smem);
    __syncthreads();  // separates all reads of the maximum from the first write of the sum
    float l_thread = 0.0f;
    for (int key = threadIdx.x; key < seq_len_kv; key += BLOCK) {
        row_smem[key] = exp_shifted(row_smem[key], m);
        l_thread += row_smem[key];
    }
    const float l = block_sum(l_thread, reduce_smem);
    const float inv_l = l == 0.0f ? 0.0f : 1.0f / l;  // a fully masked row: all weights 0
    for (int key = threadIdx.x; key < seq_len_kv; key += BLOCK) probs[first + key] = row_smem[key] * inv_l;
    // endregion
}
