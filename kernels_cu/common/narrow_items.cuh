// narrow_items — items of an attention engine with few rows: each warp has its own keys, the rows are the columns of its products
//
// The inputs of an engine over pages of ELEMENT, and what a block does with an item of up to NARROW_ROWS packed rows
// (common/work_item.cuh). Four warps take the tiles of TILE_KEYS keys in turn, each through a ring of NUM_STAGES tiles in shared
// memory; their states are merged at the end. A caller may set NUM_STAGES. Device code only, no host headers.
#pragma once
#ifndef GROUP
#error "GROUP: query heads of a key-value head; pass -DGROUP=1 to 64"
#endif
#include "common/async_copy.cuh"         // cp_async_16_zfill, commit, wait
#include "common/attention_columns.cuh"  // products and softmax
#include "common/attention_tiles.cuh"    // HEAD_DIM, ELEMENT, NUM_WARPS
#include "common/part_merge.cuh"         // stores
#include "common/score_mods.cuh"         // SCORE_MOD, CUSTOM_MASK
#include "common/swizzle.cuh"
#include "common/work_item.cuh"
#define NARROW_ROWS (GROUP > 8 ? 16 : 8)
#define COL_TILES (NARROW_ROWS / 8)
#define TILE_KEYS 16                      // keys that a warp works on at a time
#ifndef NUM_STAGES
#define NUM_STAGES 3                      // tiles in a warp's ring
#endif
#define TILE_BYTES (TILE_KEYS * ROW_BYTES)
#define WARP_COPY_ROWS (WARP_SIZE / CHUNKS)  // rows that a warp copies in one pass
#define ACC_STRIDE (HEAD_DIM + 4)             // floats from one row to the next of a warp's sums in shared memory
#define RINGS_BYTES (NUM_WARPS * NUM_STAGES * 2 * TILE_BYTES)
static_assert(GROUP >= 1 && GROUP <= 64, "a token's rows fit into one item");
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
