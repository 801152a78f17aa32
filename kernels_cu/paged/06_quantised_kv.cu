// 06_quantised_kv — decode attention over pages whose keys and values have one byte each
//
// Idea      decoding takes as long as reading the cache takes, so a cache of half the bytes takes half as long; the bytes become
//           halves in registers, on their way from shared memory to the tensor cores, and the scales meet scores and weights
// Builds on 04_paged_grouped. Changed regions: start_tile (the scales come along), scores and weighted_sum (bytes to halves).
// Contract  as 04_paged_grouped, except for the pools and the arithmetic:
//           k_pages, v_pages KV (char: int8, or __nv_fp8_e4m3), rows at multiples of 16 bytes · a number denotes itself times
//           its scale
//           k_scales, v_scales float: that of page p, slot s, head h at p * stride_scale_page + s * stride_scale_slot +
//           h * stride_scale_head; strides 0 for pages and slots are one scale a head
//           products in half precision with float sums, for either ELEMENT of q and out: |q| < 65504, 1e-4 <= v_scale <= 100
// Launch    as 04_paged_grouped, with NUM_WARPS * NUM_STAGES * (2 * TILE_KEYS * D + 8 * TILE_KEYS) bytes of rings
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/paged_quantised.py: quantised_kv_kernel · triton_kernels/paged.py: reduce_kernel
// gate: -DHEAD_DIM=64 -DELEMENT=__half -DKV=char -DNUM_Q_PER_KV=1
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16 -DKV=__nv_fp8_e4m3 -DNUM_Q_PER_KV=4
// gate: -DHEAD_DIM=128 -DELEMENT=__half -DKV=char -DNUM_Q_PER_KV=16
// Source    P. Micikevicius and others, "FP8 Formats for Deep Learning", 2022, arXiv:2209.05433
#ifndef NUM_Q_PER_KV
#error "NUM_Q_PER_KV: query heads of a group; pass -DNUM_Q_PER_KV=1 to 16"
#endif
#ifndef KV
#error "KV: type of the pages; pass -DKV=char (int8) or __nv_fp8_e4m3"
#endif
#include "common/async_copy.cuh"         // cp_async_16_zfill, commit, wait
#include "common/attention_bytes.cuh"    // the products with bytes
#include "common/attention_columns.cuh"  // the products, the mask and the softmax of a tile
#include "common/attention_macros.cuh"   // HEAD_DIM, ELEMENT
#include "common/constants.cuh"
#include "common/decode_merge.cuh"       // leave_state, store_split, is_last_block, combine_splits
#include "common/swizzle.cuh"            // swizzle_offset<row bytes>(row, chunk)
#ifndef TILE_KEYS
#define TILE_KEYS 32  // keys that a warp works on at a time: 16 or 32
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
#define CHUNK 16                        // numbers in 16 bytes: what cp.async and ldmatrix take at once
#define CHUNKS (HEAD_DIM / CHUNK)       // in a row
#define ROW_BYTES HEAD_DIM
#define COPY_ROWS (WARP_SIZE / CHUNKS)  // rows that a warp copies in one pass: 4 or 8
#define TILE_BYTES (TILE_KEYS * ROW_BYTES)
#define KEY_TILES (TILE_KEYS / 16)
#define STAGE_BYTES (2 * TILE_BYTES + 8 * TILE_KEYS)  // K, V, the scales of K, the scales of V
#define COL_TILES (NUM_Q_PER_KV > 8 ? 2 : 1)  // heads are the columns of every product, 8 at a time
#define ACC_STRIDE (HEAD_DIM + 8)              // floats from one row to the next of a warp's sums in shared memory
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");
static_assert(NUM_Q_PER_KV >= 1 && NUM_Q_PER_KV <= 16, "a group is the columns of one mma or two");
static_assert(NUM_Q_PER_KV * ACC_STRIDE * 4 <= NUM_STAGES * STAGE_BYTES, "the sums of a warp fit into its ring");

