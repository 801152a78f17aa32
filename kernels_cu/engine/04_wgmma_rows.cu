// 04_wgmma_rows — the engine of 01_work_list whose items with many rows are multiplied by wgmma
//
// Idea      the four warps of a block are a warpgroup: one wgmma multiplies 64 rows, and reads K and V from shared memory, where mma
//           needed fragments of them in registers. So a tile has more keys, and the walk of 01_work_list stays as it is
// Builds on 01_work_list and flash_attention_3/01_wgmma. Changed regions: panels, load_tile, attend_rows.
// Contract  as 01_work_list
// Launch    as 01_work_list
// Needs     compute capability 9.0a · compiled by NVRTC: device code only, no host headers
// Twin      none: Triton has no block that walks items of two shapes with rings of its warps' own
// gate: -DHEAD_DIM=64 -DELEMENT=__half -DGROUP=1
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16 -DGROUP=4
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16 -DGROUP=8 -DSCORE_MOD=(soft_cap(score,5.0f))
// Source    PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions" (layouts: common/wgmma.cuh)
#ifndef BLOCK_N
#define BLOCK_N 64  // keys of a tile; with a long expression some registers spill, which costs less than tiles of 32
#endif
#include "common/async_copy.cuh"       // cp_async_16_zfill, commit, wait
#include "common/attention_rows.cuh"   // row_sum
#include "common/attention_tiles.cuh"  // HEAD_DIM, ELEMENT; the sizes where an item has many rows
#include "common/attention_wgmma.cuh"  // products of many
#include "common/lazy_softmax.cuh"
#include "common/narrow_items.cuh"     // GROUP, Inputs, attend_columns: items with few rows
#include "common/part_merge.cuh"       // stores and the merge of parts
#include "common/score_mods.cuh"       // SCORE_MOD, CUSTOM_MASK
#include "common/work_item.cuh"
#define KV_BYTES (BLOCK_N * ROW_BYTES)
#define ROWS_BYTES (BLOCK_M * ROW_BYTES + 4 * KV_BYTES)
#define SHARED_BYTES (ROWS_BYTES > RINGS_BYTES ? ROWS_BYTES : RINGS_BYTES)
static_assert(BLOCK_N <= NUM_THREADS && BLOCK_N % 16 == 0, "a thread looks up one key, and wgmma takes 16");
static_assert(ROW_TILES * WARPGROUP_ROWS == BLOCK_M, "a wgmma has 16 rows of each warp");

// region: panels
// Where a chunk of a tile of ROWS rows is: panels of 64 columns, swizzled, as wgmma reads them.
template <int ROWS>
__device__ __forceinline__ int panel_offset(int row, int chunk) {
    return chunk / 8 * (ROWS * PANEL_ROW_BYTES) + row * PANEL_ROW_BYTES + (chunk % 8 ^ row % 8) * 16;
}

// The row of Q's tile that holds an item's row: wgmma i takes rows 64 i to 64 i + 63, of which 16 belong to each warp, and a warp's
// rows of the item are neighbours.
__device__ __forceinline__ int tile_row(int row) { return row / 16 % ROW_TILES * WARPGROUP_ROWS + row / WARP_M * 16 + row % 16; }

// The accumulators of a wgmma, in the order of the fragments of common/attention_rows.cuh.
template <int N>
__device__ __forceinline__ float (&flat(float (&fragments)[N][4]))[4 * N] {
    return reinterpret_cast<float (&)[4 * N]>(fragments);
}
// endregion

// region: load_tile
// Starts copying this thread's chunks of a tile of K or V; num_rows counts the keys from this thread's first one on, the rest becomes 0.
__device__ __forceinline__ void load_tile(unsigned char* dst_smem, const ELEMENT* pages, const long long* row_offsets, int num_rows) {
#pragma unroll
    for (int row = 0; row < BLOCK_N; row += COPY_ROWS) {  // at 0 bytes nothing is read, wherever the address points
        const long long offset = row_offsets[row + threadIdx.x / CHUNKS] + threadIdx.x % CHUNKS * CHUNK;
        cp_async_16_zfill(dst_smem + row * PANEL_ROW_BYTES, pages + offset, row < num_rows ? 16 : 0);
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
    const int copy_offset = panel_offset<BLOCK_N>(copy_row, copy_chunk);  // COPY_ROWS further: the same swizzle
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
    const unsigned long long q_desc = wgmma_descriptor(q_smem, 16, 8 * PANEL_ROW_BYTES);
    look_up(last_tile);
    look_up(last_tile - 1);
    for (int row = copy_row; row < BLOCK_M; row += COPY_ROWS) {
        const ELEMENT* source = in.q_row(rows, min(row, item.num_rows - 1)) + copy_chunk * CHUNK;
        cp_async_16_zfill(q_smem + panel_offset<BLOCK_M>(tile_row(row), copy_chunk), source, row < item.num_rows ? 16 : 0);
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
        fence_proxy_async();                 // wgmma reads through the async proxy what this thread has written
        __syncthreads();                     // all threads' copies have, and all warps are done with V of the tile before
        look_up(tile - 2);                   // read after the next barrier
        float scores[ROW_TILES][BLOCK_N / 8][4];  // (ROW_TILES, BLOCK_N / 8, 4)
        const unsigned long long k_desc = wgmma_descriptor(k_smem + tile % 2 * KV_BYTES, 16, 8 * PANEL_ROW_BYTES);
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i) {
            issue_q_k<ELEMENT, HEAD_DIM, BLOCK_M>(flat(scores[i]), q_desc + i * (WARPGROUP_ROWS * PANEL_ROW_BYTES / 16), k_desc);
        }
        wgmma_wait_group<0>();
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i) wgmma_keep_order(flat(scores[i]));

        load(v_smem, in.v_pages, tile - 1);  // where V of the tile before was
        cp_async_wait_group<2>();            // this thread's copies of this tile's V have landed
        fence_proxy_async();
        __syncthreads();                     // all threads' copies and look-ups have, and all warps are done with this tile's K
        const int kv_start = item.first_key + tile * BLOCK_N;
        const int first = rows.position(warp_row), last = rows.position(max(warp_row, warp_end));
        const bool cut = mask.cuts(kv_start, BLOCK_N, first, last);
        if (HAS_SCORE_MOD || cut) {
            modify_rows(scores, rows, warp_row, item.num_rows, kv_start, mask, cut, in.softmax_scale, in.parameters, lane);
        }
        lazy_softmax(scores, m, l, acc, in.scale_log2());
        const unsigned long long v_desc = wgmma_descriptor(v_smem + tile % 2 * KV_BYTES, BLOCK_N * PANEL_ROW_BYTES, 8 * PANEL_ROW_BYTES);
        unsigned probs[ROW_TILES][BLOCK_N / 16][4];  // (ROW_TILES, BLOCK_N / 16, 4)
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i) {
            pack_probs<ELEMENT>(probs[i], flat(scores[i]));
            issue_p_v<ELEMENT>(flat(acc[i]), probs[i], v_desc);
        }
        wgmma_wait_group<0>();
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i) wgmma_keep_order(flat(acc[i]));
    }
    cp_async_wait_all();  // without any tile, Q may still be on its way to where out is put
    __syncthreads();      // separates all threads' copies of Q, and the warp's reads, from the writes of out
    store_rows_item(to, item, rows, q_smem + warp_row * ROW_BYTES, acc, m, l, warp_row, lane);
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 2)
wgmma_rows_kernel(const ELEMENT* q, const ELEMENT* k_pages, const ELEMENT* v_pages, const int* block_table, const int* items,
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
