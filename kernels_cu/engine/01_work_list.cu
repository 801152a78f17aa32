// 01_work_list — attention of any mix of prefill, append and decode over pages: each block walks its own list of items
//
// Idea      the grid does not follow the batch. A plan on the host cuts every request into items, rows times keys, and gives each
//           block a list, so that all blocks end together. An item with many rows has them as the rows of the products, one with
//           few as their columns; the last block of a request's items merges their parts
// Builds on paged/04_paged_grouped and paged/09_tuned_prefill. Changed regions: walk_list, attend_columns, attend_rows.
// Contract  q, out (total_q, H, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128 · H = Hkv * GROUP, groups of 1 to 64
//           out contiguous · q any stride of token and head, rows contiguous, at multiples of 16 bytes
//           k_pages, v_pages ELEMENT: page p, slot s, head h begins at p * stride_page + s * stride_slot + h * stride_kv_head
//           (both layouts, NHD and HND, are strides), the same strides for both pools; rows at multiples of 16 bytes
//           block_table (B, max_pages) int: pages of each page_size keys of a request
//           items (…, 12) int as common/work_item.cuh has them; block b does the items first_items[b] to first_items[b + 1] - 1
//           rows of an item: whole tokens, at most BLOCK_M rows, at most NARROW_ROWS where it is narrow
//           token_parts (total_q + 1) int: token t is in token_parts[t + 1] - token_parts[t] items of each key-value head, with the
//           parts 0, 1, …; in one with `whole` where there is only one
//           lse (total_q, H) float, natural log · a row that sees no key: out 0, lse -inf
//           part_out (parts, H, D), part_lse (parts, H) float: scratch · counters (total_q, Hkv) int: zero on entry and exit
//           causal: a token sees the keys up to its own · window_left >= 0: and of those before it the last window_left
//           parameters: of SCORE_MOD, or null · mask_bits: of CUSTOM_MASK, or null · sinks (H) float, natural, or null
// Launch    grid: as first_items has lists · block 128 · dynamic shared memory SHARED_BYTES
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/engine.py: work_item_kernel, merge_parts_kernel: a program an item, and a second launch that merges
// gate: -DHEAD_DIM=64 -DELEMENT=__half -DGROUP=1
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16 -DGROUP=4
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16 -DGROUP=8 -DCUSTOM_MASK=1 -DBLOCK_N=16
// Source    Z. Ye and others, "FlashInfer", 2025, section 3.3 (load-balanced scheduling), arXiv:2501.01005
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of q, pages and out; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#ifndef GROUP
#error "GROUP: query heads of a key-value head; pass -DGROUP=1 to 64"
#endif
#ifndef CUSTOM_MASK
#define CUSTOM_MASK 0  // 1: mask_bits says who sees what, besides causal and window_left
#endif
#ifndef SCORE_MOD
#define SCORE_MOD score  // the score as it is
#define HAS_SCORE_MOD 0
#else
#define HAS_SCORE_MOD 1
#endif
#include "common/async_copy.cuh"         // cp_async_16_zfill, commit, wait
#include "common/attention_columns.cuh"  // products and softmax of a few rows
#include "common/attention_rows.cuh"     // products and softmax of many
#include "common/lazy_softmax.cuh"
#include "common/part_merge.cuh"         // stores and the merge of parts
#include "common/score_mods.cuh"         // SCORE_MOD, CUSTOM_MASK
#include "common/work_item.cuh"
#define NUM_WARPS 4
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)
#define CHUNK 8                       // elements in 16 bytes
#define CHUNKS (HEAD_DIM / CHUNK)     // in a row
#define ROW_BYTES (HEAD_DIM * 2)
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
#define TILE_KEYS 16                      // keys that a warp works on at a time
#ifndef NUM_STAGES
#define NUM_STAGES 3                      // tiles in a warp's ring
#endif
#define TILE_BYTES (TILE_KEYS * ROW_BYTES)
#define WARP_COPY_ROWS (WARP_SIZE / CHUNKS)  // rows that a warp copies in one pass
#define ACC_STRIDE (HEAD_DIM + 4)             // floats from one row to the next of a warp's sums in shared memory
#define KV_BYTES (BLOCK_N * ROW_BYTES)
#define ROWS_BYTES (BLOCK_M * ROW_BYTES + 4 * KV_BYTES)
#define RINGS_BYTES (NUM_WARPS * NUM_STAGES * 2 * TILE_BYTES)
#define SHARED_BYTES (ROWS_BYTES > RINGS_BYTES ? ROWS_BYTES : RINGS_BYTES)
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");
static_assert(GROUP >= 1 && GROUP <= 64, "a token's rows fit into one item");
static_assert(BLOCK_N <= NUM_THREADS, "a thread looks up one key");
static_assert(NARROW_ROWS * ACC_STRIDE * 4 <= NUM_STAGES * 2 * TILE_BYTES, "the sums of a warp fit into its ring");

