// 01_split — decode attention over one split of the keys, one warp
//
// Idea      a warp takes one head and one split: a lane holds two columns of q and of the sum, and every key costs one warp_sum;
//           its output is attention over its own keys, divided by l, with the log-sum-exp that lets splits be combined
// Builds on chapter 03's online softmax (softmax/03_online_warp).
// Contract  q (B, H, 64), k, v (B, Hkv, capacity, 64) half, contiguous · H = Hkv * num_q_per_kv; query head h reads head
//           h / num_q_per_kv · every sequence has the keys 0 to seq_len_kv - 1, 1 <= seq_len_kv <= capacity; entries
//           past seq_len_kv are undefined · split s has the keys s * split_len to (s + 1) * split_len - 1, as far as they exist
//           partial_out (num_splits, B, H, 64), partial_lse (num_splits, B, H) float, natural log · every split has a key
//           no Triton twin: Triton leaves the mapping to lanes to the compiler
// Launch    grid (num_splits, H, B), num_splits = ceil(seq_len_kv / split_len) · block 32
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Source    T. Dao, D. Haziza, F. Massa, G. Sizov, "Flash-Decoding for long-context inference", 2023,
//           pytorch.org/blog/flash-decoding
#include <cuda_fp16.h>
#include "common/softmax_state.cuh"  // NEG_INF, WARP_SIZE, exp_shifted(score, m)
#include "common/warp_reduce.cuh"    // warp_sum
#define HEAD_DIM 64  // two columns a lane: column pair `lane` of a row is columns 2 * lane and 2 * lane + 1

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
split_kernel(const __half* q, const __half* k, const __half* v, float* partial_out, float* partial_lse, int num_q_per_kv,
             int seq_len_kv, int capacity, int split_len, float softmax_scale) {
    const int lane = threadIdx.x, split = blockIdx.x, head = blockIdx.y;
    const size_t batch = blockIdx.z, num_rows = (size_t)gridDim.y * gridDim.z;
    const size_t row = batch * gridDim.y + head;  // of q, over all batches
    const float2 q_reg = __half22float2(reinterpret_cast<const __half2*>(q + row * HEAD_DIM)[lane]);
    float m = NEG_INF, l = 0.0f;
    float2 acc = make_float2(0.0f, 0.0f);
    // BEGIN SOLUTION
    const size_t kv_head = batch * (gridDim.y / num_q_per_kv) + head / num_q_per_kv;
    const __half2* k_rows = reinterpret_cast<const __half2*>(k + kv_head * capacity * HEAD_DIM);  // (capacity, 32) pairs
    const __half2* v_rows = reinterpret_cast<const __half2*>(v + kv_head * capacity * HEAD_DIM);
    const int first = split * split_len, end = min(first + split_len, seq_len_kv);
    for (int key = first; key < end; ++key) {
        const float2 k_reg = __half22float2(k_rows[(size_t)key * WARP_SIZE + lane]);
        const float2 v_reg = __half22float2(v_rows[(size_t)key * WARP_SIZE + lane]);
        const float score = warp_sum(q_reg.x * k_reg.x + q_reg.y * k_reg.y) * softmax_scale;
        const float m_new = fmaxf(m, score);
        const float alpha = exp_shifted(m, m_new), weight = exp_shifted(score, m_new);
        l = l * alpha + weight;
        acc.x = acc.x * alpha + weight * v_reg.x;
        acc.y = acc.y * alpha + weight * v_reg.y;
        m = m_new;
    }
    const size_t offset = split * num_rows + row;
    reinterpret_cast<float2*>(partial_out)[offset * WARP_SIZE + lane] = make_float2(acc.x / l, acc.y / l);
    if (lane == 0) partial_lse[offset] = m + logf(l);
    // END SOLUTION
}
