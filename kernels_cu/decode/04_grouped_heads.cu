// 04_grouped_heads — decode attention on tensor cores: K and V are read once for all query heads of a group
//
// Idea      the query heads of a group read the same keys, so let one block serve them all: keys are the rows of an mma, heads
//           its columns; and every warp keeps its own ring of tiles under way, because decoding waits for memory alone
// Builds on 03_fused_combine (splits, last, combine) and flash_attention_2/06_lazy_rescale. Regions of its own: start_tile, walk,
//           load_q, wait, scores, mask, merge. paged/04_paged_grouped is this kernel over pages.
// Contract  q, out (B, H, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128 · H = Hkv * NUM_Q_PER_KV, groups of 1 to 16
//           out contiguous · q any stride of batch and head, rows contiguous, at multiples of 16 bytes
//           k, v ELEMENT: sequence b, token t, head h begins at b * stride_kv_batch + t * stride_kv_token + h * stride_kv_head
//           (any layout), the same strides for both; rows contiguous, at multiples of 16 bytes
//           seq_lens (B,) int, 0 to the tokens there is room for · lse (B, H) float, natural log · softmax_scale > 0
//           seq_len 0: out 0, lse -inf · entries past seq_len are not read and undefined
//           partial_out (B, H, num_splits, D), partial_lse_log2 (B, H, num_splits) float: scratch of any content
//           counters (B, Hkv) int: must be zero on entry; zeroed on exit
//           num_splits * split_len >= the largest seq_len
//           DEPENDENT 1: a dependent of the kernel before (common/dependent_launch.cuh); no kernel in flight may write seq_lens,
//           nor keys and values of a sequence but its last NEW_KEYS
// Launch    grid (B * num_splits * Hkv) · block 32 * NUM_WARPS · dynamic shared memory
//           NUM_WARPS * NUM_STAGES * 4 * TILE_KEYS * D bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/decode.py: grouped_heads_kernel
// gate: -DHEAD_DIM=64 -DELEMENT=__half -DNUM_Q_PER_KV=1
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16 -DNUM_Q_PER_KV=4
// gate: -DHEAD_DIM=128 -DELEMENT=__half -DNUM_Q_PER_KV=16
// gate: -DHEAD_DIM=64 -DELEMENT=__nv_bfloat16 -DNUM_Q_PER_KV=8 -DDEPENDENT=1
// Source    T. Dao and others, "Flash-Decoding for long-context inference", 2023, pytorch.org/blog/flash-decoding
//           Z. Ye and others, "FlashInfer", 2025, section 3.2 (the query heads of a group in one tile), arXiv:2501.01005
#ifndef NUM_Q_PER_KV
#error "NUM_Q_PER_KV: query heads of a group; pass -DNUM_Q_PER_KV=1 to 16"
#endif
#include "common/async_copy.cuh"         // cp_async_16_zfill, commit, wait
#include "common/attention_columns.cuh"  // the products, the mask and the softmax of a tile
#include "common/attention_macros.cuh"   // HEAD_DIM, ELEMENT
#include "common/constants.cuh"
#include "common/decode_merge.cuh"       // leave_state, store_split, is_last_block, combine_splits
#include "common/dependent_launch.cuh"   // griddepcontrol_wait: chapter 13, with -DDEPENDENT=1
#include "common/swizzle.cuh"            // swizzle_offset<row bytes>(row, chunk)
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
#ifndef DEPENDENT
#define DEPENDENT 0  // 1: a block may begin before the kernel in front of this one has ended
#endif
#define NEW_KEYS 8  // of a sequence, which the kernel before may write; the tiles of the others are copied before it has ended
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)
#define CHUNK 8                         // elements in 16 bytes: what cp.async and ldmatrix take at once
#define CHUNKS (HEAD_DIM / CHUNK)       // in a row
#define ROW_BYTES (HEAD_DIM * 2)
#define COPY_ROWS (WARP_SIZE / CHUNKS)  // rows that a warp copies in one pass: 2 or 4
#define TILE_BYTES (TILE_KEYS * ROW_BYTES)
#define COL_TILES (NUM_Q_PER_KV > 8 ? 2 : 1)  // heads are the columns of every product, 8 at a time
#define ACC_STRIDE (HEAD_DIM + 4)  // floats from one row to the next of a warp's sums in shared memory
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");
static_assert(NUM_Q_PER_KV >= 1 && NUM_Q_PER_KV <= 16, "a group is one or two tiles of 8 columns");
static_assert(TILE_KEYS == 16 || TILE_KEYS == 32, "a tile is one or two products wide");
static_assert(NUM_Q_PER_KV * ACC_STRIDE * 4 <= NUM_STAGES * 2 * TILE_BYTES, "the sums of a warp fit into its ring");

