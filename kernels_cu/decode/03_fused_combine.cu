// 03_fused_combine — decode attention in splits, merged without a second launch
//
// Idea      the blocks of a head count themselves when their part is written; the last block to arrive merges all parts
// Builds on 02_split_kv. Changed region: combine, now in the same kernel; new: last.
// Contract  as 02_split_kv, and
//           counters (B, H) int: must be zero on entry; zeroed on exit, so that a graph can replay the launch
//           one launch at a time uses the same partial_out, partial_lse and counters
// Launch    grid (H, num_splits, B) · block 128
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/decode.py: fused_combine_kernel
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    CUDA C++ Programming Guide, "Memory Fence Functions" (the sum whose last block adds up the parts of the others)
//           T. Dao and others, "Flash-Decoding for long-context inference", 2023, pytorch.org/blog/flash-decoding
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
fused_combine_kernel(const ELEMENT* q, const ELEMENT* k, const ELEMENT* v, const int* seq_lens, ELEMENT* out, float* lse,
                     float* partial_out, float* partial_lse, int* counters, int num_q_per_kv, int split_len,
                     long long stride_q_batch, long long stride_q_head, long long stride_kv_batch,
                     long long stride_kv_token, long long stride_kv_head, float softmax_scale) {
    __shared__ float m_smem[KEYS], l_smem[KEYS], acc_smem[KEYS][HEAD_DIM];
    __shared__ int last_smem;
    // region: who
    const int head = blockIdx.x, kv_head = head / num_q_per_kv;
    const int split = blockIdx.y, num_splits = gridDim.y;
    const long long batch = blockIdx.z, row = batch * gridDim.x + head;
    const int first = split * split_len;
    const int end = min(seq_lens[batch], first + split_len);  // the keys of this block: first to end - 1
    // endregion
    partial_out += row * num_splits * HEAD_DIM;
    partial_lse += row * num_splits;
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
    // A split without keys has m_all = -inf and l_all = 0: its partial_lse is -inf and says that partial_out holds nothing.
    if (threadIdx.x < HEAD_DIM) partial_out[(long long)split * HEAD_DIM + column] = acc_all / l_all;
    if (threadIdx.x == 0) partial_lse[split] = m_all + logf(l_all);
    // endregion
    // region: last
    __threadfence();  // this thread's part is visible to every block before the block counts itself
    __syncthreads();  // separates all threads' parts from the count that announces them
    if (threadIdx.x == 0) last_smem = atomicAdd(&counters[row], 1) == num_splits - 1;
    __syncthreads();  // separates the write of last_smem from its reads
    if (!last_smem) return;
    __threadfence();                          // what the other blocks made visible is read below, not before
    if (threadIdx.x == 0) counters[row] = 0;  // ready for the next launch
    // endregion

    // region: combine
    m_all = NEG_INF, l_all = 0.0f, acc_all = 0.0f;
    for (int i = 0; i < num_splits; ++i) m_all = fmaxf(m_all, __ldcg(partial_lse + i));  // from L2; ordered by the fence above
    for (int i = 0; i < num_splits; ++i) {
        const float part_lse = __ldcg(partial_lse + i);
        if (part_lse == NEG_INF) continue;                  // its partial_out is undefined, and 0 times NaN is NaN
        const float weight = exp_shifted(part_lse, m_all);  // exp(lse) is the split's l, seen from the common m
        l_all += weight;
        acc_all += weight * __ldcg(partial_out + (long long)i * HEAD_DIM + column);
    }
    // endregion
    if (threadIdx.x < HEAD_DIM) out[row * HEAD_DIM + column] = rounded(l_all == 0.0f ? 0.0f : acc_all / l_all, ELEMENT());
    if (threadIdx.x == 0) lse[row] = l_all == 0.0f ? NEG_INF : m_all + logf(l_all);
}
