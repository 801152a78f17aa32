// 04_grouped_heads — decode attention on tensor cores: K and V are read once for all query heads of a group
//
// Idea      the query heads of a group read the same keys, so let one block serve them all: keys are the rows of an mma, heads
//           its columns; and every warp keeps its own ring of tiles under way, because decoding waits for memory alone
// Builds on 03_fused_combine (splits, last, combine) and flash_attention_2/10_heavy_first. Regions of its own: start_tile, load_q,
//           wait, scores, hide, softmax, probs, weighted_sum. paged/04_paged_grouped is this kernel over pages.
// Contract  q, out (B, H, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128 · H = Hkv * NUM_Q_PER_KV, groups of 1 to 16
//           out contiguous · q any stride of batch and head, rows contiguous, at multiples of 16 bytes
//           k, v ELEMENT: sequence b, token t, head h begins at b * stride_kv_batch + t * stride_kv_token + h * stride_kv_head
//           (any layout), the same strides for both; rows contiguous, at multiples of 16 bytes
//           seq_lens (B,) int, 0 to the tokens there is room for · lse (B, H) float, natural log · softmax_scale > 0
//           seq_len 0: out 0, lse -inf · what lies behind seq_len is not read and may be anything
//           partial_out (B, H, num_splits, D), partial_lse_log2 (B, H, num_splits) float: scratch of any content
//           counters (B, Hkv) int: 0 before the launch, and 0 again behind it
//           num_splits * split_len >= the largest seq_len
// Launch    grid (B * num_splits * Hkv) · block 32 * NUM_WARPS · dynamic shared memory
//           NUM_WARPS * NUM_STAGES * 4 * TILE_KEYS * D bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/decode.py: grouped_heads_kernel
// gate: -DHEAD_DIM=64 -DELEMENT=__half -DNUM_Q_PER_KV=1
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16 -DNUM_Q_PER_KV=4
// gate: -DHEAD_DIM=128 -DELEMENT=__half -DNUM_Q_PER_KV=16
// Source    T. Dao and others, "Flash-Decoding for long-context inference", 2023, pytorch.org/blog/flash-decoding
//           Z. Ye and others, "FlashInfer", 2025, section 3.2 (the query heads of a group in one tile), arXiv:2501.01005
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of q, k, v and out; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#ifndef NUM_Q_PER_KV
#error "NUM_Q_PER_KV: query heads of a group; pass -DNUM_Q_PER_KV=1 to 16"
#endif
#include "common/async_copy.cuh"  // cp_async_16_zfill, commit, wait
#include "common/constants.cuh"
#include "common/fast_exp2.cuh"   // fast_exp2
#include "common/half_chunk.cuh"  // rounded
#include "common/half_types.cuh"  // mma_m16n8k16 and pack_pair for either type; ldmatrix
#include "common/movmatrix.cuh"   // movmatrix_trans
#include "common/swizzle.cuh"     // swizzle_offset<row bytes>(row, chunk)
#ifndef TILE_KEYS
#define TILE_KEYS 16  // keys that a warp works on at a time: 16 or 32
#endif
#ifndef NUM_STAGES
#define NUM_STAGES 3  // tiles in a warp's ring: one is being multiplied, the others are under way
#endif
#ifndef NUM_WARPS
#define NUM_WARPS 4
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 2
#endif
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)
#define CHUNK 8                         // elements in 16 bytes: what cp.async and ldmatrix take at once
#define CHUNKS (HEAD_DIM / CHUNK)       // in a row
#define ROW_BYTES (HEAD_DIM * 2)
#define COPY_ROWS (WARP_SIZE / CHUNKS)  // rows that a warp copies in one go: 2 or 4
#define TILE_BYTES (TILE_KEYS * ROW_BYTES)
#define COL_TILES (NUM_Q_PER_KV > 8 ? 2 : 1)  // heads are the columns of every product, 8 at a time
#define ACC_STRIDE (HEAD_DIM + 4)  // floats from one row to the next of what a warp leaves behind
#define COMBINE 8  // splits that a thread of the last block reads at a time
#define MAX_GROWTH 8.0f  // 2^8 = 256: how far a weight may exceed 1 before the row is rescaled; half holds 65504
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");
static_assert(NUM_Q_PER_KV >= 1 && NUM_Q_PER_KV <= 16, "a group is one or two tiles of 8 columns");
static_assert(TILE_KEYS == 16 || TILE_KEYS == 32, "a tile is one or two products wide");
static_assert(NUM_Q_PER_KV * ACC_STRIDE * 4 <= NUM_STAGES * 2 * TILE_BYTES, "what a warp leaves behind fits into its ring");

