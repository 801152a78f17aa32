// 03_mla — multi-head latent attention in absorbed form, decode: all heads read one latent row a token
//
// Idea      the cache holds a latent of 512 numbers and a rope key of 64 for each token. With W_UK absorbed into q, a head's query has
//           576 numbers and the latent row is its key; the first 512 numbers of the same row are its value. So many rows share one
//           key, and what a tile of keys brings serves both products: V is a part of K in shared memory
// Builds on 01_work_list. Changed regions: load_tile, scores, row_max, weights, weighted_sum.
// Contract  q (total_q, H, 576) ELEMENT (__half or __nv_bfloat16): 512 of the absorbed query, then 64 of its rope part
//           out (total_q, H, 512) ELEMENT, contiguous: sums of latents, which W_UV turns into values
//           H = Hkv * GROUP, GROUP 1 to 64: Hkv groups of heads that read the same rows, and walk them by items of their own
//           q any stride of token and head, rows contiguous, at multiples of 16 bytes
//           pages ELEMENT: the row of page p, slot s begins at p * stride_page + s * stride_slot, at multiples of 16 bytes
//           block_table, items, first_items, token_parts, lse, counters, causal as 01_work_list, with at most BLOCK_M rows an item
//           part_out (parts, H, 512), part_lse (parts, H) float: scratch · a row that sees no key: out 0, lse -inf
// Launch    grid: as first_items has lists · block 256 · dynamic shared memory SHARED_BYTES
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      none: the twin of an item's walk is that of a plain decode, which chapter 10 has
// gate: -DELEMENT=__half -DGROUP=16
// gate: -DELEMENT=__nv_bfloat16 -DGROUP=64
// Source    DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1, arXiv:2405.04434
#ifndef ELEMENT
#error "ELEMENT: type of q, pages and out; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#ifndef GROUP
#error "GROUP: query heads that share an item; pass -DGROUP=1 to 64"
#endif
#include "common/async_copy.cuh"      // cp_async_16_zfill, wait
#include "common/attention_rows.cuh"  // load_q_fragments, row_sum
#include "common/lazy_softmax.cuh"    // MAX_GROWTH
#include "common/part_merge.cuh"      // the merge of parts
#include "common/score_mods.cuh"      // Mask
#include "common/work_item.cuh"
#include "common/xor_fragments.cuh"   // XorFragments
#define LATENT_DIM 512
#define ROW_DIM 576                   // latent and rope: the width of a query and of a key
#define ROW_BYTES (ROW_DIM * 2)
#define BLOCK_M 64                    // rows of an item
#define BLOCK_N 32                    // keys of a tile
#define ROW_WARPS 4                   // 16 rows each, in two columns of warps
#define NUM_WARPS (2 * ROW_WARPS)
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)
#define CHUNK 8                       // elements in 16 bytes
#define CHUNKS (ROW_DIM / CHUNK)      // in a row
#define WARP_KEYS (BLOCK_N / 2)       // keys whose scores a warp computes
#define WARP_COLS (LATENT_DIM / 2)    // columns of out that a warp sums up
#define TILE_BYTES (BLOCK_N * ROW_BYTES)
#define PROBS_BYTES (BLOCK_N * 2)     // a row of weights
#define SHARED_BYTES (BLOCK_M * ROW_BYTES + 2 * TILE_BYTES + BLOCK_M * PROBS_BYTES)
static_assert(GROUP >= 1 && GROUP <= BLOCK_M, "a token's rows fit into one item");
static_assert(BLOCK_N % 16 == 0 && WARP_KEYS % 16 == 0, "a warp multiplies fragments of 16 keys");

struct Inputs {
    const ELEMENT *q, *pages;
    const int* block_table;  // of the first request
    int page_size, max_pages;
    long long stride_q_token, stride_q_head, stride_page, stride_slot;
    // Where key `key` of a request begins, in elements. A key past the item's end may have any table entry: it is copied as 0 bytes.
    __device__ __forceinline__ long long key_offset(const WorkItem& item, int key) const {
        const int page = block_table[(long long)item.request * max_pages + min(key / page_size, max_pages - 1)];
        return page * stride_page + key % page_size * stride_slot;
    }
    __device__ __forceinline__ const ELEMENT* q_row(const PackedRows<GROUP>& rows, int row) const {
        return q + rows.token(row) * stride_q_token + rows.head(row) * stride_q_head;
    }
};