struct Inputs {
    const ELEMENT *q, *k_pages, *v_pages;
    const int* block_table;  // of the first request
    const float* parameters;
    int page_size, max_pages;
    long long stride_q_token, stride_q_head, stride_page, stride_slot, stride_kv_head;
    float softmax_scale;
    // Where key `key` of a request begins, in elements. A key past the item's end may have any table entry: it is copied as 0 bytes.
    __device__ __forceinline__ long long key_offset(const WorkItem& item, int key) const {
        const int page = block_table[(long long)item.request * max_pages + min(key / page_size, max_pages - 1)];
        return item.kv_head * stride_kv_head + page * stride_page + key % page_size * stride_slot;
    }
    __device__ __forceinline__ const ELEMENT* q_row(const PackedRows<GROUP>& rows, int row) const {
        return q + rows.token(row) * stride_q_token + rows.head(row) * stride_q_head;
    }
    // The factor of a score inside the exponent of 2.
    __device__ __forceinline__ float scale_log2() const { return HAS_SCORE_MOD ? LOG2_E : softmax_scale * LOG2_E; }
};

// region: fragments
// The address that this lane passes to ldmatrix, for tile rows row to row + 15 and columns 16 d to 16 d + 15.
struct Fragments {
    int rows_lane, columns_lane;  // offsets for row 0 and d = 0; chunk 2 d further is an XOR with 32 d in bits 5 and 6
    __device__ __forceinline__ const unsigned char* rows(const unsigned char* tile_smem, int row, int d) const {
        return tile_smem + (rows_lane ^ (d % 4 * 32)) + (d / 4 * 128 + row * ROW_BYTES);
    }
    __device__ __forceinline__ const unsigned char* columns(const unsigned char* tile_smem, int row, int d) const {
        return tile_smem + (columns_lane ^ (d % 4 * 32)) + (d / 4 * 128 + row * ROW_BYTES);
    }
};
// endregion

// region: load_tile
// Starts copying this thread's chunks of a tile of K or V; num_rows counts the keys from this thread's first one on, the rest becomes 0.
__device__ __forceinline__ void load_tile(unsigned char* dst_smem, const ELEMENT* pages, const long long* row_offsets, int num_rows) {
#pragma unroll
    for (int row = 0; row < BLOCK_N; row += COPY_ROWS) {  // at 0 bytes nothing is read, wherever the address points
        const long long offset = row_offsets[row + threadIdx.x / CHUNKS] + threadIdx.x % CHUNKS * CHUNK;
        cp_async_16_zfill(dst_smem + row * ROW_BYTES, pages + offset, row < num_rows ? 16 : 0);
    }
}
// endregion

