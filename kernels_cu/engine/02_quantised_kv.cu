// 02_quantised_kv — the same engine over pages whose keys and values have one byte each
//
// Idea      the bytes travel as bytes, from the pages to shared memory, and become halves in registers in front of the products; so
//           decode reads half as much, and prefill takes the same cache. The scales meet scores and weights
// Builds on 01_work_list and paged/06_quantised_kv. Changed regions: load_tile, load_scales, attend_rows, attend_columns.
// Contract  as 01_work_list, except for the pools and the arithmetic:
//           k_pages, v_pages KV (char: int8, or __nv_fp8_e4m3), rows at multiples of 16 bytes · a number denotes itself times
//           its scale
//           k_scales, v_scales float: that of page p, slot s, head h at p * stride_scale_page + s * stride_scale_slot +
//           h * stride_scale_head; strides 0 for pages and slots are one scale a head
//           products in half precision with float sums, for either ELEMENT of q and out: |q| < 65504, 1e-4 <= v_scale <= 100
// Launch    grid: as first_items has lists · block 128 · dynamic shared memory SHARED_BYTES
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      none: Triton has no block that walks items of two shapes with rings of its warps' own
// gate: -DHEAD_DIM=64 -DELEMENT=__half -DKV=char -DGROUP=1
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16 -DKV=__nv_fp8_e4m3 -DGROUP=4
// gate: -DHEAD_DIM=128 -DELEMENT=__half -DKV=char -DGROUP=16
// Source    P. Micikevicius and others, "FP8 Formats for Deep Learning", 2022, arXiv:2209.05433
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of q and out; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#ifndef GROUP
#error "GROUP: query heads of a key-value head; pass -DGROUP=1 to 64"
#endif
#ifndef KV
#error "KV: type of the pages; pass -DKV=char (int8) or __nv_fp8_e4m3"
#endif
#include "common/async_copy.cuh"         // cp_async_16_zfill, commit, wait
#include "common/attention_bytes.cuh"    // products with bytes
#include "common/attention_columns.cuh"  // softmax of a few rows
#include "common/attention_rows.cuh"     // softmax of many
#include "common/lazy_softmax.cuh"
#include "common/part_merge.cuh"         // stores and the merge of parts
#include "common/score_mods.cuh"         // SCORE_MOD, CUSTOM_MASK
#include "common/work_item.cuh"
#include "common/xor_fragments.cuh"      // XorFragments
#define NUM_WARPS 4
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)
#define CHUNK 16                      // numbers in 16 bytes: what cp.async and ldmatrix take at once
#define CHUNKS (HEAD_DIM / CHUNK)     // in a row
#define ROW_BYTES HEAD_DIM
#define Q_ROW_BYTES (HEAD_DIM * 2)    // as halves
// Many rows
#define BLOCK_M 128                   // rows of an item
#ifndef BLOCK_N
#define BLOCK_N (HEAD_DIM == 64 ? 64 : 32)  // keys of a tile
#endif
#define WARP_M (BLOCK_M / NUM_WARPS)
#define ROW_TILES (WARP_M / 16)
#define COPY_ROWS (NUM_THREADS / CHUNKS)  // rows that the block copies in one pass
// Few rows
#define NARROW_ROWS (GROUP > 8 ? 16 : 8)
#define COL_TILES (NARROW_ROWS / 8)
#define TILE_KEYS 32                      // keys that a warp works on at a time: one a lane
#ifndef NUM_STAGES
#define NUM_STAGES 3                      // tiles in a warp's ring
#endif
#define TILE_BYTES (TILE_KEYS * ROW_BYTES)
#define STAGE_BYTES (2 * TILE_BYTES + 8 * TILE_KEYS)  // K, V, the scales of K, the scales of V
#define WARP_COPY_ROWS (WARP_SIZE / CHUNKS)  // rows that a warp copies in one pass
#define ACC_STRIDE (HEAD_DIM + 8)             // floats from one row to the next of a warp's sums in shared memory
#define KV_BYTES (BLOCK_N * ROW_BYTES)
#define ROWS_BYTES (BLOCK_M * Q_ROW_BYTES + 4 * KV_BYTES + 16 * BLOCK_N)
#define RINGS_BYTES (NUM_WARPS * NUM_STAGES * STAGE_BYTES)
#define SHARED_BYTES (ROWS_BYTES > RINGS_BYTES ? ROWS_BYTES : RINGS_BYTES)
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");
static_assert(GROUP >= 1 && GROUP <= 64, "a token's rows fit into one item");
static_assert(BLOCK_N <= NUM_THREADS && BLOCK_N % 32 == 0, "a thread looks up one key, and ldmatrix takes 32");
static_assert(TILE_KEYS == WARP_SIZE, "a lane looks up one key and copies its scales");
static_assert(NARROW_ROWS * ACC_STRIDE * 4 <= NUM_STAGES * STAGE_BYTES, "the sums of a warp fit into its ring");

