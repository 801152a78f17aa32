// 03_row_in_block — attention forward in one launch: a block does all steps for one query row
//
// Idea      a row of the result needs one row of scores and no other: barriers within a block replace the ends of kernels
// Builds on 01_naive, without mask. The row of weights still goes through global memory.
// Contract  q, out (batch_size, num_heads, seq_len_q, head_dim) float · k, v (batch_size, num_heads, seq_len_kv, head_dim) float
//           probs (batch_size, num_heads, seq_len_q, seq_len_kv) float: the weights · all contiguous, all sizes >= 1
// Launch    grid (seq_len_q, num_heads, batch_size) · block BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
//           no Triton twin: 05_grouped_query has one, and without the trip through global memory
#ifndef BLOCK
#define BLOCK 64  // threads of a block, a power of two
#endif
#include "common/block_reduce.cuh"  // block_max(value, reduce_smem), block_sum(value, reduce_smem)
#include "common/constants.cuh"     // NEG_INF

extern "C" __global__ void __launch_bounds__(BLOCK)
naive_attention_kernel(const float* q, const float* k, const float* v, float* probs, float* out, int num_heads,
                       int seq_len_q, int seq_len_kv, int head_dim, float softmax_scale) {
    __shared__ float reduce_smem[BLOCK];  // (BLOCK,) one partial result a thread
    const int q_row = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
    // BEGIN SOLUTION
    const size_t batch_head = (size_t)batch * num_heads + head;
    const float* q_vec = q + (batch_head * seq_len_q + q_row) * head_dim;       // (head_dim,)
    const float* k_head = k + batch_head * seq_len_kv * head_dim;               // (seq_len_kv, head_dim)
    const float* v_head = v + batch_head * seq_len_kv * head_dim;               // (seq_len_kv, head_dim)
    float* probs_row = probs + (batch_head * seq_len_q + q_row) * seq_len_kv;  // (seq_len_kv,)
    float* out_row = out + (batch_head * seq_len_q + q_row) * head_dim;         // (head_dim,)

    float m_thread = NEG_INF;
    for (int key = threadIdx.x; key < seq_len_kv; key += BLOCK) {
        float dot = 0.0f;
        for (int d = 0; d < head_dim; ++d) dot += q_vec[d] * k_head[(size_t)key * head_dim + d];
        probs_row[key] = dot * softmax_scale;
        m_thread = fmaxf(m_thread, probs_row[key]);
    }
    const float m = block_max(m_thread, reduce_smem);
    __syncthreads();  // separates all reads of the maximum from the first write of the sum

    float l_thread = 0.0f;
    for (int key = threadIdx.x; key < seq_len_kv; key += BLOCK) {
        probs_row[key] = expf(probs_row[key] - m);
        l_thread += probs_row[key];
    }
    const float l = block_sum(l_thread, reduce_smem);
    for (int key = threadIdx.x; key < seq_len_kv; key += BLOCK) probs_row[key] /= l;
    __syncthreads();  // separates each thread's weights from the reads of all weights

    for (int d = threadIdx.x; d < head_dim; d += BLOCK) {
        float acc = 0.0f;
        for (int key = 0; key < seq_len_kv; ++key) acc += probs_row[key] * v_head[(size_t)key * head_dim + d];
        out_row[d] = acc;
    }
    // END SOLUTION
}
