// 04_paged_grouped — decode attention over pages on tensor cores: K and V are read once for all query heads of a group
//
// Idea      decoding waits for memory, so keep memory busy and ask for nothing twice: the query heads of a group are the columns
//           of an mma (a product has 16 rows, for keys, and 8 columns, which a group fills better); every warp has its own ring
//           of tiles under way; the last block of a sequence merges, without a second launch
// Builds on 03_paged_v2 and flash_attention_2/10_heavy_first. Regions of its own: who, pages, start_tile, combine.
// Contract  q, out (B, H, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128 · H = Hkv * NUM_Q_PER_KV, groups of 1 to 16
//           out contiguous · q any stride of batch and head, rows contiguous, at multiples of 16 bytes
//           k_pages, v_pages ELEMENT: page p, slot s, head h begins at p * stride_page + s * stride_slot + h * stride_kv_head
//           (both layouts, NHD and HND, are strides), the same strides for both pools; rows at multiples of 16 bytes
//           block_table (B, max_pages) int · seq_lens (B,) int, 0 to max_pages * page_size
//           lse (B, H) float, natural log · seq_len 0: out 0, lse -inf · softmax_scale > 0
//           only the first seq_len slots are read; the other entries of the sequence's row of the table may hold anything
//           partial_out (B, H, num_splits, D), partial_lse_log2 (B, H, num_splits) float: scratch of any content
//           counters (B, Hkv) int: 0 before the launch, and 0 again behind it
//           num_splits * split_len >= the largest seq_len
// Launch    grid (B * num_splits * Hkv) · block 32 * NUM_WARPS · dynamic shared memory
//           NUM_WARPS * NUM_STAGES * 4 * TILE_KEYS * D bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/paged.py: paged_grouped_kernel, reduce_kernel
// gate: -DHEAD_DIM=64 -DELEMENT=__half -DNUM_Q_PER_KV=1
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16 -DNUM_Q_PER_KV=4
// gate: -DHEAD_DIM=128 -DELEMENT=__half -DNUM_Q_PER_KV=16
// Source    T. Dao and others, "Flash-Decoding for long-context inference", 2023, pytorch.org/blog/flash-decoding
//           Z. Ye and others, "FlashInfer", 2025, section 3.2 (query heads of a group as one tile), arXiv:2501.01005
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of q, pages and out; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#ifndef NUM_Q_PER_KV
#error "NUM_Q_PER_KV: query heads of a group; pass -DNUM_Q_PER_KV=1 to 16"
#endif
#include "common/async_copy.cuh"  // cp_async_16_zfill, commit, wait
#include "common/constants.cuh"
#include "common/fast_exp2.cuh"   // fast_exp2
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
#define ACC_STRIDE (HEAD_DIM + 4)              // floats from one row to the next of what a warp leaves behind
#define COMBINE 8  // splits that a thread of the last block reads at a time
#define MAX_GROWTH 8.0f  // 2^8 = 256: how far a weight may exceed 1 before the row is rescaled; half holds 65504
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");
static_assert(NUM_Q_PER_KV >= 1 && NUM_Q_PER_KV <= 16, "a group is the columns of one mma or two");
static_assert(TILE_KEYS == 16 || TILE_KEYS == 32, "one lane knows the page of one key");
static_assert(NUM_Q_PER_KV * ACC_STRIDE * 4 <= NUM_STAGES * 2 * TILE_BYTES, "what a warp leaves behind fits into its ring");