// Where a key's row begins in the pools, and where its scales are.
struct __align__(16) KeyOffsets {
    long long row, scale;
};

struct Inputs {
    const ELEMENT* q;
    const KV *k_pages, *v_pages;
    const float *k_scales, *v_scales;
    const int* block_table;  // of the first request
    const float* parameters;
    int page_size, max_pages;
    long long stride_q_token, stride_q_head, stride_page, stride_slot, stride_kv_head;
    long long stride_scale_page, stride_scale_slot, stride_scale_head;
    float softmax_scale;
    // Of key `key` of a request. A key past the item's end may have any table entry: it is copied as 0 bytes.
    __device__ __forceinline__ KeyOffsets key_offsets(const WorkItem& item, int key) const {
        const long long page = block_table[(long long)item.request * max_pages + min(key / page_size, max_pages - 1)];
        const int slot = key % page_size;
        return {item.kv_head * stride_kv_head + page * stride_page + slot * stride_slot,
                item.kv_head * stride_scale_head + page * stride_scale_page + slot * stride_scale_slot};
    }
    __device__ __forceinline__ const ELEMENT* q_row(const PackedRows<GROUP>& rows, int row) const {
        return q + rows.token(row) * stride_q_token + rows.head(row) * stride_q_head;
    }
    // The factor of a score inside the exponent of 2.
    __device__ __forceinline__ float scale_log2() const { return HAS_SCORE_MOD ? LOG2_E : softmax_scale * LOG2_E; }
};

// region: load_tile
// Starts copying this thread's chunks of a tile of K or V; num_rows counts the keys from this thread's first one on, the rest becomes 0.
__device__ __forceinline__ void load_tile(unsigned char* dst_smem, const KV* pages, const KeyOffsets* offsets, int num_rows) {
#pragma unroll
    for (int row = 0; row < BLOCK_N; row += COPY_ROWS) {  // at 0 bytes nothing is read, wherever the address points
        const long long offset = offsets[row + threadIdx.x / CHUNKS].row + threadIdx.x % CHUNKS * CHUNK;
        cp_async_16_zfill(dst_smem + row * ROW_BYTES, pages + offset, row < num_rows ? 16 : 0);
    }
}
// endregion

// region: load_scales
// Starts copying the scale of key threadIdx.x of a tile; those past the end become 0.
__device__ __forceinline__ void load_scales(float* scales_smem, const float* scales, const KeyOffsets* offsets, int num_keys) {
    const int key = threadIdx.x;
    if (key < BLOCK_N) cp_async_4_zfill(scales_smem + key, scales + offsets[key].scale, key < num_keys ? 4 : 0);
}
// endregion

