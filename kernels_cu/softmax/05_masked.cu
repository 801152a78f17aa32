// 05_masked — softmax and log-sum-exp of scores under a causal mask and a length mask, one warp a row
//
// Idea      a mask is a number of visible keys: read only those, write 0 beyond, and say what a row that sees nothing returns
// Builds on 03_online_warp. Changed regions: visible is new; write fills the masked part and the log-sum-exp.
// Contract  scores (batch_size, seq_len_q, seq_len_kv) float, contiguous · seq_lens_kv (batch_size,) int: valid keys, 0 .. seq_len_kv
//           query q_row sees the keys k <= q_row + seq_lens_kv[b] - seq_len_q (causal, bottom-right aligned to the valid keys)
//           scores at keys that a row does not see may hold anything, NaN too
//           out like scores, 0 where masked · lse (batch_size, seq_len_q) float, natural log · row without keys: out 0, lse -inf
// Launch    grid (seq_len_q, batch_size) · block 32 · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/softmax.py: masked_softmax_kernel
// Source    T. Dao, "FlashAttention-2", 2023, section 3.1 (causal masking), arXiv:2307.08691
#include "common/softmax_state.cuh"  // WARP_SIZE, ALL_LANES, NEG_INF, exp_shifted(score, m)

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
masked_softmax_kernel(const float* scores, const int* seq_lens_kv, float* out, float* lse, int seq_len_q, int seq_len_kv) {
    const int lane = threadIdx.x;
    const int q_row = blockIdx.x;
    const int batch = blockIdx.y;
    const size_t row = (size_t)batch * seq_len_q + q_row;
    const float* scores_row = scores + row * seq_len_kv;  // (seq_len_kv,)
    float* out_row = out + row * seq_len_kv;              // (seq_len_kv,)
    // BEGIN SOLUTION
    // region: visible
    // seq_len_q = 2, seq_lens_kv[b] = 3, seq_len_kv = 5: the first row sees 2 keys, the last row sees 3
    //     1 1 0 0 0
    //     1 1 1 0 0
    const int num_visible = q_row + seq_lens_kv[batch] - seq_len_q + 1;  // 0 or less: the row sees nothing
    // endregion

    // region: update
    float m = NEG_INF;
    float l = 0.0f;
    for (int col = lane; col < num_visible; col += WARP_SIZE) {
        const float score = scores_row[col];
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
    for (int col = lane; col < seq_len_kv; col += WARP_SIZE) {
        out_row[col] = col < num_visible ? exp_shifted(scores_row[col], m) * inv_l : 0.0f;
    }
    if (lane == 0) {
        lse[row] = l == 0.0f ? NEG_INF : m + logf(l);
    }
    // endregion
    // END SOLUTION
}
