// part_merge — from the parts of a row to out: the store of an item, alone or as a part, and the merge of all parts
//
// m, l and part_lse are in units of log2. An attention sink is a score without a value: it takes part in the sum of the weights,
// once a row, at the end. Device code only, no host headers.
#pragma once
#include "common/decode_merge.cuh"  // store_columns
#include "common/swizzle.cuh"
#include "common/work_item.cuh"

// region: with_sink
// log2 of the sum of the weights, a sink included; sinks (H) natural, or null.
__device__ __forceinline__ float with_sink(float lse_log2, const float* sinks, int head) {
    if (sinks == nullptr) return lse_log2;
    const float sink = sinks[head] * LOG2_E, largest = fmaxf(lse_log2, sink);
    return largest == NEG_INF ? NEG_INF : largest + log2f(fast_exp2(lse_log2 - largest) + fast_exp2(sink - largest));
}

// What a sum of weights 2^(score - m) times values is multiplied by to be out; 0 for a row that saw no key.
__device__ __forceinline__ float inverse(float m, float lse_log2) { return m == NEG_INF ? 0.0f : fast_exp2(m - lse_log2); }
// endregion

// Where the results go: out and lse of whole rows, parts of rows whose keys are split.
template <typename T>
struct Results {
    T* out;
    float *lse, *part_out, *part_lse;
    const int* token_parts;  // (total_q + 1): the first part of each token
    const float* sinks;
    int num_heads;
    // Which part of the scratch is number `part` of this row.
    __device__ __forceinline__ long long part_row(long long token, int head, int part) const {
        return (token_parts[token] + (long long)part) * num_heads + head;
    }
};

// region: store_rows_item
// The warp's rows, from fragments of common/attention_rows.cuh. out_smem (ROWS * 16, COLS * 8) of this warp alone: scratch.
template <int GROUP_, typename T, int ROWS, int COLS>
__device__ __forceinline__ void store_rows_item(const Results<T>& to, const WorkItem& item, const PackedRows<GROUP_>& rows,
                                                unsigned char* out_smem, const float (&acc)[ROWS][COLS][4], const float (&m)[ROWS][2],
                                                const float (&l)[ROWS][2], int warp_row, int lane) {
    constexpr int WIDTH = COLS * 8;
    const bool whole = item.whole;
    unsigned char* lane_smem = out_smem + lane / 4 * (COLS * 16) + lane % 4 * 4;  // row g, columns 2 t and 2 t + 1
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = warp_row + i * 16 + half * 8 + lane / 4;
            const bool exists = row < item.num_rows;
            const float own_lse = m[i][half] + log2f(row_sum(l[i][half]));  // no key: -inf + log2(0) = -inf
            const float lse_log2 = whole && exists ? with_sink(own_lse, to.sinks, rows.head(row)) : own_lse;
            const float scale = inverse(m[i][half], lse_log2);
            const long long part = whole || !exists ? 0 : to.part_row(rows.token(row), rows.head(row), item.part);
            if (exists && lane % 4 == 0) {
                if (whole) to.lse[rows.out_row(row)] = lse_log2 * LN_2;
                else to.part_lse[part] = lse_log2;
            }
#pragma unroll
            for (int d = 0; d < COLS; ++d) {
                const float a = acc[i][d][half * 2] * scale, b = acc[i][d][half * 2 + 1] * scale;
                if (whole) {
                    const int chunk = swizzle_chunk<COLS * 16>(lane / 4, d % 8) + d / 8 * 8;  // rows g and g + 8: the same
                    *reinterpret_cast<unsigned*>(lane_smem + (i * 16 + half * 8) * (COLS * 16) + chunk * 16) = pack_pair(a, b, T());
                } else if (exists) {
                    *reinterpret_cast<float2*>(to.part_out + part * WIDTH + d * 8 + lane % 4 * 2) = make_float2(a, b);
                }
            }
        }
    }
    if (!whole) return;
    __syncwarp();  // separates the lanes' writes of out_smem from their reads
    for (int i = lane; i < min(ROWS * 16, item.num_rows - warp_row) * COLS; i += WARP_SIZE) {
        *reinterpret_cast<uint4*>(to.out + rows.out_row(warp_row + i / COLS) * WIDTH + i % COLS * 8) =
            *reinterpret_cast<const uint4*>(out_smem + swizzle_offset<COLS * 16>(i / COLS, i % COLS));
    }
}
// endregion