// region: load_tile
// Starts copying the rows of a tile; row_offsets says where each begins, the rows from num_rows on become 0.
__device__ __forceinline__ void load_tile(unsigned char* tile_smem, const ELEMENT* pages, const long long* row_offsets, int num_rows) {
    for (int i = threadIdx.x; i < BLOCK_N * CHUNKS; i += NUM_THREADS) {  // at 0 bytes nothing is read, wherever the address points
        const int row = i / CHUNKS, chunk = i % CHUNKS;
        cp_async_16_zfill(tile_smem + swizzle_offset<ROW_BYTES>(row, chunk), pages + row_offsets[row] + chunk * CHUNK,
                          row < num_rows ? 16 : 0);
    }
}
// endregion

// region: row_max
// m moves to the largest score of both warps of a row where that has outgrown it; returns whether a row of this warp has moved.
// m_smem (2, BLOCK_M): the largest score of each warp's keys, in units of log2.
__device__ __forceinline__ bool grow(float (&m)[2], float (&l)[2], float (&alpha)[2], const float (*m_smem)[BLOCK_M], int lane_row) {
    bool moved = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float m_tile = fmaxf(m_smem[0][lane_row + half * 8], m_smem[1][lane_row + half * 8]);
        const bool outgrown = m_tile - m[half] > MAX_GROWTH;  // false for -inf minus -inf; the same in both warps
        alpha[half] = outgrown ? fast_exp2(m[half] - m_tile) : 1.0f;
        if (outgrown) m[half] = m_tile;
        l[half] *= alpha[half];
        moved |= outgrown;
    }
    return __any_sync(ALL_LANES, moved);
}
// endregion

// region: weights
// Scores become weights, rounded, in probs_smem (BLOCK_M, BLOCK_N); l grows by their sum. first_key: of this warp in the tile.
__device__ __forceinline__ void leave_weights(unsigned char* probs_smem, float (&scores)[1][WARP_KEYS / 8][4], const float (&m)[2],
                                              float (&l)[2], float scale_log2, int lane_row, int first_key, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float shift = m[half] == NEG_INF ? 0.0f : m[half];  // never -inf minus -inf
        const int row = lane_row + half * 8;
#pragma unroll
        for (int j = 0; j < WARP_KEYS / 8; ++j) {
            const float a = fast_exp2(scores[0][j][half * 2] * scale_log2 - shift);
            const float b = fast_exp2(scores[0][j][half * 2 + 1] * scale_log2 - shift);
            l[half] += a + b;
            const int chunk = swizzle_offset<PROBS_BYTES>(row, first_key / 8 + j);
            *reinterpret_cast<unsigned*>(probs_smem + chunk + lane % 4 * 4) = pack_pair(a, b, ELEMENT());
        }
    }
}
// endregion

// region: store_item
// The warp's 16 rows and WARP_COLS columns of an item, from first_col on: to out if the item is whole, else to its part.
__device__ __forceinline__ void store_item(const Results<ELEMENT>& to, const WorkItem& item, const PackedRows<GROUP>& rows,
                                           const float (&acc)[1][WARP_COLS / 8][4], const float (&m)[2], const float (&l)[2],
                                           int lane_row, int first_col, int lane) {
    const bool whole = item.whole;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = lane_row + half * 8;
        if (row >= item.num_rows) continue;
        const float lse_log2 = m[half] + log2f(l[half]), scale = inverse(m[half], lse_log2);  // no key: -inf + log2(0) = -inf
        const long long part = whole ? 0 : to.part_row(rows.token(row), rows.head(row), item.part);
        if (first_col == 0 && lane % 4 == 0) {
            if (whole) to.lse[rows.out_row(row)] = lse_log2 * LN_2;
            else to.part_lse[part] = lse_log2;
        }
#pragma unroll
        for (int j = 0; j < WARP_COLS / 8; ++j) {
            const float a = acc[0][j][half * 2] * scale, b = acc[0][j][half * 2 + 1] * scale;
            const int col = first_col + j * 8 + lane % 4 * 2;
            if (whole) *reinterpret_cast<unsigned*>(to.out + rows.out_row(row) * LATENT_DIM + col) = pack_pair(a, b, ELEMENT());
            else *reinterpret_cast<float2*>(to.part_out + part * LATENT_DIM + col) = make_float2(a, b);
        }
    }
}
// endregion