// region: start_tile
// Starts copying one tile of the warp: TILE_KEYS rows of K and of V, of which the first num_keys exist.
__device__ __forceinline__ void start_tile(unsigned char* tile_smem, const ELEMENT* k, const ELEMENT* v,
                                           long long stride_kv_token, int num_keys) {
    const int lane = threadIdx.x % WARP_SIZE, lane_row = lane / CHUNKS, chunk = lane % CHUNKS;
    const int place = swizzle_offset<ROW_BYTES>(lane_row, chunk);
#pragma unroll
    for (int row = 0; row < TILE_KEYS; row += COPY_ROWS) {
        const long long at = (row + lane_row) * stride_kv_token + chunk * CHUNK;
        const int bytes = row + lane_row < num_keys ? 16 : 0;  // at 0 bytes nothing is read: what is missing becomes 0
        unsigned char* dst_smem = tile_smem + row * ROW_BYTES + (place ^ (row % 8 * 16));
        cp_async_16_zfill(dst_smem, k + at, bytes);
        cp_async_16_zfill(dst_smem + TILE_BYTES, v + at, bytes);
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, BLOCKS_PER_SM)
grouped_heads_kernel(const ELEMENT* q, const ELEMENT* k, const ELEMENT* v, const int* seq_lens, ELEMENT* out, float* lse,
                     float* partial_out, float* partial_lse_log2, int* counters, int num_kv_heads, int num_splits,
                     int split_len, long long stride_q_batch, long long stride_q_head, long long stride_kv_batch,
                     long long stride_kv_token, long long stride_kv_head, float softmax_scale_log2) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ float m_smem[NUM_WARPS][16], l_smem[NUM_WARPS][16];
    __shared__ int last_smem;
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    unsigned char* ring_smem = smem + warp * NUM_STAGES * 2 * TILE_BYTES;  // (NUM_STAGES, K and V, TILE_KEYS, HEAD_DIM)
    // region: who
    const int kv_head = blockIdx.x % num_kv_heads;  // not a query head: the block serves the whole group
    const int split = blockIdx.x / num_kv_heads % num_splits;
    const long long batch = blockIdx.x / num_kv_heads / num_splits;
    const int first = split * split_len, seq_len = seq_lens[batch];
    const int end = min(seq_len, first + split_len);  // the keys of this block: first to end - 1
    if (split > 0 && first >= seq_len) return;        // nothing to add; the first block answers for an empty sequence
    const int splits_here = max(1, CEIL_DIV(seq_len, split_len));
    const int num_tiles = max(0, CEIL_DIV(end - first, TILE_KEYS) - warp + NUM_WARPS - 1) / NUM_WARPS;  // of this warp
    // endregion

    // region: walk
    // The tiles of a split go round the warps. `behind` counts keys from the warp's next tile to the end of the split.
    int behind = end - first - warp * TILE_KEYS, to_start = 0;
    const long long at = batch * stride_kv_batch + kv_head * stride_kv_head + (first + warp * TILE_KEYS) * stride_kv_token;
    k += at;
    v += at;
    auto next_tile = [&]() {
        if (to_start < num_tiles) {
            start_tile(ring_smem + to_start % NUM_STAGES * 2 * TILE_BYTES, k, v, stride_kv_token, behind);
            ++to_start;
            behind -= NUM_WARPS * TILE_KEYS;
            k += NUM_WARPS * TILE_KEYS * stride_kv_token;
            v += NUM_WARPS * TILE_KEYS * stride_kv_token;
        }
        cp_async_commit_group();
    };
#pragma unroll
    for (int i = 0; i < NUM_STAGES - 1; ++i) next_tile();
    // endregion

    // region: load_q
    unsigned q_reg[HEAD_DIM / 16][COL_TILES][2];  // lane 4 g + t: heads g and g + 8 of the group; a head that is none is 0
    const int heads = num_kv_heads * NUM_Q_PER_KV;
    q += batch * stride_q_batch + kv_head * NUM_Q_PER_KV * stride_q_head + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < HEAD_DIM / 16; ++d) {
#pragma unroll
        for (int c = 0; c < COL_TILES; ++c) {
            const int head = lane / 4 + 8 * c;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                q_reg[d][c][r] = head < NUM_Q_PER_KV
                                     ? *reinterpret_cast<const unsigned*>(q + head * stride_q_head + d * 16 + r * 8)
                                     : 0u;
            }
        }
    }
    float acc[HEAD_DIM / 16][COL_TILES][4] = {};  // rows g and g + 8: columns of V; columns 2 t and 2 t + 1: heads
    float m[COL_TILES][2], l[COL_TILES][2] = {};  // of these heads; m times softmax_scale_log2; l over this lane's own keys