// region: start_tile
// Starts copying one tile of the warp: TILE_KEYS rows of K and of V, of which the first num_keys exist.
__device__ __forceinline__ void start_tile(unsigned char* tile_smem, const ELEMENT* k, const ELEMENT* v,
                                           long long stride_kv_token, int num_keys) {
    const int lane = threadIdx.x % WARP_SIZE, lane_row = lane / CHUNKS, chunk = lane % CHUNKS;
    const int lane_offset = swizzle_offset<ROW_BYTES>(lane_row, chunk);
#pragma unroll
    for (int row = 0; row < TILE_KEYS; row += COPY_ROWS) {
        const long long chunk_offset = (row + lane_row) * stride_kv_token + chunk * CHUNK;
        const int bytes = row + lane_row < num_keys ? 16 : 0;  // at 0 bytes nothing is read: rows past the end become 0
        unsigned char* dst_smem = tile_smem + row * ROW_BYTES + (lane_offset ^ (row % 8 * 16));
        cp_async_16_zfill(dst_smem, k + chunk_offset, bytes);
        cp_async_16_zfill(dst_smem + TILE_BYTES, v + chunk_offset, bytes);
    }
}
// endregion

#if DEPENDENT
// Asks for num_keys rows of K and V to come into L2, while the kernel before still runs: a hint, which changes no value.
__device__ __forceinline__ void prefetch_keys(const ELEMENT* k, const ELEMENT* v, long long stride_kv_token, int num_keys) {
    for (int key = threadIdx.x; key < num_keys; key += NUM_THREADS) {
#pragma unroll
        for (int i = 0; i < HEAD_DIM; i += 64) {  // lines of 128 bytes
            prefetch_l2(k + key * stride_kv_token + i);
            prefetch_l2(v + key * stride_kv_token + i);
        }
    }
}
#endif

extern "C" __global__ void __launch_bounds__(NUM_THREADS, BLOCKS_PER_SM)
grouped_heads_kernel(const ELEMENT* q, const ELEMENT* k, const ELEMENT* v, const int* seq_lens, ELEMENT* out, float* lse,
                     float* partial_out, float* partial_lse_log2, int* counters, int num_kv_heads, int num_splits,
                     int split_len, long long stride_q_batch, long long stride_q_head, long long stride_kv_batch,
                     long long stride_kv_token, long long stride_kv_head, float softmax_scale_log2) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ float m_smem[NUM_WARPS][16], l_smem[NUM_WARPS][16];  // (NUM_WARPS, 16): of each warp and head
    __shared__ int last_smem;
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    unsigned char* ring_smem = smem + warp * NUM_STAGES * 2 * TILE_BYTES;  // (NUM_STAGES, K and V, TILE_KEYS, HEAD_DIM)
    // region: who
    const int kv_head = blockIdx.x % num_kv_heads;  // not a query head: the block serves the whole group
    const int split = blockIdx.x / num_kv_heads % num_splits;
    const long long batch = blockIdx.x / num_kv_heads / num_splits;
    const int first = split * split_len, seq_len = seq_lens[batch];
    const int end = min(seq_len, first + split_len);  // the keys of this block: first to end - 1
    if (split > 0 && first >= seq_len) return;        // nothing to add; the first block stores an empty sequence's result
    const int splits_here = max(1, CEIL_DIV(seq_len, split_len));
    const int num_tiles = max(0, CEIL_DIV(end - first, TILE_KEYS) - warp + NUM_WARPS - 1) / NUM_WARPS;  // of this warp
    // endregion
#if DEPENDENT
    const long long first_key = batch * stride_kv_batch + kv_head * stride_kv_head + first * stride_kv_token;
    prefetch_keys(k + first_key, v + first_key, stride_kv_token, end - first);
