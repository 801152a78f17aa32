// 05_paged_prefill — causal attention of many new tokens over pages (prefill, and appending to a cache)
//
// Idea      FlashAttention needs only the address of row `key` of K and V, and a block table gives it: paging outside,
//           FlashAttention inside, and neither depends on the other. The new tokens are already in the pages
// Builds on flash_attention_2/03_swizzled. Changed regions: load_tile (rows by table), heads (ragged queries), store.
// Contract  q (total_q, H, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128: the new tokens of all sequences, one sequence
//           after the other; sequence b has rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] · any stride of tokens and heads
//           k_pages, v_pages ELEMENT: page p, slot s, head h begins at p * stride_page + s * stride_slot + h * stride_kv_head
//           (both layouts, NHD and HND, are strides), the same strides for both pools; all rows at multiples of 16 bytes
//           block_table (B, max_pages) int · seq_lens (B,) int: tokens in the pages, the new ones included
//           out (total_q, H, D) ELEMENT, lse (total_q, H) float, natural log, both contiguous
//           causal bottom-right: new token i of n sees the keys k <= i + seq_len - n · a row that sees none: out 0, lse -inf
//           read: the first seq_len slots, the first ceil(seq_len / page_size) table entries; the rest is undefined
//           H = Hkv * num_q_per_kv · softmax_scale > 0
// Launch    grid (ceil(largest n / BLOCK_M), H, B) · block 128 · dynamic shared memory (BLOCK_M + 2 * BLOCK_N) * D * 2 bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/paged_prefill.py: paged_prefill_kernel
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    T. Dao, "FlashAttention-2", 2023, algorithm 1, arXiv:2307.08691
//           W. Kwon and others, "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023,
//           section 4.3, arXiv:2309.06180
#include "common/attention_rows.cuh"   // the products, the mask, the softmax and the store of a warp's rows
#include "common/attention_tiles.cuh"  // HEAD_DIM, ELEMENT; the sizes of a block and of its tiles
#include "common/placed_tiles.cuh"     // PlacedFragments
#include "common/swizzle.cuh"          // swizzle_offset<row bytes>(row, chunk)

// region: place
// Offset of chunk `chunk` of row `row`, in bytes from the start of a tile.
__device__ __forceinline__ int place(int row, int chunk) { return swizzle_offset<ROW_BYTES>(row, chunk); }
// endregion

// region: load_tile
// Copies tokens `start` to start + tile_rows - 1 of one sequence; rows from `end` on become 0, without a table look-up.
__device__ __forceinline__ void load_tile(unsigned char* tile_smem, const ELEMENT* pages, const int* table, int page_size,
                                          long long stride_page, long long stride_slot, int tile_rows, int start, int end) {
    const int chunk = threadIdx.x % CHUNKS;
#pragma unroll 4
    for (int row = threadIdx.x / CHUNKS; row < tile_rows; row += NUM_THREADS / CHUNKS) {
        uint4 part = make_uint4(0, 0, 0, 0);
        const int key = start + row;
        // region: page
        if (key < end) {
            const long long row_offset = table[key / page_size] * stride_page + key % page_size * stride_slot;
            part = *reinterpret_cast<const uint4*>(pages + row_offset + chunk * CHUNK);
        }
        // endregion
        *reinterpret_cast<uint4*>(tile_smem + place(row, chunk)) = part;
    }
}

