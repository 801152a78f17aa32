// 02_split_kv — decode attention, the keys of a sequence cut into splits of equal length, a block each
//
// Idea      a block a head leaves most of the card idle when heads are few and sequences long: give each block one split of the
//           keys, let it write its own softmax (out, lse) of these, and merge the splits by their log-sum-exp
// Builds on 01_single_pass. Changed regions: who, store; new: combine_kernel.
// Contract  as 01_single_pass, and
//           split s of a sequence has the keys s * split_len to (s + 1) * split_len - 1, as far as they exist
//           partial_out (B, H, num_splits, D), partial_lse (B, H, num_splits) float: softmax of a split by itself, natural log
//           a split without keys: partial_lse -inf, its partial_out is undefined and not read
//           num_splits * split_len >= the largest seq_len · split_len >= 1
// Launch    split_kv_kernel: grid (H, num_splits, B), block 128 · then combine_kernel: grid (H, B), block HEAD_DIM
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/decode.py: split_kv_kernel, combine_kernel
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    T. Dao, D. Haziza, F. Massa, G. Sizov, "Flash-Decoding for long-context inference", 2023,
//           pytorch.org/blog/flash-decoding
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of q, k, v and out; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#include "common/half_chunk.cuh"     // load_chunk: 16 bytes as 8 floats; rounded
#include "common/softmax_state.cuh"  // NEG_INF, exp_shifted(score, m)
#define NUM_THREADS 128
#define CHUNK 8                             // elements in 16 bytes: a thread's part of a row
#define LANES_PER_KEY (HEAD_DIM / CHUNK)    // 8 or 16 neighbouring lanes read one row
#define KEYS (NUM_THREADS / LANES_PER_KEY)  // keys that the block works on at a time: one a group of lanes
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "a power of two of lanes a key, and at most as many columns as threads");

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
split_kv_kernel(const ELEMENT* q, const ELEMENT* k, const ELEMENT* v, const int* seq_lens, float* partial_out,
                float* partial_lse, int num_q_per_kv, int split_len, long long stride_q_batch, long long stride_q_head,
                long long stride_kv_batch, long long stride_kv_token, long long stride_kv_head, float softmax_scale) {
    __shared__ float m_smem[KEYS], l_smem[KEYS], acc_smem[KEYS][HEAD_DIM];
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
        float k_reg[CHUNK], v_reg[CHUNK], score = 0.0f;
        load_chunk(k_reg, k + key * stride_kv_token);
        load_chunk(v_reg, v + key * stride_kv_token);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) score += q_reg[i] * k_reg[i];
#pragma unroll
        for (int offset = LANES_PER_KEY / 2; offset > 0; offset /= 2) score += __shfl_xor_sync(ALL_LANES, score, offset);
        score = start + group < end ? score * softmax_scale : NEG_INF;
        // endregion
        // region: update
        const float m_new = fmaxf(m, score);
        const float alpha = exp_shifted(m, m_new), weight = exp_shifted(score, m_new);
        m = m_new;
        l = l * alpha + weight;
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) acc[i] = acc[i] * alpha + weight * v_reg[i];
        // endregion
    }

    // region: merge
    if (d == 0) {
        m_smem[group] = m;
        l_smem[group] = l;
    }
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) acc_smem[group][d + i] = acc[i];
    __syncthreads();  // separates the writes of each group's state from the reads of all of them
    const int column = threadIdx.x % HEAD_DIM;
    float m_all = NEG_INF, l_all = 0.0f, acc_all = 0.0f;
    for (int i = 0; i < KEYS; ++i) m_all = fmaxf(m_all, m_smem[i]);
    for (int i = 0; i < KEYS; ++i) {
        const float weight = exp_shifted(m_smem[i], m_all);
        l_all += weight * l_smem[i];
        acc_all += weight * acc_smem[i][column];
    }
    // endregion
    // region: store
    // A split without keys has m_all = -inf and l_all = 0: its partial_lse is -inf and says that partial_out holds nothing.
    if (threadIdx.x < HEAD_DIM) partial_out[(long long)split * HEAD_DIM + column] = acc_all / l_all;
    if (threadIdx.x == 0) partial_lse[split] = m_all + logf(l_all);
    // endregion
}

extern "C" __global__ void __launch_bounds__(HEAD_DIM)
combine_kernel(const float* partial_out, const float* partial_lse, ELEMENT* out, float* lse, int num_splits) {
    const long long row = (long long)blockIdx.y * gridDim.x + blockIdx.x;
    const int column = threadIdx.x;
    // region: combine
    partial_out += row * num_splits * HEAD_DIM;
    partial_lse += row * num_splits;
    float m_all = NEG_INF, l_all = 0.0f, acc_all = 0.0f;
    for (int i = 0; i < num_splits; ++i) m_all = fmaxf(m_all, partial_lse[i]);
    for (int i = 0; i < num_splits; ++i) {
        if (partial_lse[i] == NEG_INF) continue;                  // its partial_out is undefined, and 0 times NaN is NaN
        const float weight = exp_shifted(partial_lse[i], m_all);  // exp(lse) is the split's l, seen from the common m
        l_all += weight;
        acc_all += weight * partial_out[(long long)i * HEAD_DIM + column];
    }
    // endregion
    out[row * HEAD_DIM + column] = rounded(l_all == 0.0f ? 0.0f : acc_all / l_all, ELEMENT());
    if (column == 0) lse[row] = l_all == 0.0f ? NEG_INF : m_all + logf(l_all);
}