// region: attend_rows
// An item with up to BLOCK_M rows: its keys from the last tile to the first, all warps at one tile, each with its own rows. K and V
// of the next tile are under way during the whole of this one.
__device__ __forceinline__ void attend_rows(const Inputs& in, const WorkItem& item, const PackedRows<GROUP>& rows, const Mask& mask,
                                            const Results<ELEMENT>& to, unsigned char* smem, long long (*row_offsets_smem)[BLOCK_N]) {
    unsigned char* q_smem = smem;                          // (BLOCK_M, HEAD_DIM)
    unsigned char* k_smem = q_smem + BLOCK_M * ROW_BYTES;  // (2, BLOCK_N, HEAD_DIM)
    unsigned char* v_smem = k_smem + 2 * KV_BYTES;         // (2, BLOCK_N, HEAD_DIM)
    const int lane = threadIdx.x % WARP_SIZE, warp_row = threadIdx.x / WARP_SIZE * WARP_M;
    const int copy_row = threadIdx.x / CHUNKS, copy_chunk = threadIdx.x % CHUNKS;  // this thread's chunk of a tile
    const int copy_offset = swizzle_offset<ROW_BYTES>(copy_row, copy_chunk);
    const Fragments fragments = {swizzle_offset<ROW_BYTES>(lane % 16, lane / 16),
                                 swizzle_offset<ROW_BYTES>(lane / 16 * 8 + lane % 8, lane / 8 % 2)};
    const int last_tile = CEIL_DIV(item.end_key - item.first_key, BLOCK_N) - 1;
    const int warp_end = min(warp_row + WARP_M, item.num_rows) - 1;  // the warp's last row; below warp_row: it has none
    auto look_up = [&](int tile) {
        if (tile >= 0 && threadIdx.x < BLOCK_N) {
            row_offsets_smem[tile % 2][threadIdx.x] = in.key_offset(item, item.first_key + tile * BLOCK_N + threadIdx.x);
        }
    };
    // Starts this thread's copies of a tile's K or V; without a tile the group is empty.
    auto load = [&](unsigned char* tiles_smem, const ELEMENT* pages, int tile) {
        if (tile >= 0) {
            load_tile(tiles_smem + tile % 2 * KV_BYTES + copy_offset, pages, row_offsets_smem[tile % 2],
                      item.end_key - item.first_key - tile * BLOCK_N - copy_row);
        }
        cp_async_commit_group();
    };
    look_up(last_tile);
    look_up(last_tile - 1);
    for (int row = copy_row; row < BLOCK_M; row += COPY_ROWS) {
        const ELEMENT* source = in.q_row(rows, min(row, item.num_rows - 1)) + copy_chunk * CHUNK;
        cp_async_16_zfill(q_smem + copy_offset + (row - copy_row) * ROW_BYTES, source, row < item.num_rows ? 16 : 0);
    }
    __syncthreads();  // separates the writes of row_offsets_smem from their reads
    load(k_smem, in.k_pages, last_tile);  // in one group with Q
    load(v_smem, in.v_pages, last_tile);

    float acc[ROW_TILES][HEAD_DIM / 8][4] = {};  // (ROW_TILES, HEAD_DIM / 8, 4): lane 4 g + t, rows g and g + 8
    float m[ROW_TILES][2], l[ROW_TILES][2] = {};  // (ROW_TILES, 2); m in units of log2; l over this lane's own columns
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) m[i][0] = m[i][1] = NEG_INF;
    for (int tile = last_tile; tile >= 0; --tile) {
        load(k_smem, in.k_pages, tile - 1);  // where K of the tile before was
        cp_async_wait_group<2>();            // this thread's copies of this tile's K have landed
        __syncthreads();                     // all threads' copies have, and all warps are done with V of the tile before
        look_up(tile - 2);                   // read after the next barrier
        float scores[ROW_TILES][BLOCK_N / 8][4] = {};  // (ROW_TILES, BLOCK_N / 8, 4)
#pragma unroll
        for (int d = 0; d < HEAD_DIM / 16; ++d) {
            unsigned q_reg[ROW_TILES][4];
            load_q_fragments(q_reg, q_smem, warp_row, d, fragments);
            multiply_q_k<ELEMENT>(scores, q_reg, k_smem + tile % 2 * KV_BYTES, d, fragments);
        }

        load(v_smem, in.v_pages, tile - 1);  // where V of the tile before was
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
        multiply_p_v<ELEMENT>(acc, scores, v_smem + tile % 2 * KV_BYTES, fragments);
    }
    cp_async_wait_all();  // without any tile, Q may still be on its way to where out is put
    __syncthreads();      // separates all threads' copies of Q, and the warp's reads, from the writes of out
    store_rows_item(to, item, rows, q_smem + warp_row * ROW_BYTES, acc, m, l, warp_row, lane);
}
// endregion