// region: start_tile
// Starts copying one tile of the warp, K then V. `offset` is, in the lane of each key, where its row begins.
__device__ __forceinline__ void start_tile(unsigned char* tile_smem, const ELEMENT* k_pages, const ELEMENT* v_pages,
                                           long long offset, int num_keys) {
    const int lane = threadIdx.x % WARP_SIZE, lane_row = lane / CHUNKS, chunk = lane % CHUNKS;
    const int place = swizzle_offset<ROW_BYTES>(lane_row, chunk);
#pragma unroll
    for (int row = 0; row < TILE_KEYS; row += COPY_ROWS) {
        const long long at = __shfl_sync(ALL_LANES, offset, row + lane_row) + chunk * CHUNK;
        const int bytes = row + lane_row < num_keys ? 16 : 0;  // at 0 bytes nothing is read: what is missing becomes 0
        unsigned char* dst_smem = tile_smem + row * ROW_BYTES + (place ^ (row % 8 * 16));
        cp_async_16_zfill(dst_smem, k_pages + at, bytes);
        cp_async_16_zfill(dst_smem + TILE_BYTES, v_pages + at, bytes);
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, BLOCKS_PER_SM)
paged_grouped_kernel(const ELEMENT* q, const ELEMENT* k_pages, const ELEMENT* v_pages, const int* block_table,
                     const int* seq_lens, ELEMENT* out, float* lse, float* partial_out, float* partial_lse_log2, int* counters,
                     int num_kv_heads, int page_size, int max_pages, int num_splits, int split_len,
                     long long stride_q_batch, long long stride_q_head, long long stride_page, long long stride_slot,
                     long long stride_kv_head, float softmax_scale_log2) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ float m_smem[NUM_WARPS][16], l_smem[NUM_WARPS][16];
    __shared__ int last_smem;
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    unsigned char* ring_smem = smem + warp * NUM_STAGES * 2 * TILE_BYTES;  // (NUM_STAGES, K and V, TILE_KEYS, HEAD_DIM)
    // region: who
    const int kv_head = blockIdx.x % num_kv_heads;  // neighbours in a page are read at the same time
    const int split = blockIdx.x / num_kv_heads % num_splits;
    const long long batch = blockIdx.x / num_kv_heads / num_splits;
    const int first = split * split_len;
    // This lane's key of the tile whose page is looked up next. The first is looked up before it is known to exist, so that
    // the answer does not wait for seq_len: a key that is none is copied as 0 bytes, whatever its table entry says.
    block_table += batch * max_pages;
    int ahead = first + warp * TILE_KEYS + lane % TILE_KEYS;
    int page = block_table[min(ahead / page_size, max_pages - 1)], slot = ahead % page_size;
    const int seq_len = seq_lens[batch], end = min(seq_len, first + split_len);  // the keys of this block: first to end
    if (split > 0 && first >= seq_len) return;                                   // the first block answers for an empty sequence
    const int splits_here = max(1, CEIL_DIV(seq_len, split_len));
    const int num_tiles = max(0, CEIL_DIV(end - first, TILE_KEYS) - warp + NUM_WARPS - 1) / NUM_WARPS;  // of this warp
    // endregion

    // region: pages
    k_pages += kv_head * stride_kv_head;
    v_pages += kv_head * stride_kv_head;
    int to_start = 0;  // tiles of this warp that have been started
    // region: next_tile
    // Starts the next tile, and looks up the page of the one behind it: the answer has a whole tile's time to come.
    auto next_tile = [&]() {
        if (to_start < num_tiles) {
            start_tile(ring_smem + to_start % NUM_STAGES * 2 * TILE_BYTES, k_pages, v_pages,
                       page * stride_page + slot * stride_slot, end - first - (to_start * NUM_WARPS + warp) * TILE_KEYS);
            ++to_start;
            ahead += NUM_WARPS * TILE_KEYS;
            page = block_table[min(ahead / page_size, max_pages - 1)];
            slot = ahead % page_size;
        }
        cp_async_commit_group();
    };
    // endregion
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
        // region: product
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

        // region: weighted_sum
#pragma unroll
        for (int j = 0; j < TILE_KEYS / 16; ++j) {
            // region: turn
            unsigned probs_reg[COL_TILES][2];  // of keys 0-7 and 8-15: head g, keys 2 t and 2 t + 1
#pragma unroll
            for (int c = 0; c < COL_TILES; ++c) {
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    probs_reg[c][r] = movmatrix_trans(pack_pair(scores[j][c][2 * r], scores[j][c][2 * r + 1], ELEMENT()));
                }
            }
            // endregion
#pragma unroll
            for (int d = 0; d < HEAD_DIM / 16; ++d) {
                unsigned v_reg[4];
                ldmatrix_x4_trans(v_reg[0], v_reg[2], v_reg[1], v_reg[3],
                                  v_smem + (lane_at ^ (d % 4 * 32)) + d / 4 * 128 + j * 16 * ROW_BYTES);
#pragma unroll
                for (int c = 0; c < COL_TILES; ++c) mma_m16n8k16(acc[d][c], v_reg, probs_reg[c], ELEMENT());
            }
        }
        // endregion
    }

    // region: merge
    // The warps saw different keys: each leaves m, l and its sums in the place of its first tiles. No copy is under way: the
    // walk's last wait was for the last tile.
    float* acc_smem = reinterpret_cast<float*>(ring_smem);  // (NUM_Q_PER_KV, ACC_STRIDE) of each warp
    __syncwarp();  // separates the last reads of the warp's tiles from the sums in their place
