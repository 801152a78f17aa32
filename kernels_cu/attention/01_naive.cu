// 01_naive — attention forward, one kernel an operation: q k^T, scale, mask, softmax, weights times v
//
// Idea      as a library of single operations does it: what one kernel leaves for the next goes through global memory
// Contract  q, out (batch_size, num_heads, seq_len_q, head_dim) float · k, v (batch_size, num_kv_heads, seq_len_kv, head_dim) float
//           scores, probs (batch_size, num_heads, seq_len_q, seq_len_kv) float · all contiguous, all sizes >= 1
//           num_kv_heads divides num_heads · causal is bottom-right aligned · fully masked row: out 0
//           softmax: a row of scores fits in shared memory
// Launch    five launches, the fourth with seq_len_kv * 4 bytes of dynamic shared memory; grids stand at the kernels · block BLOCK
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/attention.py: scores_kernel, scale_kernel, mask_kernel, softmax_kernel, weighted_sum_kernel
// gate: -DBLOCK=128
#ifndef BLOCK
#error "BLOCK: threads of a block; pass -DBLOCK=128"
#endif
static_assert(BLOCK >= 1 && (BLOCK & (BLOCK - 1)) == 0, "BLOCK: the tree reduction halves it; use a power of two");
#include "common/block_reduce.cuh"   // block_max(value, reduce_smem), block_sum(value, reduce_smem)
#include "common/softmax_state.cuh"  // NEG_INF, exp_shifted(score, m)

// region: scores
// One thread a score. Grid (seq_len_q, ceil(seq_len_kv / BLOCK), batch_size * num_heads).
extern "C" __global__ void __launch_bounds__(BLOCK)
scores_kernel(const float* q, const float* k, float* scores, int num_heads, int num_kv_heads, int seq_len_q, int seq_len_kv, int head_dim) {
    const int key = blockIdx.y * BLOCK + threadIdx.x;
    if (key >= seq_len_kv) return;
    const int batch = blockIdx.z / num_heads, head = blockIdx.z % num_heads;
    const int kv_head = head / (num_heads / num_kv_heads);  // neighbouring query heads share one
    const size_t row = (size_t)blockIdx.z * seq_len_q + blockIdx.x;
    const float* q_row = q + row * head_dim;                                                              // (head_dim,)
    const float* k_row = k + (((size_t)batch * num_kv_heads + kv_head) * seq_len_kv + key) * head_dim;  // (head_dim,)
    float dot = 0.0f;
    for (int d = 0; d < head_dim; ++d) dot += q_row[d] * k_row[d];
    scores[row * seq_len_kv + key] = dot;
}
// endregion

// region: scale
// One thread a score, in place. Grid ceil(num_scores / BLOCK).
extern "C" __global__ void __launch_bounds__(BLOCK)
scale_kernel(float* scores, long long num_scores, float softmax_scale) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i < num_scores) scores[i] *= softmax_scale;
}
// endregion

// region: mask
// One thread a score, in place. Grid ceil(num_scores / BLOCK). seq_len_q = 2, seq_len_kv = 5 keeps
//     1 1 1 1 0
//     1 1 1 1 1
extern "C" __global__ void __launch_bounds__(BLOCK)
mask_kernel(float* scores, long long num_scores, int seq_len_q, int seq_len_kv) {
    const long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= num_scores) return;
    const int key = i % seq_len_kv, q_row = i / seq_len_kv % seq_len_q;
    const float score = scores[i];
    scores[i] = key <= q_row + seq_len_kv - seq_len_q ? score : NEG_INF;
}
// endregion

// region: softmax
// One block a row, the row in shared memory. Grid batch_size * num_heads * seq_len_q.
extern "C" __global__ void __launch_bounds__(BLOCK)
softmax_kernel(const float* scores, float* probs, int seq_len_kv) {
    extern __shared__ float row_smem[];   // (seq_len_kv,) the scores, then their exponentials
    __shared__ float reduce_smem[BLOCK];  // (BLOCK,) one partial result a thread
    const size_t first = (size_t)blockIdx.x * seq_len_kv;
    float m_thread = NEG_INF;
    for (int key = threadIdx.x; key < seq_len_kv; key += BLOCK) {
        row_smem[key] = scores[first + key];  // read by this thread alone: no barrier needed
        m_thread = fmaxf(m_thread, row_smem[key]);
    }
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
}
// endregion

// region: weighted_sum
// One block a row, one thread a column of v. Grid (seq_len_q, 1, batch_size * num_heads).
extern "C" __global__ void __launch_bounds__(BLOCK)
weighted_sum_kernel(const float* probs, const float* v, float* out, int num_heads, int num_kv_heads, int seq_len_q, int seq_len_kv, int head_dim) {
    const int batch = blockIdx.z / num_heads, head = blockIdx.z % num_heads;
    const int kv_head = head / (num_heads / num_kv_heads);
    const size_t row = (size_t)blockIdx.z * seq_len_q + blockIdx.x;
    const float* v_head = v + ((size_t)batch * num_kv_heads + kv_head) * seq_len_kv * head_dim;  // (seq_len_kv, head_dim)
    for (int d = threadIdx.x; d < head_dim; d += BLOCK) {
        float acc = 0.0f;
        for (int key = 0; key < seq_len_kv; ++key) acc += probs[row * seq_len_kv + key] * v_head[(size_t)key * head_dim + d];
        out[row * head_dim + d] = acc;
    }
}
// endregion