// region: attend_columns
// An item with up to NARROW_ROWS rows: each warp has its own keys and its own ring of tiles under way.
__device__ __forceinline__ void attend_columns(const Inputs& in, const WorkItem& item, const PackedRows<GROUP>& rows, const Mask& mask,
                                               const Results<ELEMENT>& to, unsigned char* smem, float (&m_smem)[NUM_WARPS][16],
                                               float (&l_smem)[NUM_WARPS][16]) {
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    unsigned char* ring_smem = smem + warp * NUM_STAGES * 2 * TILE_BYTES;  // (NUM_STAGES, K and V, TILE_KEYS, HEAD_DIM)
    const int num_tiles = max(0, CEIL_DIV(item.end_key - item.first_key, TILE_KEYS) - warp + NUM_WARPS - 1) / NUM_WARPS;
    const int lane_row = lane / CHUNKS, chunk = lane % CHUNKS, store_offset = swizzle_offset<ROW_BYTES>(lane_row, chunk);
    int to_start = 0;  // tiles of this warp that have been started
    int next_key = item.first_key + warp * TILE_KEYS;
    long long offset = in.key_offset(item, next_key + lane % TILE_KEYS);  // of this lane's key of the tile to start next
    // Starts the next tile, and looks up the pages of the tile after it: the load has a whole tile's time to arrive.
    auto next_tile = [&]() {
        if (to_start < num_tiles) {
            unsigned char* tile_smem = ring_smem + to_start % NUM_STAGES * 2 * TILE_BYTES;
#pragma unroll
            for (int row = 0; row < TILE_KEYS; row += WARP_COPY_ROWS) {
                const long long from = __shfl_sync(ALL_LANES, offset, row + lane_row) + chunk * CHUNK;
                const int bytes = next_key + row + lane_row < item.end_key ? 16 : 0;  // rows past the end become 0
                unsigned char* dst_smem = tile_smem + row * ROW_BYTES + (store_offset ^ (row % 8 * 16));
                cp_async_16_zfill(dst_smem, in.k_pages + from, bytes);
                cp_async_16_zfill(dst_smem + TILE_BYTES, in.v_pages + from, bytes);
            }
            ++to_start;
            next_key += NUM_WARPS * TILE_KEYS;
            offset = in.key_offset(item, next_key + lane % TILE_KEYS);
        }
        cp_async_commit_group();
    };
#pragma unroll
    for (int i = 0; i < NUM_STAGES - 1; ++i) next_tile();

    unsigned q_reg[HEAD_DIM / 16][COL_TILES][2];  // (HEAD_DIM / 16, COL_TILES, 2): lane 4 g + t, rows g and g + 8 of the item
#pragma unroll
    for (int c = 0; c < COL_TILES; ++c) {
        const int row = lane / 4 + 8 * c;
        const ELEMENT* source = in.q_row(rows, min(row, item.num_rows - 1)) + lane % 4 * 2;
#pragma unroll
        for (int d = 0; d < HEAD_DIM / 16; ++d) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                q_reg[d][c][r] = row < item.num_rows ? *reinterpret_cast<const unsigned*>(source + d * 16 + r * 8) : 0u;
            }
        }
    }
    float acc[HEAD_DIM / 16][COL_TILES][4] = {};  // (HEAD_DIM / 16, COL_TILES, 4): columns of V as rows, the item's rows as columns
    float m[COL_TILES][2], l[COL_TILES][2] = {};  // (COL_TILES, 2): m in units of log2; l over this lane's own keys
