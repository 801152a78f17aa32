// 05_grouped_query — attention forward in one launch, the row of scores in shared memory, query heads in groups
//
// Idea      num_heads / num_kv_heads neighbouring query heads read the same keys and values (GQA; MQA: one for all)
// Builds on 03_row_in_block. Changed: the head map, the mask, and row_smem in place of probs in global memory.
// Contract  q, out (batch_size, num_heads, seq_len_q, head_dim) float · k, v (batch_size, num_kv_heads, seq_len_kv, head_dim) float
//           lse (batch_size, num_heads, seq_len_q) float, natural log · all contiguous, all sizes >= 1, num_kv_heads divides num_heads
//           causal (0 or 1) is bottom-right aligned · fully masked row: out 0, lse -inf · a row of scores fits in shared memory
// Launch    grid (seq_len_q, num_heads, batch_size) · block BLOCK · dynamic shared memory seq_len_kv * 4 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/attention.py: grouped_attention_kernel
// Source    J. Ainslie and others, "GQA: Training Generalized Multi-Query Transformer Models …", 2023, section 2.2, arXiv:2305.13245
#ifndef BLOCK
#define BLOCK 64  // threads of a block, a power of two
#endif
#include "common/block_reduce.cuh"   // block_max(value, reduce_smem), block_sum(value, reduce_smem)
#include "common/softmax_state.cuh"  // NEG_INF, exp_shifted(score, m)

extern "C" __global__ void __launch_bounds__(BLOCK)
grouped_attention_kernel(const float* q, const float* k, const float* v, float* out, float* lse, int num_heads, int num_kv_heads,
                         int seq_len_q, int seq_len_kv, int head_dim, float softmax_scale, int causal) {
    extern __shared__ float row_smem[];   // (seq_len_kv,) scores of the keys that the row sees, then their exponentials
    __shared__ float reduce_smem[BLOCK];  // (BLOCK,) one partial result a thread
    const int q_row = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
    const size_t row = ((size_t)batch * num_heads + head) * seq_len_q + q_row;  // of all rows of q, out and lse
    const float* k_head = k;       // (seq_len_kv, head_dim)
    const float* v_head = v;       // (seq_len_kv, head_dim)
    int num_visible = seq_len_kv;  // keys that the row sees, the first ones
    // BEGIN SOLUTION
    const int num_q_per_kv = num_heads / num_kv_heads;
    const int kv_head = head / num_q_per_kv;
    const size_t first = ((size_t)batch * num_kv_heads + kv_head) * seq_len_kv * head_dim;
    k_head = k + first;
    v_head = v + first;
    if (causal) num_visible = max(0, q_row + seq_len_kv - seq_len_q + 1);
    // END SOLUTION

    // region: scores
    float m_thread = NEG_INF;
    for (int key = threadIdx.x; key < num_visible; key += BLOCK) {
        float dot = 0.0f;
        for (int d = 0; d < head_dim; ++d) dot += q[row * head_dim + d] * k_head[(size_t)key * head_dim + d];
        row_smem[key] = dot * softmax_scale;
        m_thread = fmaxf(m_thread, row_smem[key]);
    }
    // endregion
    const float m = block_max(m_thread, reduce_smem);
    __syncthreads();  // separates all reads of the maximum from the first write of the sum

    // region: exponentials
    float l_thread = 0.0f;
    for (int key = threadIdx.x; key < num_visible; key += BLOCK) {
        row_smem[key] = exp_shifted(row_smem[key], m);
        l_thread += row_smem[key];
    }
    const float l = block_sum(l_thread, reduce_smem);  // its barriers also separate row_smem's writes from the reads below
    // endregion

    // region: weighted_sum
    const float inv_l = l == 0.0f ? 0.0f : 1.0f / l;  // a row that sees nothing: out 0
    for (int d = threadIdx.x; d < head_dim; d += BLOCK) {
        float acc = 0.0f;
        for (int key = 0; key < num_visible; ++key) acc += row_smem[key] * v_head[(size_t)key * head_dim + d];
        out[row * head_dim + d] = acc * inv_l;
    }
    if (threadIdx.x == 0) lse[row] = l == 0.0f ? NEG_INF : m + logf(l);
    // endregion
}
