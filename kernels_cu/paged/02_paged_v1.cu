// 02_paged_v1 — decode attention over pages: a block a query head, the whole sequence
//
// Idea      the cache is a pool of pages in no order; a row of block_table says which page holds tokens p * page_size and on
// Builds on chapter 06's online softmax. New: the region `page`, and that nothing past seq_len may be touched.
// Contract  q, out (B, H, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128 · out contiguous · q any stride of batch and head
//           k_pages, v_pages ELEMENT: page p, slot s, head h begins at p * stride_page + s * stride_slot + h * stride_kv_head
//           (both layouts, NHD and HND, are strides), the same strides for both pools; rows at multiples of 16 bytes
//           block_table (B, max_pages) int · seq_lens (B,) int, 0 to max_pages * page_size
//           lse (B, H) float, natural log · seq_len 0: out 0, lse -inf · H = Hkv * num_q_per_kv
//           read: the first seq_len slots, the first ceil(seq_len / page_size) table entries; the rest is undefined
// Launch    grid (H, B) · block 128
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/paged.py: paged_v1_kernel
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    W. Kwon and others, "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023,
//           sections 4.1 and 5.1, arXiv:2309.06180
#include "common/attention_macros.cuh"  // HEAD_DIM, ELEMENT
#include "common/half_chunk.cuh"        // load_chunk: 16 bytes as 8 floats; rounded
#include "common/lane_groups.cuh"       // group_score, update_state, leave_group_state, merge_groups
#include "common/softmax_state.cuh"     // NEG_INF, exp_shifted(score, m)
#define NUM_THREADS 128
#define CHUNK 8                             // elements in 16 bytes: a thread's part of a row
#define LANES_PER_KEY (HEAD_DIM / CHUNK)    // 8 or 16 neighbouring lanes read one row
#define KEYS (NUM_THREADS / LANES_PER_KEY)  // keys that the block works on at a time
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "a power of two of lanes a key, and at most as many columns as threads");

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
paged_v1_kernel(const ELEMENT* q, const ELEMENT* k_pages, const ELEMENT* v_pages, const int* block_table, const int* seq_lens,
                ELEMENT* out, float* lse, int num_q_per_kv, int page_size, int max_pages, long long stride_q_batch,
                long long stride_q_head, long long stride_page, long long stride_slot, long long stride_kv_head,
                float softmax_scale) {
    __shared__ float m_smem[KEYS], l_smem[KEYS], acc_smem[KEYS][HEAD_DIM];
    const int head = blockIdx.x, kv_head = head / num_q_per_kv, seq_len = seq_lens[blockIdx.y];
    const long long batch = blockIdx.y;
    const int d = threadIdx.x % LANES_PER_KEY * CHUNK;  // the thread's columns: d to d + 7
    const int tile_key = threadIdx.x / LANES_PER_KEY;   // its key among the block's
    float q_reg[CHUNK], m = NEG_INF, l = 0.0f, acc[CHUNK] = {};
    load_chunk(q_reg, q + batch * stride_q_batch + head * stride_q_head + d);

    for (int start = 0; start < seq_len; start += KEYS) {
        const int key = start + tile_key;
        float k_reg[CHUNK] = {}, v_reg[CHUNK] = {};
        if (key < seq_len) {
            // region: page
            const long long page = block_table[batch * max_pages + key / page_size];  // 64 bits: pool > 2^31 elements
            const long long row_offset = page * stride_page + key % page_size * stride_slot + kv_head * stride_kv_head + d;
            load_chunk(k_reg, k_pages + row_offset);
            load_chunk(v_reg, v_pages + row_offset);
            // endregion
        }
        // region: score
        float score = group_score<LANES_PER_KEY>(q_reg, k_reg);
        score = key < seq_len ? score * softmax_scale : NEG_INF;
        // endregion
        update_state(m, l, acc, score, v_reg);
    }

    // region: merge
    leave_group_state(m_smem, l_smem, acc_smem, m, l, acc, tile_key, d);
    __syncthreads();  // separates the writes of each group's state from the reads of all of them
    if (threadIdx.x >= HEAD_DIM) return;
    float m_all = NEG_INF, l_all = 0.0f, acc_all = 0.0f;
    merge_groups(m_all, l_all, acc_all, m_smem, l_smem, acc_smem, threadIdx.x);
    // endregion
    const long long row = batch * gridDim.x + head;
    out[row * HEAD_DIM + threadIdx.x] = rounded(l_all == 0.0f ? 0.0f : acc_all / l_all, ELEMENT());
    if (threadIdx.x == 0) lse[row] = l_all == 0.0f ? NEG_INF : m_all + logf(l_all);
}