#pragma unroll
    for (int c = 0; c < COL_TILES; ++c) {
#pragma unroll
        for (int s = 0; s < 2; ++s) {
            const int head = 8 * c + lane % 4 * 2 + s;
            for (int other = 4; other < WARP_SIZE; other *= 2) l[c][s] += __shfl_xor_sync(ALL_LANES, l[c][s], other);
            if (lane < 4) {
                m_smem[warp][head] = m[c][s];
                l_smem[warp][head] = l[c][s];
            }
            if (head < NUM_Q_PER_KV) {
#pragma unroll
                for (int d = 0; d < HEAD_DIM / 16; ++d) {
                    acc_smem[head * ACC_STRIDE + d * 16 + lane / 4] = acc[d][c][s];
                    acc_smem[head * ACC_STRIDE + d * 16 + lane / 4 + 8] = acc[d][c][s + 2];
                }
            }
        }
    }
    __syncthreads();  // separates the warps' sums from everybody's read of them
    // endregion

    // region: store
    const long long out_row = batch * heads + kv_head * NUM_Q_PER_KV;  // of the group's first head
    for (int i = threadIdx.x; i < NUM_Q_PER_KV * HEAD_DIM / 4; i += NUM_THREADS) {
        const int row = i / (HEAD_DIM / 4), d = i % (HEAD_DIM / 4) * 4;
        float m_block = NEG_INF, l_block = 0.0f;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int w = 0; w < NUM_WARPS; ++w) m_block = fmaxf(m_block, m_smem[w][row]);
#pragma unroll
        for (int w = 0; w < NUM_WARPS; ++w) {
            const float alpha = m_smem[w][row] == NEG_INF ? 0.0f : fast_exp2(m_smem[w][row] - m_block);
            const float* sums = reinterpret_cast<const float*>(smem + w * NUM_STAGES * 2 * TILE_BYTES);
            const float4 part = *reinterpret_cast<const float4*>(sums + row * ACC_STRIDE + d);
            l_block += l_smem[w][row] * alpha;
            sum.x += part.x * alpha;
            sum.y += part.y * alpha;
            sum.z += part.z * alpha;
            sum.w += part.w * alpha;
        }
        const float inv_l = l_block > 0.0f ? 1.0f / l_block : 0.0f;
        sum = make_float4(sum.x * inv_l, sum.y * inv_l, sum.z * inv_l, sum.w * inv_l);
        const float lse_log2 = m_block + log2f(l_block);  // -inf + log2(0) for an empty sequence
        if (splits_here == 1) {
            uint2 packed;
            packed.x = pack_pair(sum.x, sum.y, ELEMENT());
            packed.y = pack_pair(sum.z, sum.w, ELEMENT());
            *reinterpret_cast<uint2*>(out + (out_row + row) * HEAD_DIM + d) = packed;
            if (d == 0) lse[out_row + row] = lse_log2 * LN_2;
        } else {
            *reinterpret_cast<float4*>(partial_out + ((out_row + row) * num_splits + split) * HEAD_DIM + d) = sum;
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