#pragma unroll
    for (int c = 0; c < COL_TILES; ++c) m[c][0] = m[c][1] = NEG_INF;
    const int lane_at = swizzle_offset<ROW_BYTES>(lane % 16, lane / 16);  // where this lane's row begins for ldmatrix
    // endregion

    for (int i = 0; i < num_tiles; ++i) {
        // region: wait
        cp_async_wait_group<NUM_STAGES - 2>();  // the oldest tile: what this lane copied is there
        __syncwarp();                           // and what the others copied; nobody reads the tile before any more
        next_tile();                            // into the place of the tile before
        const unsigned char* k_smem = ring_smem + i % NUM_STAGES * 2 * TILE_BYTES;
        const unsigned char* v_smem = k_smem + TILE_BYTES;
        // endregion

        // region: scores
        float scores[TILE_KEYS / 16][COL_TILES][4] = {};  // k q^T without the scale: rows g and g + 8 are keys
#pragma unroll
        for (int d = 0; d < HEAD_DIM / 16; ++d) {
#pragma unroll
            for (int j = 0; j < TILE_KEYS / 16; ++j) {
                unsigned k_reg[4];
                ldmatrix_x4(k_reg[0], k_reg[1], k_reg[2], k_reg[3],
                            k_smem + (lane_at ^ (d % 4 * 32)) + d / 4 * 128 + j * 16 * ROW_BYTES);
#pragma unroll
                for (int c = 0; c < COL_TILES; ++c) mma_m16n8k16(scores[j][c], k_reg, q_reg[d][c], ELEMENT());
            }
        }
        // endregion
        // region: hide
        const int limit = end - first - (i * NUM_WARPS + warp) * TILE_KEYS - lane / 4;  // key 16 j + 8 r + g exists below it
        if (limit < TILE_KEYS) {
#pragma unroll
            for (int j = 0; j < TILE_KEYS / 16; ++j) {
#pragma unroll
                for (int c = 0; c < COL_TILES; ++c) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        if (16 * j + e / 2 * 8 >= limit) scores[j][c][e] = NEG_INF;
                    }
                }
            }
        }
        // endregion

        // region: softmax
        bool outgrown = false;
        float m_lane[COL_TILES][2];
#pragma unroll
        for (int c = 0; c < COL_TILES; ++c) {
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                m_lane[c][s] = NEG_INF;
#pragma unroll
                for (int j = 0; j < TILE_KEYS / 16; ++j) {
                    m_lane[c][s] = fmaxf(m_lane[c][s], fmaxf(scores[j][c][s], scores[j][c][s + 2]));
                }
                outgrown |= m_lane[c][s] * softmax_scale_log2 - m[c][s] > MAX_GROWTH;  // false for -inf minus -inf
            }
        }
        if (__any_sync(ALL_LANES, outgrown)) {  // as in 10_heavy_first: any m near the maximum will do
#pragma unroll
            for (int c = 0; c < COL_TILES; ++c) {
#pragma unroll
                for (int s = 0; s < 2; ++s) {
                    float m_new = m_lane[c][s];  // eight lanes share a head
                    for (int other = 4; other < WARP_SIZE; other *= 2) {
                        m_new = fmaxf(m_new, __shfl_xor_sync(ALL_LANES, m_new, other));
                    }
                    m_new = fmaxf(m[c][s], m_new * softmax_scale_log2);
                    const float alpha = m_new == NEG_INF ? 1.0f : fast_exp2(m[c][s] - m_new);
                    m[c][s] = m_new;
                    l[c][s] *= alpha;
#pragma unroll
                    for (int d = 0; d < HEAD_DIM / 16; ++d) {
                        acc[d][c][s] *= alpha;
                        acc[d][c][s + 2] *= alpha;
                    }
                }
            }
        }
