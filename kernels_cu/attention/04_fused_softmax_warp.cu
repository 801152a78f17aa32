// 04_fused_softmax_warp — scale, mask and softmax in one kernel, one warp a row, rows of any length, with log-sum-exp
//
// Idea      keys that a row does not see are never read; the scale and log2(e) are one factor
// Builds on 02_fused_softmax and softmax/05_masked. Changed: a warp in place of a block, (m, l) in place of row_smem, lse.
// Contract  scores, probs (batch_heads, seq_len_q, seq_len_kv) float, contiguous · lse (batch_heads, seq_len_q) float, natural log
//           causal (0 or 1) is bottom-right aligned · softmax_scale > 0 · fully masked row: probs 0, lse -inf · any sizes >= 1
// Launch    grid (seq_len_q, batch_heads) · block 32 · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/attention.py: scale_mask_softmax_tile_kernel
#include "common/softmax_state.cuh"  // WARP_SIZE, ALL_LANES, NEG_INF, LOG2_E, LN_2, exp_shifted(score, m)

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
scale_mask_softmax_warp_kernel(const float* scores, float* probs, float* lse, int seq_len_q, int seq_len_kv,
                               float softmax_scale, int causal) {
    const int lane = threadIdx.x;
    const int q_row = blockIdx.x;
    const size_t row = (size_t)blockIdx.y * seq_len_q + q_row;
    const float* scores_row = scores + row * seq_len_kv;  // (seq_len_kv,)
    float* probs_row = probs + row * seq_len_kv;          // (seq_len_kv,)
    // BEGIN SOLUTION
    // region: visible
    const int num_visible = causal ? q_row + seq_len_kv - seq_len_q + 1 : seq_len_kv;  // 0 or less: the row sees nothing
    const float softmax_scale_log2 = softmax_scale * LOG2_E;                           // exp(x) is exp2(x * LOG2_E)
    // endregion

    // region: update
    float m = NEG_INF;  // in base 2, like l
    float l = 0.0f;
    for (int key = lane; key < num_visible; key += WARP_SIZE) {
        const float score = scores_row[key] * softmax_scale_log2;
        const float m_new = fmaxf(m, score);
        l = l * exp2f(m - m_new) + exp2f(score - m_new);
        m = m_new;
    }
    // endregion

    // region: merge_warp
    float m_row = m;
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {  // all 32 lanes take part
        m_row = fmaxf(m_row, __shfl_xor_sync(ALL_LANES, m_row, offset));
    }
    l = m == NEG_INF ? 0.0f : l * exp2f(m - m_row);  // a lane without keys; never -inf minus -inf
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {
        l += __shfl_xor_sync(ALL_LANES, l, offset);
    }
    // endregion

    // region: write
    for (int key = lane; key < seq_len_kv; key += WARP_SIZE) {
        probs_row[key] = key < num_visible ? exp2f(scores_row[key] * softmax_scale_log2 - m_row) / l : 0.0f;
    }
    if (lane == 0) lse[row] = l == 0.0f ? NEG_INF : (m_row + log2f(l)) * LN_2;
    // endregion
    // END SOLUTION
}