// region: start_tile
// Starts copying one tile of the warp: K, V and their scales. `offset` is, in the lane of each key, where its row begins,
// `scale_offset` where its scales are.
__device__ __forceinline__ void start_tile(unsigned char* tile_smem, const KV* k_pages, const KV* v_pages, long long offset,
                                           const float* k_scales, const float* v_scales, long long scale_offset,
                                           int num_keys) {
    const int lane = threadIdx.x % WARP_SIZE, lane_row = lane / CHUNKS, chunk = lane % CHUNKS;
    const int lane_offset = swizzle_offset<ROW_BYTES>(lane_row, chunk);
#pragma unroll
    for (int row = 0; row < TILE_KEYS; row += COPY_ROWS) {
        const long long chunk_offset = __shfl_sync(ALL_LANES, offset, row + lane_row) + chunk * CHUNK;
        const int bytes = row + lane_row < num_keys ? 16 : 0;  // at 0 bytes nothing is read: rows past the end become 0
        unsigned char* dst_smem = tile_smem + row * ROW_BYTES + (lane_offset ^ (row % 8 * 16));
        cp_async_16_zfill(dst_smem, k_pages + chunk_offset, bytes);
        cp_async_16_zfill(dst_smem + TILE_BYTES, v_pages + chunk_offset, bytes);
    }
    float* scale_smem = reinterpret_cast<float*>(tile_smem + 2 * TILE_BYTES);  // those of K, those of V
    const int bytes = lane % TILE_KEYS < num_keys ? 4 : 0;
#pragma unroll
    for (int i = lane; i < 2 * TILE_KEYS; i += WARP_SIZE) {
        cp_async_4_zfill(scale_smem + i, (i < TILE_KEYS ? k_scales : v_scales) + scale_offset, bytes);
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, BLOCKS_PER_SM)
quantised_kv_kernel(const ELEMENT* q, const KV* k_pages, const KV* v_pages, const float* k_scales, const float* v_scales,
                    const int* block_table, const int* seq_lens, ELEMENT* out, float* lse, float* partial_out,
                    float* partial_lse_log2, int* counters, int num_kv_heads, int page_size, int max_pages, int num_splits,
                    int split_len, long long stride_q_batch, long long stride_q_head, long long stride_page,
                    long long stride_slot, long long stride_kv_head, long long stride_scale_page, long long stride_scale_slot,
                    long long stride_scale_head, float softmax_scale_log2) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ float m_smem[NUM_WARPS][16], l_smem[NUM_WARPS][16];  // (NUM_WARPS, 16): of each warp and head
    __shared__ int last_smem;
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    unsigned char* ring_smem = smem + warp * NUM_STAGES * STAGE_BYTES;
    // region: who
    const int kv_head = blockIdx.x % num_kv_heads;  // neighbours in a page are read at the same time
    const int split = blockIdx.x / num_kv_heads % num_splits;
    const long long batch = blockIdx.x / num_kv_heads / num_splits;
    const int first = split * split_len;
    // next_key: this lane's key of the tile whose page is looked up next. The first look-up does not wait for seq_len: a key past
    // the end is copied as 0 bytes, whatever its table entry.
    block_table += batch * max_pages;
    int next_key = first + warp * TILE_KEYS + lane % TILE_KEYS;
    int page = block_table[min(next_key / page_size, max_pages - 1)], slot = next_key % page_size;
    const int seq_len = seq_lens[batch], end = min(seq_len, first + split_len);  // the keys of this block: first to end
    if (split > 0 && first >= seq_len) return;                                   // the first block stores an empty sequence's result
    const int splits_here = max(1, CEIL_DIV(seq_len, split_len));
    const int num_tiles = max(0, CEIL_DIV(end - first, TILE_KEYS) - warp + NUM_WARPS - 1) / NUM_WARPS;  // of this warp
    // endregion

    // region: pages
    k_pages += kv_head * stride_kv_head;
    v_pages += kv_head * stride_kv_head;
    k_scales += kv_head * stride_scale_head;
    v_scales += kv_head * stride_scale_head;
    int to_start = 0;  // tiles of this warp that have been started
    // Starts the next tile, and looks up the page of the tile after it: the load has a whole tile's time to arrive.
    auto next_tile = [&]() {
        if (to_start < num_tiles) {
            start_tile(ring_smem + to_start % NUM_STAGES * STAGE_BYTES, k_pages, v_pages,
                       page * stride_page + slot * stride_slot, k_scales, v_scales,
                       page * stride_scale_page + slot * stride_scale_slot,
                       end - first - (to_start * NUM_WARPS + warp) * TILE_KEYS);
            ++to_start;
            next_key += NUM_WARPS * TILE_KEYS;
            page = block_table[min(next_key / page_size, max_pages - 1)];
            slot = next_key % page_size;
        }
        cp_async_commit_group();
    };
#pragma unroll
    for (int i = 0; i < NUM_STAGES - 1; ++i) next_tile();
    // endregion

    // region: load_q
    unsigned q_reg[HEAD_DIM / 16][COL_TILES][2];  // (HEAD_DIM / 16, COL_TILES, 2): lane 4 g + t, heads g and g + 8 of the group
    load_heads_as_half(q_reg, q + batch * stride_q_batch + kv_head * NUM_Q_PER_KV * stride_q_head, stride_q_head,
                       NUM_Q_PER_KV, lane);
    float acc[HEAD_DIM / 16][COL_TILES][4] = {};  // (HEAD_DIM / 16, COL_TILES, 4): columns 2 g and 2 g + 1 of V as rows
    float m[COL_TILES][2], l[COL_TILES][2] = {};  // (COL_TILES, 2): m in units of log2; l over this lane's own keys
#pragma unroll
    for (int c = 0; c < COL_TILES; ++c) m[c][0] = m[c][1] = NEG_INF;
    const int lane_offset = swizzle_offset<ROW_BYTES>(lane % TILE_KEYS, lane / TILE_KEYS);  // chunk c: XOR 16 c
    // endregion

    for (int i = 0; i < num_tiles; ++i) {
        // region: wait
        cp_async_wait_group<NUM_STAGES - 2>();  // this lane's copies of the oldest tile have landed
        __syncwarp();                           // all lanes' copies have, and all lanes are done with the previous tile
        next_tile();                            // into the buffer of the previous tile
        const unsigned char* k_smem = ring_smem + i % NUM_STAGES * STAGE_BYTES;
        const unsigned char* v_smem = k_smem + TILE_BYTES;
        const float* scale_smem = reinterpret_cast<const float*>(v_smem + TILE_BYTES) + lane / 4;  // of key g
        // endregion

        // region: scores
        float scores[KEY_TILES][COL_TILES][4] = {};  // (KEY_TILES, COL_TILES, 4): k q^T with K's scales, without softmax_scale
        multiply_k_q_bytes<KV>(scores, q_reg, k_smem, scale_smem, lane_offset);
        // endregion

        // region: mask
        const int limit = end - first - (i * NUM_WARPS + warp) * TILE_KEYS - lane / 4;  // key 16 j + 8 r + g exists below it
        if (limit < TILE_KEYS) mask_keys(scores, limit);
        // endregion

        lazy_softmax_columns(scores, m, l, acc, softmax_scale_log2);

        multiply_v_p_bytes<KV>(acc, scores, v_smem, scale_smem, lane_offset);
    }

    // region: merge
    // The warps saw different keys: each leaves m, l and its sums where its first tiles were. No copy is under way: the walk's
    // last wait was for the last tile.
    __syncwarp();  // separates the last reads of the warp's tiles from the writes of the sums
    leave_state<ACC_STRIDE, true>(m_smem, l_smem, reinterpret_cast<float*>(ring_smem), acc, m, l, NUM_Q_PER_KV, warp, lane);
    __syncthreads();  // separates the writes of all warps' states from their reads
    // endregion

    // region: store
    const long long out_row = batch * num_kv_heads * NUM_Q_PER_KV + kv_head * NUM_Q_PER_KV;  // of the group's first head
    store_split<HEAD_DIM, ACC_STRIDE, NUM_THREADS>(out, lse, partial_out, partial_lse_log2, m_smem, l_smem, smem,
                                                   NUM_STAGES * STAGE_BYTES, NUM_Q_PER_KV, out_row, split, num_splits,
                                                   splits_here == 1);
    if (splits_here == 1) return;
    // endregion

    // region: last
    if (!is_last_block(&counters[batch * num_kv_heads + kv_head], splits_here, &last_smem)) return;
    // endregion

    // region: combine
    combine_splits<HEAD_DIM, NUM_THREADS>(out, lse, partial_out, partial_lse_log2, NUM_Q_PER_KV, out_row, num_splits, splits_here);
    // endregion
}