#pragma unroll
        for (int j = 0; j < TILE_KEYS / 16; ++j) {
#pragma unroll
            for (int c = 0; c < COL_TILES; ++c) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {  // the first key of a tile exists, so m is finite
                    scores[j][c][e] = fast_exp2(scores[j][c][e] * softmax_scale_log2 - m[c][e % 2]);
                    l[c][e % 2] += scores[j][c][e];
                }
            }
        }
        // endregion

#pragma unroll
        for (int j = 0; j < TILE_KEYS / 16; ++j) {
            // region: probs
            unsigned probs_reg[COL_TILES][2];  // of keys 0-7 and 8-15: head g, keys 2 t and 2 t + 1
#pragma unroll
            for (int c = 0; c < COL_TILES; ++c) {
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    probs_reg[c][r] = movmatrix_trans(pack_pair(scores[j][c][2 * r], scores[j][c][2 * r + 1], ELEMENT()));
                }
            }
            // endregion
            // region: weighted_sum
#pragma unroll
            for (int d = 0; d < HEAD_DIM / 16; ++d) {
                unsigned v_reg[4];
                ldmatrix_x4_trans(v_reg[0], v_reg[2], v_reg[1], v_reg[3],
                                  v_smem + (lane_at ^ (d % 4 * 32)) + d / 4 * 128 + j * 16 * ROW_BYTES);
#pragma unroll
                for (int c = 0; c < COL_TILES; ++c) mma_m16n8k16(acc[d][c], v_reg, probs_reg[c], ELEMENT());
            }
            // endregion
        }
    }

    // region: merge
    // The warps saw different keys: each leaves m and l, then its sums seen from the block's m.
#pragma unroll
    for (int c = 0; c < COL_TILES; ++c) {
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            for (int other = 4; other < WARP_SIZE; other *= 2) l[c][s] += __shfl_xor_sync(ALL_LANES, l[c][s], other);
            if (lane < 4) {
                m_smem[warp][8 * c + 2 * lane + s] = m[c][s];
                l_smem[warp][8 * c + 2 * lane + s] = l[c][s];
            }
        }
    }
    cp_async_wait_all();
    __syncthreads();  // separates the warps' m from everybody's read of it, and the last tiles from the sums in their place
    float* acc_smem = reinterpret_cast<float*>(ring_smem);  // (NUM_Q_PER_KV, ACC_STRIDE) of each warp
