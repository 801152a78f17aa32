// 03_paged_v2 — decode attention over pages, long sequences cut into partitions
//
// Idea      a block a head leaves most of the card idle when there are few heads and long sequences: give each block one
//           partition of the keys, and merge the partial results by their log-sum-exp
// Builds on 02_paged_v1. Changed regions: partition, store; new: reduce_kernel.
// Contract  as 02_paged_v1, and
//           partial_out (B, H, num_partitions, D) float, normalised within its partition · partial_lse (B, H, num_partitions)
//           float, natural log · only the first ceil(seq_len / partition_len) of a sequence are written, and only they are read
//           num_partitions >= ceil(largest seq_len / partition_len) · partition_len >= 1
// Launch    paged_v2_kernel: grid (H, num_partitions, B), block 128 · then reduce_kernel: grid (H, B), block HEAD_DIM
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/paged.py: paged_v2_kernel, reduce_kernel
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    vLLM, csrc/attention (paged_attention_v2: partitions and a reduce kernel), github.com/vllm-project/vllm
//           T. Dao and others, "Flash-Decoding for long-context inference", 2023, pytorch.org/blog/flash-decoding
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
paged_v2_kernel(const ELEMENT* q, const ELEMENT* k_pages, const ELEMENT* v_pages, const int* block_table, const int* seq_lens,
                float* partial_out, float* partial_lse, int num_q_per_kv, int page_size, int max_pages, int partition_len,
                long long stride_q_batch, long long stride_q_head, long long stride_page, long long stride_slot,
                long long stride_kv_head, float softmax_scale) {
    __shared__ float m_smem[KEYS], l_smem[KEYS], acc_smem[KEYS][HEAD_DIM];
    const int head = blockIdx.x, kv_head = head / num_q_per_kv;
    const long long batch = blockIdx.z;
    // region: partition
    const long long first = (long long)blockIdx.y * partition_len;  // its first key
    if (first >= seq_lens[batch]) return;                           // the sequence is shorter: no key in this partition
    const int seq_len = (int)min((long long)seq_lens[batch], first + partition_len);  // of the sequence, up to the partition's end
    // endregion
    const int d = threadIdx.x % LANES_PER_KEY * CHUNK;  // the thread's columns: d to d + 7
    const int tile_key = threadIdx.x / LANES_PER_KEY;   // its key among the block's
    float q_reg[CHUNK], m = NEG_INF, l = 0.0f, acc[CHUNK] = {};
    load_chunk(q_reg, q + batch * stride_q_batch + head * stride_q_head + d);

    for (int start = (int)first; start < seq_len; start += KEYS) {
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
    // region: store
    const long long row = (batch * gridDim.x + head) * gridDim.y + blockIdx.y;
    partial_out[row * HEAD_DIM + threadIdx.x] = acc_all / l_all;  // a partition that exists has a key
    if (threadIdx.x == 0) partial_lse[row] = m_all + logf(l_all);
    // endregion
}

extern "C" __global__ void __launch_bounds__(HEAD_DIM)
reduce_kernel(const float* partial_out, const float* partial_lse, const int* seq_lens, ELEMENT* out, float* lse,
              int num_partitions, int partition_len) {
    const long long row = (long long)blockIdx.y * gridDim.x + blockIdx.x;
    const int count = CEIL_DIV((long long)seq_lens[blockIdx.y], partition_len);  // partitions that were written
    partial_out += row * num_partitions * HEAD_DIM;
    partial_lse += row * num_partitions;
    // region: reduce
    float m = NEG_INF, l = 0.0f, acc = 0.0f;
    for (int i = 0; i < count; ++i) m = fmaxf(m, partial_lse[i]);
    for (int i = 0; i < count; ++i) {
        const float weight = exp_shifted(partial_lse[i], m);  // exp(lse) is the partition's l, seen from the common m
        l += weight;
        acc += weight * partial_out[(long long)i * HEAD_DIM + threadIdx.x];
    }
    // endregion
    out[row * HEAD_DIM + threadIdx.x] = rounded(l == 0.0f ? 0.0f : acc / l, ELEMENT());
    if (threadIdx.x == 0) lse[row] = l == 0.0f ? NEG_INF : m + logf(l);
}