// region: attend_rows
// An item with up to BLOCK_M rows: its keys from the last tile to the first, all warps at one tile, each with its own rows. K and V
// of the next tile are under way during the whole of this one.
__device__ __forceinline__ void attend_rows(const Inputs& in, const WorkItem& item, const PackedRows<GROUP>& rows, const Mask& mask,
                                            const Results<ELEMENT>& to, unsigned char* smem, KeyOffsets (*offsets_smem)[BLOCK_N]) {
    unsigned char* q_smem = smem;                            // (BLOCK_M, HEAD_DIM) as halves
    unsigned char* k_smem = q_smem + BLOCK_M * Q_ROW_BYTES;  // (2, BLOCK_N, HEAD_DIM)
    unsigned char* v_smem = k_smem + 2 * KV_BYTES;           // (2, BLOCK_N, HEAD_DIM)
    float* k_scales_smem = reinterpret_cast<float*>(v_smem + 2 * KV_BYTES);  // (2, BLOCK_N)
    float* v_scales_smem = k_scales_smem + 2 * BLOCK_N;                      // (2, BLOCK_N)
    const int lane = threadIdx.x % WARP_SIZE, warp_row = threadIdx.x / WARP_SIZE * WARP_M;
    const int copy_row = threadIdx.x / CHUNKS, copy_chunk = threadIdx.x % CHUNKS;  // this thread's chunk of a tile
    const int copy_offset = swizzle_offset<ROW_BYTES>(copy_row, copy_chunk);
    const XorFragments<Q_ROW_BYTES> fragments(lane);
    const int k_lane = swizzle_offset<ROW_BYTES>(lane, 0), v_lane = swizzle_offset<ROW_BYTES>(lane % 16, lane / 16);
    const int last_tile = CEIL_DIV(item.end_key - item.first_key, BLOCK_N) - 1;
    const int warp_end = min(warp_row + WARP_M, item.num_rows) - 1;  // the warp's last row; below warp_row: it has none
    auto look_up = [&](int tile) {
        if (tile >= 0 && threadIdx.x < BLOCK_N) {
            offsets_smem[tile % 2][threadIdx.x] = in.key_offsets(item, item.first_key + tile * BLOCK_N + threadIdx.x);
        }
    };
    // Starts this thread's copies of a tile's K or V, and of its scales; without a tile the group is empty.
    auto load = [&](unsigned char* tiles_smem, float* scales_smem, const KV* pages, const float* scales, int tile) {
        if (tile >= 0) {
            const int num_keys = item.end_key - item.first_key - tile * BLOCK_N, stage = tile % 2;
            load_tile(tiles_smem + stage * KV_BYTES + copy_offset, pages, offsets_smem[stage], num_keys - copy_row);
            load_scales(scales_smem + stage * BLOCK_N, scales, offsets_smem[stage], num_keys);
        }
        cp_async_commit_group();
    };
    auto load_k = [&](int tile) { load(k_smem, k_scales_smem, in.k_pages, in.k_scales, tile); };
    auto load_v = [&](int tile) { load(v_smem, v_scales_smem, in.v_pages, in.v_scales, tile); };
    look_up(last_tile);
    look_up(last_tile - 1);
    for (int row = copy_row; row < BLOCK_M; row += COPY_ROWS) {
        uint4 first, second;
        load_q_chunks(first, second, row < item.num_rows ? in.q_row(rows, row) + copy_chunk * CHUNK : nullptr);
        *reinterpret_cast<uint4*>(q_smem + swizzle_offset<Q_ROW_BYTES>(row, 2 * copy_chunk)) = first;
        *reinterpret_cast<uint4*>(q_smem + swizzle_offset<Q_ROW_BYTES>(row, 2 * copy_chunk + 1)) = second;
    }
    __syncthreads();  // separates the writes of offsets_smem from their reads
    load_k(last_tile);
    load_v(last_tile);

    float acc[ROW_TILES][HEAD_DIM / 8][4] = {};  // (ROW_TILES, HEAD_DIM / 8, 4): lane 4 g + t, rows g and g + 8
    float m[ROW_TILES][2], l[ROW_TILES][2] = {};  // (ROW_TILES, 2); m in units of log2; l over this lane's own columns
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) m[i][0] = m[i][1] = NEG_INF;
    for (int tile = last_tile; tile >= 0; --tile) {
        load_k(tile - 1);            // where K of the tile before was
        cp_async_wait_group<2>();            // this thread's copies of this tile's K have landed
        __syncthreads();                     // all threads' copies have, and all warps are done with V of the tile before
        look_up(tile - 2);                   // read after the next barrier
        float scores[ROW_TILES][BLOCK_N / 8][4] = {};  // (ROW_TILES, BLOCK_N / 8, 4)
#pragma unroll 2
        for (int d = 0; d < HEAD_DIM / 16; ++d) {  // as a loop: its addresses unrolled would not fit the registers
            unsigned q_reg[ROW_TILES][4];
            load_q_fragments(q_reg, q_smem, warp_row, d, fragments);
            multiply_q_k_bytes<KV, ROW_BYTES>(scores, q_reg, k_smem + tile % 2 * KV_BYTES, d, k_lane);
        }
        scale_columns(scores, k_scales_smem + tile % 2 * BLOCK_N, lane);

        load_v(tile - 1);            // where V of the tile before was
        cp_async_wait_group<2>();            // this thread's copies of this tile's V have landed
        __syncthreads();                     // all threads' copies and look-ups have, and all warps are done with this tile's K
        const int kv_start = item.first_key + tile * BLOCK_N;
        const int first = rows.position(warp_row), last = rows.position(max(warp_row, warp_end));
        const bool cut = mask.cuts(kv_start, BLOCK_N, first, last);
        if (warp_end < warp_row || kv_start >= mask.end(last) || kv_start + BLOCK_N <= mask.begin(first)) continue;  // no row sees a key
        if (HAS_SCORE_MOD || cut) {
            modify_rows(scores, rows, warp_row, item.num_rows, kv_start, mask, cut, in.softmax_scale, in.parameters, lane);
        }
        lazy_softmax(scores, m, l, acc, in.scale_log2());
        scale_columns(scores, v_scales_smem + tile % 2 * BLOCK_N, lane);  // l has its sums already
        multiply_p_v_bytes<KV, ROW_BYTES>(acc, scores, v_smem + tile % 2 * KV_BYTES, v_lane);
    }
    __syncthreads();  // separates all threads' writes of Q, and the warp's reads, from the writes of out
    in_order(acc, lane);
    store_rows_item(to, item, rows, q_smem + warp_row * Q_ROW_BYTES, acc, m, l, warp_row, lane);
}
// endregion