#pragma unroll
    for (int c = 0; c < COL_TILES; ++c) {
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            const int head = 8 * c + lane % 4 * 2 + s;
            float m_block = NEG_INF;
#pragma unroll
            for (int w = 0; w < NUM_WARPS; ++w) m_block = fmaxf(m_block, m_smem[w][head]);
            const float alpha = m[c][s] == NEG_INF ? 0.0f : fast_exp2(m[c][s] - m_block);
            if (head < NUM_Q_PER_KV) {
#pragma unroll
                for (int d = 0; d < HEAD_DIM / 16; ++d) {
                    acc_smem[head * ACC_STRIDE + d * 16 + lane / 4] = acc[d][c][s] * alpha;
                    acc_smem[head * ACC_STRIDE + d * 16 + lane / 4 + 8] = acc[d][c][s + 2] * alpha;
                }
            }
        }
    }
    __syncthreads();  // separates the warps' sums from everybody's read of them
    // endregion

    // region: store
    const long long out_row = batch * heads + kv_head * NUM_Q_PER_KV;  // of the group's first head
    for (int i = threadIdx.x; i < NUM_Q_PER_KV * HEAD_DIM; i += NUM_THREADS) {
        const int row = i / HEAD_DIM, d = i % HEAD_DIM;
        float m_block = NEG_INF, l_block = 0.0f, sum = 0.0f;
#pragma unroll
        for (int w = 0; w < NUM_WARPS; ++w) m_block = fmaxf(m_block, m_smem[w][row]);
#pragma unroll
        for (int w = 0; w < NUM_WARPS; ++w) {
            l_block += m_smem[w][row] == NEG_INF ? 0.0f : l_smem[w][row] * fast_exp2(m_smem[w][row] - m_block);
            sum += reinterpret_cast<const float*>(smem + w * NUM_STAGES * 2 * TILE_BYTES)[row * ACC_STRIDE + d];
        }
        sum *= l_block > 0.0f ? 1.0f / l_block : 0.0f;
        const float lse_log2 = m_block + log2f(l_block);  // -inf + log2(0) for an empty sequence
        if (splits_here == 1) {
            out[(out_row + row) * HEAD_DIM + d] = rounded(sum, ELEMENT());
            if (d == 0) lse[out_row + row] = lse_log2 * LN_2;
        } else {
            partial_out[((out_row + row) * num_splits + split) * HEAD_DIM + d] = sum;
            if (d == 0) partial_lse_log2[(out_row + row) * num_splits + split] = lse_log2;
        }
    }
    if (splits_here == 1) return;
    // endregion

    // region: last
    __threadfence();  // this thread's part is visible to every block before the block counts itself
    __syncthreads();  // separates everybody's part, and every read of smem, from what follows
    if (threadIdx.x == 0) {
        last_smem = atomicAdd(&counters[batch * num_kv_heads + kv_head], 1) == splits_here - 1;
    }
    __syncthreads();  // separates the write of last_smem from everybody's read of it
    if (!last_smem) return;
    __threadfence();  // what the other blocks had made visible is read below, not before
    if (threadIdx.x == 0) counters[batch * num_kv_heads + kv_head] = 0;  // ready for the next launch
    // endregion

    // region: combine
    for (int i = threadIdx.x; i < NUM_Q_PER_KV * HEAD_DIM / 4; i += NUM_THREADS) {
        const int row = i / (HEAD_DIM / 4), d = i % (HEAD_DIM / 4) * 4;
        const float* part = partial_out + (out_row + row) * num_splits * HEAD_DIM + d;
        const float* part_lse = partial_lse_log2 + (out_row + row) * num_splits;
        float m_all = NEG_INF, l_all = 0.0f;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (int start = 0; start < splits_here; start += COMBINE) {  // COMBINE loads under way, then their arithmetic
            float lses[COMBINE], m_new = m_all;
            float4 parts[COMBINE];
#pragma unroll
            for (int s = 0; s < COMBINE; ++s) {
                const int at = min(start + s, splits_here - 1);
                lses[s] = start + s < splits_here ? __ldcg(part_lse + at) : NEG_INF;
                parts[s] = __ldcg(reinterpret_cast<const float4*>(part + (long long)at * HEAD_DIM));
            }
#pragma unroll
            for (int s = 0; s < COMBINE; ++s) m_new = fmaxf(m_new, lses[s]);
            const float alpha = fast_exp2(m_all - m_new);  // every split has a key, so m_new is finite
            m_all = m_new;
            l_all *= alpha;
            sum = make_float4(sum.x * alpha, sum.y * alpha, sum.z * alpha, sum.w * alpha);
#pragma unroll
            for (int s = 0; s < COMBINE; ++s) {
                const float weight = fast_exp2(lses[s] - m_new);  // of a whole split: exp2(lse_log2) is its l
                l_all += weight;
                sum.x += weight * parts[s].x;
                sum.y += weight * parts[s].y;
                sum.z += weight * parts[s].z;
                sum.w += weight * parts[s].w;
            }
        }
        const float inv_l = 1.0f / l_all;
        uint2 packed;
        packed.x = pack_pair(sum.x * inv_l, sum.y * inv_l, ELEMENT());
        packed.y = pack_pair(sum.z * inv_l, sum.w * inv_l, ELEMENT());
        *reinterpret_cast<uint2*>(out + (out_row + row) * HEAD_DIM + d) = packed;
        if (d == 0) lse[out_row + row] = (m_all + log2f(l_all)) * LN_2;
    }
    // endregion
}
