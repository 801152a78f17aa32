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
#include "common/attention_rows.cuh"   // products and softmax of many
#include "common/attention_tiles.cuh"  // HEAD_DIM, ELEMENT; the sizes where an item has many rows
#include "common/lazy_softmax.cuh"
#include "common/narrow_items.cuh"     // GROUP, Inputs, attend_columns: items with few rows
#include "common/part_merge.cuh"       // stores and the merge of parts
#include "common/score_mods.cuh"       // SCORE_MOD, CUSTOM_MASK
#include "common/work_item.cuh"
#include "common/xor_tiles.cuh"        // XorFragments, load_tile
#define KV_BYTES (BLOCK_N * ROW_BYTES)
#define ROWS_BYTES (BLOCK_M * ROW_BYTES + 4 * KV_BYTES)
#define SHARED_BYTES (ROWS_BYTES > RINGS_BYTES ? ROWS_BYTES : RINGS_BYTES)
static_assert(BLOCK_N <= NUM_THREADS, "a thread looks up one key");

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
    const XorFragments<ROW_BYTES> fragments(lane);
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