// region: attend_columns
// An item with up to NARROW_ROWS rows: each warp has its own keys and its own ring of tiles under way.
__device__ __forceinline__ void attend_columns(const Inputs& in, const WorkItem& item, const PackedRows<GROUP>& rows, const Mask& mask,
                                               const Results<ELEMENT>& to, unsigned char* smem, float (&m_smem)[NUM_WARPS][16],
                                               float (&l_smem)[NUM_WARPS][16]) {
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    unsigned char* ring_smem = smem + warp * NUM_STAGES * STAGE_BYTES;
    const int num_tiles = max(0, CEIL_DIV(item.end_key - item.first_key, TILE_KEYS) - warp + NUM_WARPS - 1) / NUM_WARPS;
    const int lane_row = lane / CHUNKS, chunk = lane % CHUNKS, store_offset = swizzle_offset<ROW_BYTES>(lane_row, chunk);
    int to_start = 0;  // tiles of this warp that have been started
    int next_key = item.first_key + warp * TILE_KEYS;
    KeyOffsets offsets = in.key_offsets(item, next_key + lane);  // of this lane's key of the tile to start next
    // Starts the next tile, and looks up the pages of the tile after it: the load has a whole tile's time to arrive.
    auto next_tile = [&]() {
        if (to_start < num_tiles) {
            unsigned char* tile_smem = ring_smem + to_start % NUM_STAGES * STAGE_BYTES;
#pragma unroll
            for (int row = 0; row < TILE_KEYS; row += WARP_COPY_ROWS) {
                const long long from = __shfl_sync(ALL_LANES, offsets.row, row + lane_row) + chunk * CHUNK;
                const int bytes = next_key + row + lane_row < item.end_key ? 16 : 0;  // rows past the end become 0
                unsigned char* dst_smem = tile_smem + row * ROW_BYTES + (store_offset ^ (row % 8 * 16));
                cp_async_16_zfill(dst_smem, in.k_pages + from, bytes);
                cp_async_16_zfill(dst_smem + TILE_BYTES, in.v_pages + from, bytes);
            }
            float* scale_smem = reinterpret_cast<float*>(tile_smem + 2 * TILE_BYTES) + lane;  // of K; of V TILE_KEYS further
            const int bytes = next_key + lane < item.end_key ? 4 : 0;
            cp_async_4_zfill(scale_smem, in.k_scales + offsets.scale, bytes);
            cp_async_4_zfill(scale_smem + TILE_KEYS, in.v_scales + offsets.scale, bytes);
            ++to_start;
            next_key += NUM_WARPS * TILE_KEYS;
            offsets = in.key_offsets(item, next_key + lane);
        }
        cp_async_commit_group();
    };
#pragma unroll
    for (int i = 0; i < NUM_STAGES - 1; ++i) next_tile();

    unsigned q_reg[HEAD_DIM / 16][COL_TILES][2];  // (HEAD_DIM / 16, COL_TILES, 2): lane 4 g + t, rows g and g + 8 of the item
#pragma unroll
    for (int c = 0; c < COL_TILES; ++c) {
        const int row = lane / 4 + 8 * c;
        const ELEMENT* source = in.q_row(rows, min(row, item.num_rows - 1)) + lane % 4 * 4;
#pragma unroll
        for (int d = 0; d < HEAD_DIM / 16; ++d) {
#pragma unroll
            for (int r = 0; r < 2; ++r) q_reg[d][c][r] = row < item.num_rows ? half_pair(source + d * 16 + r * 2) : 0u;
        }
    }
    float acc[HEAD_DIM / 16][COL_TILES][4] = {};  // (HEAD_DIM / 16, COL_TILES, 4): columns of V as rows, the item's rows as columns
    float m[COL_TILES][2], l[COL_TILES][2] = {};  // (COL_TILES, 2): m in units of log2; l over this lane's own keys
#pragma unroll
    for (int c = 0; c < COL_TILES; ++c) m[c][0] = m[c][1] = NEG_INF;
    const int lane_offset = swizzle_offset<ROW_BYTES>(lane, 0);  // where this lane's row begins for ldmatrix
    const int first = rows.position(0), last = rows.position(item.num_rows - 1);

    for (int i = 0; i < num_tiles; ++i) {
        cp_async_wait_group<NUM_STAGES - 2>();  // this lane's copies of the oldest tile have landed
        __syncwarp();                           // all lanes' copies have, and all lanes are done with the previous tile
        next_tile();                            // into the buffer of the previous tile
        const unsigned char* k_smem = ring_smem + i % NUM_STAGES * STAGE_BYTES;
        const unsigned char* v_smem = k_smem + TILE_BYTES;
        const float* scale_smem = reinterpret_cast<const float*>(v_smem + TILE_BYTES) + lane / 4;  // of key g
        const int kv_start = item.first_key + (i * NUM_WARPS + warp) * TILE_KEYS;
        float scores[TILE_KEYS / 16][COL_TILES][4] = {};  // (TILE_KEYS / 16, COL_TILES, 4)
        multiply_k_q_bytes<KV>(scores, q_reg, k_smem, scale_smem, lane_offset);
        const bool cut = mask.cuts(kv_start, TILE_KEYS, first, last);
        if (HAS_SCORE_MOD || cut) {
            modify_columns(scores, rows, item.num_rows, kv_start, mask, cut, in.softmax_scale, in.parameters, lane);
        }
        lazy_softmax_columns<true>(scores, m, l, acc, in.scale_log2());
        multiply_v_p_bytes<KV>(acc, scores, v_smem, scale_smem, lane_offset);
    }
    __syncwarp();  // separates the last reads of the warp's tiles from the writes of the sums
    leave_state<ACC_STRIDE, true>(m_smem, l_smem, reinterpret_cast<float*>(ring_smem), acc, m, l, item.num_rows, warp, lane);
    __syncthreads();  // separates the writes of all warps' states from their reads
    store_columns_item<GROUP, HEAD_DIM, ACC_STRIDE, NUM_THREADS>(to, item, rows, m_smem, l_smem, smem, NUM_STAGES * STAGE_BYTES);
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 2)
quantised_kv_kernel(const ELEMENT* q, const KV* k_pages, const KV* v_pages, const float* k_scales, const float* v_scales,
                    const int* block_table, const int* items, const int* first_items, const int* token_parts, ELEMENT* out, float* lse,
                    float* part_out, float* part_lse, int* counters, const float* parameters, const unsigned* mask_bits,
                    const float* sinks, int num_heads, int page_size, int max_pages, long long stride_q_token,
                    long long stride_q_head, long long stride_page, long long stride_slot, long long stride_kv_head,
                    long long stride_scale_page, long long stride_scale_slot, long long stride_scale_head, float softmax_scale,
                    int causal, int window_left) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ KeyOffsets offsets_smem[2][BLOCK_N];                 // of the keys of this tile and of the next
    __shared__ float m_smem[NUM_WARPS][16], l_smem[NUM_WARPS][16];  // (NUM_WARPS, 16): of each warp and row
    __shared__ int item_smem[WORK_ITEM_INTS];                       // the item in turn: registers are for the products
    __shared__ int tokens_smem[NUM_THREADS], count_smem;            // tokens whose last part an item is
    const Inputs in = {q, k_pages, v_pages, k_scales, v_scales, block_table, parameters, page_size, max_pages, stride_q_token,
                       stride_q_head, stride_page, stride_slot, stride_kv_head, stride_scale_page, stride_scale_slot,
                       stride_scale_head, softmax_scale};
    const Results<ELEMENT> to = {out, lse, part_out, part_lse, token_parts, sinks, num_heads};
    // region: walk_list
    for (int item_idx = first_items[blockIdx.x]; item_idx < first_items[blockIdx.x + 1]; ++item_idx) {
        if (threadIdx.x < WORK_ITEM_INTS) item_smem[threadIdx.x] = items[item_idx * WORK_ITEM_INTS + threadIdx.x];
        __syncthreads();  // separates the write of the item from its reads
        const WorkItem& item = *reinterpret_cast<const WorkItem*>(item_smem);
        const PackedRows<GROUP> rows(item, num_heads);
        const Mask mask = {causal, window_left, item.first_key, item.end_key, (unsigned)item.seq_len_kv, (unsigned)item.first_mask_bit,
                           mask_bits};
        if (item.narrow) attend_columns(in, item, rows, mask, to, smem, m_smem, l_smem);
        else attend_rows(in, item, rows, mask, to, smem, offsets_smem);
        if (!item.whole) {
            const int num_tokens = finished_tokens<GROUP>(to, item, counters, tokens_smem, &count_smem);
            merge_parts<GROUP, HEAD_DIM, NUM_THREADS>(to, rows, tokens_smem, num_tokens);
        }
        __syncthreads();  // separates this item's reads of shared memory from the next item's writes
    }
    // endregion
}
