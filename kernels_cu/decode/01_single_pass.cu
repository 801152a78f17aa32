// 01_single_pass — decode attention: one query row a head, a block walks over all keys of its sequence
//
// Idea      with one query there is no tile of rows to share out: the warps of a block share the keys instead, each group of
//           lanes keeps a state (m, l, acc) of the keys it saw, and the states are merged at the end
// Builds on chapter 03's merge of states and chapter 06's online softmax.
// Contract  q, out (B, H, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128 · out contiguous · q any stride of batch and head
//           k, v ELEMENT: sequence b, token t, head h begins at b * stride_kv_batch + t * stride_kv_token + h * stride_kv_head
//           (any layout), the same strides for both; rows contiguous, at multiples of 16 bytes
//           seq_lens (B,) int, 0 to the tokens there is room for · lse (B, H) float, natural log
//           seq_len 0: out 0, lse -inf · H = Hkv * num_q_per_kv · entries past seq_len are not read and undefined
// Launch    grid (H, B) · block 128
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/decode.py: single_pass_kernel
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    N. Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need", 2019, section 2.4 (what decoding waits for),
//           arXiv:1911.02150 · M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, arXiv:1805.02867
#include "common/attention_macros.cuh"  // HEAD_DIM, ELEMENT
#include "common/half_chunk.cuh"        // load_chunk: 16 bytes as 8 floats; rounded
#include "common/lane_groups.cuh"       // group_score, update_state, leave_group_state, merge_groups
#include "common/softmax_state.cuh"     // NEG_INF, exp_shifted(score, m)
#define NUM_THREADS 128
#define CHUNK 8                             // elements in 16 bytes: a thread's part of a row
#define LANES_PER_KEY (HEAD_DIM / CHUNK)    // 8 or 16 neighbouring lanes read one row
#define KEYS (NUM_THREADS / LANES_PER_KEY)  // keys that the block works on at a time: one a group of lanes
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "a power of two of lanes a key, and at most as many columns as threads");

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
single_pass_kernel(const ELEMENT* q, const ELEMENT* k, const ELEMENT* v, const int* seq_lens, ELEMENT* out, float* lse,
                   int num_q_per_kv, long long stride_q_batch, long long stride_q_head, long long stride_kv_batch,
                   long long stride_kv_token, long long stride_kv_head, float softmax_scale) {
    __shared__ float m_smem[KEYS], l_smem[KEYS], acc_smem[KEYS][HEAD_DIM];
    // region: who
    const int head = blockIdx.x, kv_head = head / num_q_per_kv;
    const long long batch = blockIdx.y;
    const int first = 0, end = seq_lens[batch];  // the keys of this block: first to end - 1
    // endregion
    const int d = threadIdx.x % LANES_PER_KEY * CHUNK;  // the thread's columns: d to d + 7
    const int group = threadIdx.x / LANES_PER_KEY;      // its group of lanes: one key of KEYS at a time
    float q_reg[CHUNK], m = NEG_INF, l = 0.0f, acc[CHUNK] = {};
    load_chunk(q_reg, q + batch * stride_q_batch + head * stride_q_head + d);
    k += batch * stride_kv_batch + kv_head * stride_kv_head + d;
    v += batch * stride_kv_batch + kv_head * stride_kv_head + d;

    for (int start = first; start < end; start += KEYS) {
        // region: walk
        const int key = min(start + group, end - 1);  // past the end: the last key again, its score masked below
        float k_reg[CHUNK], v_reg[CHUNK];
        load_chunk(k_reg, k + key * stride_kv_token);
        load_chunk(v_reg, v + key * stride_kv_token);
        float score = group_score<LANES_PER_KEY>(q_reg, k_reg);
        score = start + group < end ? score * softmax_scale : NEG_INF;
        // endregion
        update_state(m, l, acc, score, v_reg);
    }

    // region: merge
    leave_group_state(m_smem, l_smem, acc_smem, m, l, acc, group, d);
    __syncthreads();  // separates the writes of each group's state from the reads of all of them
    const int column = threadIdx.x % HEAD_DIM;
    float m_all = NEG_INF, l_all = 0.0f, acc_all = 0.0f;
    merge_groups(m_all, l_all, acc_all, m_smem, l_smem, acc_smem, column);
    // endregion
    // region: store
    const long long row = batch * gridDim.x + head;
    if (threadIdx.x < HEAD_DIM) out[row * HEAD_DIM + column] = rounded(l_all == 0.0f ? 0.0f : acc_all / l_all, ELEMENT());
    if (threadIdx.x == 0) lse[row] = l_all == 0.0f ? NEG_INF : m_all + logf(l_all);
    // endregion
}