// An item: its keys from the first tile to the last. Warps w and w + ROW_WARPS have the same 16 rows; each computes the scores of
// half of a tile's keys, and sums up half of the columns over all of them.
__device__ __forceinline__ void attend(const Inputs& in, const WorkItem& item, const PackedRows<GROUP>& rows, const Mask& mask,
                                       const Results<ELEMENT>& to, unsigned char* smem, long long (*row_offsets_smem)[BLOCK_N],
                                       float (*m_smem)[BLOCK_M], float (*l_smem)[BLOCK_M], float scale_log2) {
    unsigned char* q_smem = smem;                             // (BLOCK_M, ROW_DIM)
    unsigned char* tiles_smem = q_smem + BLOCK_M * ROW_BYTES;  // (2, BLOCK_N, ROW_DIM)
    unsigned char* probs_smem = tiles_smem + 2 * TILE_BYTES;   // (BLOCK_M, BLOCK_N)
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    const int warp_row = warp % ROW_WARPS * 16, side = warp / ROW_WARPS, lane_row = warp_row + lane / 4;
    const bool has_rows = warp_row < item.num_rows;
    const XorFragments<ROW_BYTES> fragments(lane);
    const int num_tiles = CEIL_DIV(item.end_key - item.first_key, BLOCK_N);
    auto look_up = [&](int tile) {
        if (tile < num_tiles && threadIdx.x < BLOCK_N) {
            row_offsets_smem[tile % 2][threadIdx.x] = in.key_offset(item, item.first_key + tile * BLOCK_N + threadIdx.x);
        }
    };
    auto load = [&](int tile) {
        if (tile < num_tiles) {
            load_tile(tiles_smem + tile % 2 * TILE_BYTES, in.pages, row_offsets_smem[tile % 2],
                      item.end_key - item.first_key - tile * BLOCK_N);
        }
    };
    look_up(0);
    look_up(1);
    for (int i = threadIdx.x; i < BLOCK_M * CHUNKS; i += NUM_THREADS) {
        const int row = i / CHUNKS, chunk = i % CHUNKS;
        cp_async_16_zfill(q_smem + swizzle_offset<ROW_BYTES>(row, chunk), in.q_row(rows, min(row, item.num_rows - 1)) + chunk * CHUNK,
                          row < item.num_rows ? 16 : 0);
    }
    __syncthreads();  // separates the writes of row_offsets_smem from their reads
    load(0);

    float acc[1][WARP_COLS / 8][4] = {};  // (1, WARP_COLS / 8, 4): lane 4 g + t, rows g and g + 8
    float m[2] = {NEG_INF, NEG_INF}, l[2] = {}, alpha[2];  // of rows g and g + 8; m in units of log2; l over this lane's own columns
    for (int tile = 0; tile < num_tiles; ++tile) {
        const unsigned char* kv_smem = tiles_smem + tile % 2 * TILE_BYTES;
        cp_async_wait_all();  // this thread's copies of the tile have landed
        __syncthreads();      // all threads' copies have, and all warps are done with the tile before and with its weights
        load(tile + 1);       // where the tile before was
        // region: scores
        float scores[1][WARP_KEYS / 8][4] = {};  // (1, WARP_KEYS / 8, 4): of this warp's half of the keys
        if (has_rows) {
#pragma unroll 4
            for (int d = 0; d < ROW_DIM / 16; ++d) {
                unsigned q_reg[1][4];
                load_q_fragments(q_reg, q_smem, warp_row, d, fragments);
                multiply_q_k<ELEMENT>(scores, q_reg, kv_smem + side * WARP_KEYS * ROW_BYTES, d, fragments);
            }
        }
        const int kv_start = item.first_key + tile * BLOCK_N + side * WARP_KEYS;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int end = mask.end(rows.position(min(lane_row + half * 8, item.num_rows - 1)));
            float m_lane = NEG_INF;
#pragma unroll
            for (int j = 0; j < WARP_KEYS / 8; ++j) {
#pragma unroll
                for (int e = 2 * half; e < 2 * half + 2; ++e) {
                    if (kv_start + 8 * j + lane % 4 * 2 + e % 2 >= end) scores[0][j][e] = NEG_INF;
                    m_lane = fmaxf(m_lane, scores[0][j][e] * scale_log2);
                }
            }
            m_lane = fmaxf(m_lane, __shfl_xor_sync(ALL_LANES, m_lane, 1));  // four lanes share a row
            m_lane = fmaxf(m_lane, __shfl_xor_sync(ALL_LANES, m_lane, 2));
            if (lane % 4 == 0) m_smem[side][lane_row + half * 8] = m_lane;
        }
        // endregion
        __syncthreads();  // separates the writes of m_smem, and the reads of row_offsets_smem, from what follows
        look_up(tile + 2);
        if (grow(m, l, alpha, m_smem, lane_row)) {
#pragma unroll
            for (int j = 0; j < WARP_COLS / 8; ++j) {
#pragma unroll
                for (int e = 0; e < 4; ++e) acc[0][j][e] *= alpha[e / 2];
            }
        }
        leave_weights(probs_smem, scores, m, l, scale_log2, lane_row, side * WARP_KEYS, lane);
        __syncthreads();  // separates the writes of the weights from their reads by both warps of a row
        // region: weighted_sum
        if (!has_rows) continue;
#pragma unroll
        for (int j = 0; j < BLOCK_N / 16; ++j) {
            unsigned probs_reg[4];  // the warp's rows, 16 keys
            ldmatrix_x4(probs_reg[0], probs_reg[1], probs_reg[2], probs_reg[3],
                        probs_smem + swizzle_offset<PROBS_BYTES>(warp_row + lane % 16, 2 * j + lane / 16));
#pragma unroll
            for (int d = 0; d < WARP_COLS / 16; ++d) {
                unsigned v_reg[2][2];  // columns 0-7 and 8-15 of the latents; their rows are keys, so ldmatrix transposes here
                ldmatrix_x4_trans(v_reg[0][0], v_reg[0][1], v_reg[1][0], v_reg[1][1],
                                  fragments.rows(kv_smem, j * 16, side * (WARP_COLS / 16) + d));
                mma_m16n8k16(acc[0][2 * d], probs_reg, v_reg[0], ELEMENT());
                mma_m16n8k16(acc[0][2 * d + 1], probs_reg, v_reg[1], ELEMENT());
            }
        }
        // endregion
    }
    cp_async_wait_all();  // without any tile Q is still under way to where the next item's Q goes; a plan has such items last
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        l[half] = row_sum(l[half]);
        if (lane % 4 == 0) l_smem[side][lane_row + half * 8] = l[half];
    }
    __syncthreads();  // separates the writes of l_smem from their reads
