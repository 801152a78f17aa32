// decode_merge — from the states of a block's warps to out: merge the warps, store the split, find the last block, merge the splits
//
// Every warp of a block saw other keys of a split, every block another split of a sequence. Two parts of a softmax with the
// log-sum-exp a and b merge with the weights exp(a) and exp(b). m, l and partial_lse_log2 are in units of log2 here.
// All threads of the block take part in every function. Device code only, no host headers.
#pragma once
#include "common/constants.cuh"
#include "common/fast_exp2.cuh"
#include "common/half_types.cuh"
#include "common/last_block.cuh"
#define SPLITS_AT_ONCE 8  // splits that a thread of the last block has under way

// region: leave_state
// Writes this warp's m and l (of its group of num_heads heads) and its acc, (num_heads, STRIDE) floats, to shared memory. The
// fragments are those of common/attention_columns.cuh. PAIRED: rows g and g + 8 of a fragment are columns 2 g and 2 g + 1 of V.
template <int STRIDE, bool PAIRED, int WARPS, int DIMS, int COLS>
__device__ __forceinline__ void leave_state(float (&m_smem)[WARPS][16], float (&l_smem)[WARPS][16], float* acc_smem,
                                            const float (&acc)[DIMS][COLS][4], const float (&m)[COLS][2],
                                            const float (&l)[COLS][2], int num_heads, int warp, int lane) {
#pragma unroll
    for (int c = 0; c < COLS; ++c) {
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            const int head = 8 * c + lane % 4 * 2 + s;
            float l_head = l[c][s];
            for (int other = 4; other < WARP_SIZE; other *= 2) l_head += __shfl_xor_sync(ALL_LANES, l_head, other);
            if (lane < 4) {
                m_smem[warp][head] = m[c][s];
                l_smem[warp][head] = l_head;
            }
            if (head < num_heads) {
#pragma unroll
                for (int d = 0; d < DIMS; ++d) {
                    if (PAIRED) {
                        *reinterpret_cast<float2*>(acc_smem + head * STRIDE + d * 16 + lane / 4 * 2) =
                            make_float2(acc[d][c][s], acc[d][c][s + 2]);
                    } else {
                        acc_smem[head * STRIDE + d * 16 + lane / 4] = acc[d][c][s];
                        acc_smem[head * STRIDE + d * 16 + lane / 4 + 8] = acc[d][c][s + 2];
                    }
                }
            }
        }
    }
}
// endregion

// Four neighbouring columns of out, rounded to the type of out.
template <typename T>
__device__ __forceinline__ void store_columns(T* out, float4 sum) {
    uint2 packed;
    packed.x = pack_pair(sum.x, sum.y, T());
    packed.y = pack_pair(sum.z, sum.w, T());
    *reinterpret_cast<uint2*>(out) = packed;
}