// region: store_columns_item
// The item's rows from the states of all warps, which saw different keys (leave_state): acc of warp w begins w * warp_bytes into smem.
template <int GROUP_, int WIDTH, int STRIDE, int THREADS, typename T, int WARPS>
__device__ __forceinline__ void store_columns_item(const Results<T>& to, const WorkItem& item, const PackedRows<GROUP_>& rows,
                                                   const float (&m_smem)[WARPS][16], const float (&l_smem)[WARPS][16],
                                                   const unsigned char* smem, int warp_bytes) {
    for (int i = threadIdx.x; i < item.num_rows * WIDTH / 4; i += THREADS) {
        const int row = i / (WIDTH / 4), d = i % (WIDTH / 4) * 4;
        float m_all = NEG_INF, l_all = 0.0f;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int w = 0; w < WARPS; ++w) m_all = fmaxf(m_all, m_smem[w][row]);
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            const float alpha = m_smem[w][row] == NEG_INF ? 0.0f : fast_exp2(m_smem[w][row] - m_all);
            const float4 part = *reinterpret_cast<const float4*>(reinterpret_cast<const float*>(smem + w * warp_bytes) + row * STRIDE + d);
            l_all += l_smem[w][row] * alpha;
            sum = make_float4(sum.x + part.x * alpha, sum.y + part.y * alpha, sum.z + part.z * alpha, sum.w + part.w * alpha);
        }
        const bool whole = item.whole;
        const float own_lse = m_all + log2f(l_all);
        const float lse_log2 = whole ? with_sink(own_lse, to.sinks, rows.head(row)) : own_lse, scale = inverse(m_all, lse_log2);
        sum = make_float4(sum.x * scale, sum.y * scale, sum.z * scale, sum.w * scale);
        if (whole) {
            store_columns(to.out + rows.out_row(row) * WIDTH + d, sum);
            if (d == 0) to.lse[rows.out_row(row)] = lse_log2 * LN_2;
        } else {
            const long long part = to.part_row(rows.token(row), rows.head(row), item.part);
            *reinterpret_cast<float4*>(to.part_out + part * WIDTH + d) = sum;
            if (d == 0) to.part_lse[part] = lse_log2;
        }
    }
}
// endregion

// region: finished_tokens
// Counts the item at each of its tokens and lists those of which it is the last, counted from the item's first; returns how many.
// counters (total_q, Hkv) must be zero on entry; those of a finished token are zeroed. tokens_smem (THREADS) and count_smem: shared.
template <int GROUP_, typename T>
__device__ __forceinline__ int finished_tokens(const Results<T>& to, const WorkItem& item, int* counters, int* tokens_smem,
                                               int* count_smem) {
    const int num_kv_heads = to.num_heads / GROUP_;
    __threadfence();  // this thread's parts are visible to every block before the block counts itself
    if (threadIdx.x == 0) *count_smem = 0;
    __syncthreads();  // separates all threads' parts, and every read of shared memory, from what follows
    // region: count
    if (threadIdx.x < item.num_rows / GROUP_) {
        const long long token = item.first_token + threadIdx.x;
        int* counter = &counters[token * num_kv_heads + item.kv_head];
        if (atomicAdd(counter, 1) == to.token_parts[token + 1] - to.token_parts[token] - 1) {
            *counter = 0;  // ready for the next launch
            tokens_smem[atomicAdd(count_smem, 1)] = threadIdx.x;
        }
    }
    // endregion
    __syncthreads();  // separates the writes of the list from its reads
    __threadfence();  // what the other blocks made visible is read after this, not before
    return *count_smem;
}
// endregion

// region: merge_parts
// out and lse of the listed tokens from all their parts, in the order of the parts: the same bits whichever block comes last.
template <int GROUP_, int WIDTH, int THREADS, typename T>
__device__ __forceinline__ void merge_parts(const Results<T>& to, const PackedRows<GROUP_>& rows, const int* tokens_smem,
                                            int num_tokens) {
    for (int i = threadIdx.x; i < num_tokens * GROUP_ * WIDTH / 4; i += THREADS) {
        const int in_list = i / (WIDTH / 4), d = i % (WIDTH / 4) * 4;
        const int row = tokens_smem[in_list / GROUP_] * GROUP_ + in_list % GROUP_;
        const long long token = rows.token(row), first = to.part_row(token, rows.head(row), 0);
        const int num_parts = to.token_parts[token + 1] - to.token_parts[token];
        float m_all = NEG_INF, l_all = 0.0f;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (int start = 0; start < num_parts; start += SPLITS_AT_ONCE) {  // the loads of all, then their arithmetic
            float lses[SPLITS_AT_ONCE], m_new = m_all;
            float4 parts[SPLITS_AT_ONCE];
#pragma unroll
            for (int s = 0; s < SPLITS_AT_ONCE; ++s) {
                const long long part = first + (long long)min(start + s, num_parts - 1) * to.num_heads;
                lses[s] = start + s < num_parts ? __ldcg(to.part_lse + part) : NEG_INF;
                parts[s] = __ldcg(reinterpret_cast<const float4*>(to.part_out + part * WIDTH + d));
            }
#pragma unroll
            for (int s = 0; s < SPLITS_AT_ONCE; ++s) m_new = fmaxf(m_new, lses[s]);
            const float alpha = m_new == NEG_INF ? 1.0f : fast_exp2(m_all - m_new);  // no key yet: nothing to rescale
            m_all = m_new;
            l_all *= alpha;
            sum = make_float4(sum.x * alpha, sum.y * alpha, sum.z * alpha, sum.w * alpha);
#pragma unroll
            for (int s = 0; s < SPLITS_AT_ONCE; ++s) {
                const float weight = lses[s] == NEG_INF ? 0.0f : fast_exp2(lses[s] - m_new);
                l_all += weight;
                sum = make_float4(sum.x + weight * parts[s].x, sum.y + weight * parts[s].y, sum.z + weight * parts[s].z,
                                  sum.w + weight * parts[s].w);
            }
        }
        const float lse_log2 = with_sink(m_all + log2f(l_all), to.sinks, rows.head(row)), scale = inverse(m_all, lse_log2);
        store_columns(to.out + rows.out_row(row) * WIDTH + d,
                      make_float4(sum.x * scale, sum.y * scale, sum.z * scale, sum.w * scale));
        if (d == 0) to.lse[rows.out_row(row)] = lse_log2 * LN_2;
    }
}
// endregion