#pragma unroll
    for (int half = 0; half < 2; ++half) l[half] = l_smem[0][lane_row + half * 8] + l_smem[1][lane_row + half * 8];
    store_item(to, item, rows, acc, m, l, lane_row, side * WARP_COLS, lane);
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
mla_kernel(const ELEMENT* q, const ELEMENT* pages, const int* block_table, const int* items, const int* first_items,
           const int* token_parts, ELEMENT* out, float* lse, float* part_out, float* part_lse, int* counters, int num_heads,
           int page_size, int max_pages, long long stride_q_token, long long stride_q_head, long long stride_page,
           long long stride_slot, float softmax_scale, int causal) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ long long row_offsets_smem[2][BLOCK_N];          // where the rows of this tile and of the next begin
    __shared__ float m_smem[2][BLOCK_M], l_smem[2][BLOCK_M];    // of both warps of a row
    __shared__ int item_smem[WORK_ITEM_INTS];
    __shared__ int tokens_smem[NUM_THREADS], count_smem;        // tokens whose last part an item is
    const Inputs in = {q, pages, block_table, page_size, max_pages, stride_q_token, stride_q_head, stride_page, stride_slot};
    const Results<ELEMENT> to = {out, lse, part_out, part_lse, token_parts, nullptr, num_heads};
    for (int item_idx = first_items[blockIdx.x]; item_idx < first_items[blockIdx.x + 1]; ++item_idx) {
        if (threadIdx.x < WORK_ITEM_INTS) item_smem[threadIdx.x] = items[item_idx * WORK_ITEM_INTS + threadIdx.x];
        __syncthreads();  // separates the write of the item from its reads
        const WorkItem& item = *reinterpret_cast<const WorkItem*>(item_smem);
        const PackedRows<GROUP> rows(item, num_heads);
        const Mask mask = {causal, -1, item.first_key, item.end_key, (unsigned)item.seq_len_kv, 0u, nullptr};
        attend(in, item, rows, mask, to, smem, row_offsets_smem, m_smem, l_smem, softmax_scale * LOG2_E);
        if (!item.whole) {
            const int num_tokens = finished_tokens<GROUP>(to, item, counters, tokens_smem, &count_smem);
            merge_parts<GROUP, LATENT_DIM, NUM_THREADS>(to, rows, tokens_smem, num_tokens);
        }
        __syncthreads();  // separates this item's reads of shared memory from the next item's writes
    }
}