#pragma unroll
    for (int c = 0; c < COL_TILES; ++c) m[c][0] = m[c][1] = NEG_INF;
    const int lane_offset = swizzle_offset<ROW_BYTES>(lane % 16, lane / 16);  // where this lane's row begins for ldmatrix
    const int first = rows.position(0), last = rows.position(item.num_rows - 1);

    for (int i = 0; i < num_tiles; ++i) {
        cp_async_wait_group<NUM_STAGES - 2>();  // this lane's copies of the oldest tile have landed
        __syncwarp();                           // all lanes' copies have, and all lanes are done with the previous tile
        next_tile();                            // into the buffer of the previous tile
        const unsigned char* k_smem = ring_smem + i % NUM_STAGES * 2 * TILE_BYTES;
        const unsigned char* v_smem = k_smem + TILE_BYTES;
        const int kv_start = item.first_key + (i * NUM_WARPS + warp) * TILE_KEYS;
        float scores[TILE_KEYS / 16][COL_TILES][4] = {};  // (TILE_KEYS / 16, COL_TILES, 4)
        multiply_k_q<ELEMENT, ROW_BYTES>(scores, q_reg, k_smem, lane_offset);
        const bool cut = mask.cuts(kv_start, TILE_KEYS, first, last);
        if (HAS_SCORE_MOD || cut) {
            modify_columns(scores, rows, item.num_rows, kv_start, mask, cut, in.softmax_scale, in.parameters, lane);
        }
        lazy_softmax_columns<true>(scores, m, l, acc, in.scale_log2());
        multiply_v_p<ELEMENT, ROW_BYTES>(acc, scores, v_smem, lane_offset);
    }
    __syncwarp();  // separates the last reads of the warp's tiles from the writes of the sums
    leave_state<ACC_STRIDE, false>(m_smem, l_smem, reinterpret_cast<float*>(ring_smem), acc, m, l, item.num_rows, warp, lane);
    __syncthreads();  // separates the writes of all warps' states from their reads
    store_columns_item<GROUP, HEAD_DIM, ACC_STRIDE, NUM_THREADS>(to, item, rows, m_smem, l_smem, smem, NUM_STAGES * 2 * TILE_BYTES);
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 2)
work_list_kernel(const ELEMENT* q, const ELEMENT* k_pages, const ELEMENT* v_pages, const int* block_table, const int* items,
                 const int* first_items, const int* token_parts, ELEMENT* out, float* lse, float* part_out, float* part_lse, int* counters,
                 const float* parameters, const unsigned* mask_bits, const float* sinks, int num_heads, int page_size, int max_pages,
                 long long stride_q_token, long long stride_q_head, long long stride_page, long long stride_slot,
                 long long stride_kv_head, float softmax_scale, int causal, int window_left) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ long long row_offsets_smem[2][BLOCK_N];              // where the rows of this tile and of the next begin
    __shared__ float m_smem[NUM_WARPS][16], l_smem[NUM_WARPS][16];  // (NUM_WARPS, 16): of each warp and row
    __shared__ int item_smem[WORK_ITEM_INTS];                       // the item in turn: registers are for the products
    __shared__ int tokens_smem[NUM_THREADS], count_smem;            // tokens whose last part an item is
    const Inputs in = {q, k_pages, v_pages, block_table, parameters, page_size, max_pages, stride_q_token, stride_q_head,
                       stride_page, stride_slot, stride_kv_head, softmax_scale};
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
        else attend_rows(in, item, rows, mask, to, smem, row_offsets_smem);
        if (!item.whole) {
            const int num_tokens = finished_tokens<GROUP>(to, item, counters, tokens_smem, &count_smem);
            merge_parts<GROUP, HEAD_DIM, NUM_THREADS>(to, rows, tokens_smem, num_tokens);
        }
        __syncthreads();  // separates this item's reads of shared memory from the next item's writes
    }
    // endregion
}