// region: store_split
// Merges the warps' states and stores the group's heads, rows first_row and up: to out and lse if the sequence has one split,
// else to partial_out (rows, num_splits, WIDTH) and partial_lse_log2 (rows, num_splits). acc of warp w begins w * warp_bytes
// into smem. A sequence without keys: out 0, lse -inf + log2(0) = -inf.
template <int WIDTH, int STRIDE, int THREADS, typename T, int WARPS>
__device__ __forceinline__ void store_split(T* out, float* lse, float* partial_out, float* partial_lse_log2,
                                            const float (&m_smem)[WARPS][16], const float (&l_smem)[WARPS][16],
                                            const unsigned char* smem, int warp_bytes, int num_heads, long long first_row,
                                            int split, int num_splits, bool one_split) {
    for (int i = threadIdx.x; i < num_heads * WIDTH / 4; i += THREADS) {
        const int row = i / (WIDTH / 4), d = i % (WIDTH / 4) * 4;
        float m_block = NEG_INF, l_block = 0.0f;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int w = 0; w < WARPS; ++w) m_block = fmaxf(m_block, m_smem[w][row]);
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            const float alpha = m_smem[w][row] == NEG_INF ? 0.0f : fast_exp2(m_smem[w][row] - m_block);
            const float* sums = reinterpret_cast<const float*>(smem + w * warp_bytes);
            const float4 part = *reinterpret_cast<const float4*>(sums + row * STRIDE + d);
            l_block += l_smem[w][row] * alpha;
            sum.x += part.x * alpha;
            sum.y += part.y * alpha;
            sum.z += part.z * alpha;
            sum.w += part.w * alpha;
        }
        const float inv_l = l_block > 0.0f ? 1.0f / l_block : 0.0f;
        sum = make_float4(sum.x * inv_l, sum.y * inv_l, sum.z * inv_l, sum.w * inv_l);
        const float lse_log2 = m_block + log2f(l_block);
        if (one_split) {
            store_columns(out + (first_row + row) * WIDTH + d, sum);
            if (d == 0) lse[first_row + row] = lse_log2 * LN_2;
        } else {
            *reinterpret_cast<float4*>(partial_out + ((first_row + row) * num_splits + split) * WIDTH + d) = sum;
            if (d == 0) partial_lse_log2[(first_row + row) * num_splits + split] = lse_log2;
        }
    }
}
// endregion

// region: combine
// Merges the first splits_used >= 2 splits of the group's heads into out and lse. Every one of them has a key.
template <int WIDTH, int THREADS, typename T>
__device__ __forceinline__ void combine_splits(T* out, float* lse, const float* partial_out, const float* partial_lse_log2,
                                               int num_heads, long long first_row, int num_splits, int splits_used) {
    for (int i = threadIdx.x; i < num_heads * WIDTH / 4; i += THREADS) {
        const int row = i / (WIDTH / 4), d = i % (WIDTH / 4) * 4;
        const float* part = partial_out + (first_row + row) * num_splits * WIDTH + d;
        const float* part_lse = partial_lse_log2 + (first_row + row) * num_splits;
        float m_all = NEG_INF, l_all = 0.0f;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (int start = 0; start < splits_used; start += SPLITS_AT_ONCE) {  // the loads of all, then their arithmetic
            float lses[SPLITS_AT_ONCE], m_new = m_all;
            float4 parts[SPLITS_AT_ONCE];
#pragma unroll
            for (int s = 0; s < SPLITS_AT_ONCE; ++s) {  // from L2; the fence of is_last_block orders them, not __ldcg
                const int split = min(start + s, splits_used - 1);
                lses[s] = start + s < splits_used ? __ldcg(part_lse + split) : NEG_INF;
                parts[s] = __ldcg(reinterpret_cast<const float4*>(part + (long long)split * WIDTH));
            }
#pragma unroll
            for (int s = 0; s < SPLITS_AT_ONCE; ++s) m_new = fmaxf(m_new, lses[s]);
            const float alpha = fast_exp2(m_all - m_new);  // m_new is finite
            m_all = m_new;
            l_all *= alpha;
            sum = make_float4(sum.x * alpha, sum.y * alpha, sum.z * alpha, sum.w * alpha);
#pragma unroll
            for (int s = 0; s < SPLITS_AT_ONCE; ++s) {
                const float weight = fast_exp2(lses[s] - m_new);  // exp2(lse_log2) is the l of a whole split
                l_all += weight;
                sum.x += weight * parts[s].x;
                sum.y += weight * parts[s].y;
                sum.z += weight * parts[s].z;
                sum.w += weight * parts[s].w;
            }
        }
        const float inv_l = 1.0f / l_all;
        store_columns(out + (first_row + row) * WIDTH + d,
                      make_float4(sum.x * inv_l, sum.y * inv_l, sum.z * inv_l, sum.w * inv_l));
        if (d == 0) lse[first_row + row] = (m_all + log2f(l_all)) * LN_2;
    }
}
// endregion