// The same for queries, which are packed: row after row.
__device__ __forceinline__ void load_q_tile(unsigned char* tile_smem, const ELEMENT* q, long long stride_token, int num_rows) {
    const int chunk = threadIdx.x % CHUNKS;
    for (int row = threadIdx.x / CHUNKS; row < BLOCK_M; row += NUM_THREADS / CHUNKS) {
        uint4 part = make_uint4(0, 0, 0, 0);
        if (row < num_rows) part = *reinterpret_cast<const uint4*>(q + row * stride_token + chunk * CHUNK);
        *reinterpret_cast<uint4*>(tile_smem + place(row, chunk)) = part;
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
paged_prefill_kernel(const ELEMENT* q, const ELEMENT* k_pages, const ELEMENT* v_pages, const int* block_table,
                     const int* seq_lens, const int* cu_seqlens_q, ELEMENT* out, float* lse, int num_q_per_kv, int page_size,
                     int max_pages, long long stride_q_token, long long stride_q_head, long long stride_page,
                     long long stride_slot, long long stride_kv_head, float softmax_scale) {
    extern __shared__ __align__(128) unsigned char smem[];
    unsigned char* q_smem = smem;                          // (BLOCK_M, HEAD_DIM)
    unsigned char* k_smem = q_smem + BLOCK_M * ROW_BYTES;  // (BLOCK_N, HEAD_DIM)
    unsigned char* v_smem = k_smem + BLOCK_N * ROW_BYTES;  // (BLOCK_N, HEAD_DIM)
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    // region: heads
    const int head = blockIdx.y, num_heads = gridDim.y, q_start = blockIdx.x * BLOCK_M;
    const long long batch = blockIdx.z, first_token = cu_seqlens_q[batch];
    const int seq_len_q = cu_seqlens_q[batch + 1] - (int)first_token, seq_len_kv = seq_lens[batch];
    if (q_start >= seq_len_q) return;  // this sequence has fewer new tokens than the longest
    q += (first_token + q_start) * stride_q_token + head * stride_q_head;
    k_pages += head / num_q_per_kv * stride_kv_head;
    v_pages += head / num_q_per_kv * stride_kv_head;
    const int* table = block_table + batch * max_pages;
    out += ((first_token + q_start) * num_heads + head) * HEAD_DIM;
    lse += (first_token + q_start) * num_heads + head;
    // endregion

    // region: limits
    const int offset = seq_len_kv - seq_len_q;  // query q_row sees the keys up to q_row + offset
    const int kv_end = min(seq_len_kv, min(q_start + BLOCK_M, seq_len_q) + offset);
    const int full_end = min(seq_len_kv, q_start + 1 + offset);  // keys below it: seen by every row
    const int warp_row = q_start + warp * WARP_M;  // the warp's first query
    // endregion

    // region: load_q
    load_q_tile(q_smem, q, stride_q_token, seq_len_q - q_start);
    float acc[ROW_TILES][HEAD_DIM / 8][4] = {};  // (ROW_TILES, HEAD_DIM / 8, 4): lane 4 g + t, rows g and g + 8
    float m[ROW_TILES][2], l[ROW_TILES][2] = {};  // (ROW_TILES, 2); l over this lane's own columns
    for (int i = 0; i < ROW_TILES; ++i) m[i][0] = m[i][1] = NEG_INF;
    const float scale_log2 = softmax_scale * LOG2_E;  // exp(x * softmax_scale) == exp2(x * scale_log2)
    const PlacedFragments<place> fragments = {lane};
    // endregion

    for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_N) {
        // region: load_kv
        __syncthreads();  // separates the reads of the previous tiles from the writes of these
        load_tile(k_smem, k_pages, table, page_size, stride_page, stride_slot, BLOCK_N, kv_start, seq_len_kv);
        load_tile(v_smem, v_pages, table, page_size, stride_page, stride_slot, BLOCK_N, kv_start, seq_len_kv);
        __syncthreads();  // separates the writes of Q, K and V from their reads
        // endregion

        // region: scores
        float scores[ROW_TILES][BLOCK_N / 8][4] = {};  // (ROW_TILES, BLOCK_N / 8, 4): q k^T without the scale
#pragma unroll
        for (int d = 0; d < HEAD_DIM / 16; ++d) {
            unsigned q_reg[ROW_TILES][4];  // (ROW_TILES, 4): 16 columns of the warp's rows
            load_q_fragments(q_reg, q_smem, warp * WARP_M, d, fragments);
            multiply_q_k<ELEMENT>(scores, q_reg, k_smem, d, fragments);
        }
        // endregion

        // region: mask
        if (kv_start + BLOCK_N > full_end) {  // only tiles that the diagonal or the end of the keys cuts
            mask_scores(scores, warp_row, kv_start, seq_len_kv, offset, 1, lane);
        }
        // endregion

        online_softmax(scores, m, l, acc, scale_log2);
        multiply_p_v<ELEMENT>(acc, scores, v_smem, fragments);
    }

    // region: store
    store_rows(out, lse, acc, m, l, warp * WARP_M, seq_len_q - q_start, num_heads, softmax_scale, lane);
    // endregion
}