#endif

    // region: walk
    // The tiles of a split go round the warps. `remaining` counts the keys from the warp's next tile to the end of the split.
    int remaining = end - first - warp * TILE_KEYS, to_start = 0;
    const long long start = batch * stride_kv_batch + kv_head * stride_kv_head + (first + warp * TILE_KEYS) * stride_kv_token;
    k += start;
    v += start;
    auto next_tile = [&]() {
        if (to_start < num_tiles) {
            start_tile(ring_smem + to_start % NUM_STAGES * 2 * TILE_BYTES, k, v, stride_kv_token, remaining);
            ++to_start;
            remaining -= NUM_WARPS * TILE_KEYS;
            k += NUM_WARPS * TILE_KEYS * stride_kv_token;
            v += NUM_WARPS * TILE_KEYS * stride_kv_token;
        }
        cp_async_commit_group();
    };
    int num_started = 0;
#if DEPENDENT
    const int old_tiles = max(0, min(end, seq_len - NEW_KEYS) - first) / TILE_KEYS;  // of the block, without a new key
    const int num_early = min(NUM_STAGES - 1, max(0, old_tiles - warp + NUM_WARPS - 1) / NUM_WARPS);
    for (; num_started < num_early; ++num_started) next_tile();
    griddepcontrol_launch_dependents();  // few blocks run here: the next kernel may begin to ask for its weights
    griddepcontrol_wait();  // q, the newest keys and the newest values are of the kernel before
#endif
    for (; num_started < NUM_STAGES - 1; ++num_started) next_tile();
    // endregion

    // region: load_q
    unsigned q_reg[HEAD_DIM / 16][COL_TILES][2];  // (HEAD_DIM / 16, COL_TILES, 2): lane 4 g + t, heads g and g + 8 of the group
    load_heads(q_reg, q + batch * stride_q_batch + kv_head * NUM_Q_PER_KV * stride_q_head, stride_q_head, NUM_Q_PER_KV, lane);
    float acc[HEAD_DIM / 16][COL_TILES][4] = {};  // (HEAD_DIM / 16, COL_TILES, 4): columns of V as rows, heads as columns
    float m[COL_TILES][2], l[COL_TILES][2] = {};  // (COL_TILES, 2): m in units of log2; l over this lane's own keys
#pragma unroll
    for (int c = 0; c < COL_TILES; ++c) m[c][0] = m[c][1] = NEG_INF;
    const int lane_offset = swizzle_offset<ROW_BYTES>(lane % 16, lane / 16);  // where this lane's row begins for ldmatrix
    // endregion

    for (int i = 0; i < num_tiles; ++i) {
        // region: wait
        cp_async_wait_group<NUM_STAGES - 2>();  // this lane's copies of the oldest tile have landed
        __syncwarp();                           // all lanes' copies have, and all lanes are done with the previous tile
        next_tile();                            // into the buffer of the previous tile
        const unsigned char* k_smem = ring_smem + i % NUM_STAGES * 2 * TILE_BYTES;
        const unsigned char* v_smem = k_smem + TILE_BYTES;
        // endregion

        // region: scores
        float scores[TILE_KEYS / 16][COL_TILES][4] = {};  // (TILE_KEYS / 16, COL_TILES, 4): k q^T without the scale
        multiply_k_q<ELEMENT, ROW_BYTES>(scores, q_reg, k_smem, lane_offset);
        // endregion

        // region: mask
        const int limit = end - first - (i * NUM_WARPS + warp) * TILE_KEYS - lane / 4;  // key 16 j + 8 r + g exists below it
        if (limit < TILE_KEYS) mask_keys(scores, limit);
        // endregion

        lazy_softmax_columns(scores, m, l, acc, softmax_scale_log2);
        multiply_v_p<ELEMENT, ROW_BYTES>(acc, scores, v_smem, lane_offset);
    }

    // region: merge
    // The warps saw different keys: each leaves m, l and its sums where its first tiles were. No copy is under way: the walk's
    // last wait was for the last tile.
    __syncwarp();  // separates the last reads of the warp's tiles from the writes of the sums
    leave_state<ACC_STRIDE, false>(m_smem, l_smem, reinterpret_cast<float*>(ring_smem), acc, m, l, NUM_Q_PER_KV, warp, lane);
    __syncthreads();  // separates the writes of all warps' states from their reads
    // endregion

    // region: store
    const long long out_row = batch * num_kv_heads * NUM_Q_PER_KV + kv_head * NUM_Q_PER_KV;  // of the group's first head
    store_split<HEAD_DIM, ACC_STRIDE, NUM_THREADS>(out, lse, partial_out, partial_lse_log2, m_smem, l_smem, smem,
                                                   NUM_STAGES * 2 * TILE_BYTES, NUM_Q_PER_KV, out_row, split, num_splits,
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
