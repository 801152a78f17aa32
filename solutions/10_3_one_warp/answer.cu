// 03_warp_walk — decode attention over pages, one warp for a query head of a sequence
//
// Idea      a lane a column: the warp walks over the tokens one by one, and looks up the page of each in block_table
// Builds on paged/02_paged_v1, whose block has 128 threads and several keys at a time. Here m and l are the same in all lanes.
// Contract  q, out (B, H, 32) float, contiguous · k_pages, v_pages float: page p, slot s, head h begins at
//           p * stride_page + s * stride_slot + h * stride_kv_head, rows contiguous
//           block_table (B, max_pages) int · seq_lens (B,) int, 0 to max_pages * page_size
//           lse (B, H) float, natural log · seq_len 0: out 0, lse -inf · H = Hkv * num_q_per_kv
//           read: the first seq_len slots, the first ceil(seq_len / page_size) table entries; the rest is undefined
//           no Triton twin: paged/02_paged_v1 has one
// Launch    grid (H, B) · block 32
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Source    W. Kwon and others, "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023,
//           section 4.1, arXiv:2309.06180
#include "common/softmax_state.cuh"  // WARP_SIZE, NEG_INF, exp_shifted(score, m)
#include "common/warp_reduce.cuh"    // warp_sum(value): all 32 lanes take part, and all get the sum
#define HEAD_DIM 32                  // a lane a column

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
paged_decode_kernel(const float* q, const float* k_pages, const float* v_pages, const int* block_table, const int* seq_lens,
                    float* out, float* lse, int num_q_per_kv, int page_size, int max_pages, long long stride_page,
                    long long stride_slot, long long stride_kv_head, float softmax_scale) {
    const int head = blockIdx.x, batch = blockIdx.y, lane = threadIdx.x;
    const long long row = (long long)batch * gridDim.x + head;  // of q, out and lse
    // BEGIN SOLUTION
    const int kv_head = head / num_q_per_kv, seq_len = seq_lens[batch];
    const int* pages = block_table + batch * max_pages;
    const float q_reg = q[row * HEAD_DIM + lane];
    float m = NEG_INF, l = 0.0f, acc = 0.0f;  // acc is this lane's column, undivided
    for (int key = 0; key < seq_len; ++key) {
        const long long page = pages[key / page_size];  // 64 bits: a pool may have more than 2^31 numbers
        const long long offset = page * stride_page + key % page_size * stride_slot + kv_head * stride_kv_head + lane;
        const float score = warp_sum(q_reg * k_pages[offset]) * softmax_scale;
        const float m_new = fmaxf(m, score);
        const float alpha = exp_shifted(m, m_new), weight = exp_shifted(score, m_new);
        l = l * alpha + weight;
        acc = acc * alpha + weight * v_pages[offset];
        m = m_new;
    }
    out[row * HEAD_DIM + lane] = l > 0.0f ? acc / l : 0.0f;
    if (lane == 0) lse[row] = l > 0.0f ? m + logf(l) : NEG_INF;
    // END SOLUTION
}
