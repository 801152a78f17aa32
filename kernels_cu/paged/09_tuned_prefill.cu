// 09_tuned_prefill — causal attention of many new tokens over pages at the speed of FlashAttention-2 without pages
//
// Idea      05_paged_prefill with all steps up to 10_heavy_first; a key's page is looked up once, for K and V and all threads that
//           copy its row, a tile ahead. The rows' offsets are in shared memory: no register is left for them
// Builds on flash_attention_2/10_heavy_first. Changed regions: pages (new), load_tile (rows by table), heads (ragged queries), store.
// Contract  as 05_paged_prefill, and: softmax_scale_log2 is softmax_scale times log2(e)
// Launch    grid (H, ceil(largest n / BLOCK_M), B) · block 128 · dynamic shared memory (BLOCK_M + 2 * BLOCK_N) * D * 2 bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/paged_prefill.py: paged_prefill_kernel · that of 05_paged_prefill
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    T. Dao, "FlashAttention-2", 2023, algorithm 1 and section 3.3 (rows split over warps), arXiv:2307.08691
//           W. Kwon and others, "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023,
//           section 4.3, arXiv:2309.06180
#include "common/async_copy.cuh"       // cp_async_16_zfill, commit, wait
#include "common/attention_rows.cuh"   // the products and the mask of a warp's rows
#include "common/attention_tiles.cuh"  // HEAD_DIM, ELEMENT; the sizes of a block and of its tiles
#include "common/lazy_softmax.cuh"     // lazy_softmax
#include "common/wide_store.cuh"       // store_rows_wide
#include "common/xor_tiles.cuh"        // XorFragments, load_tile
#define Q_IN_REGISTERS (HEAD_DIM == 64)                   // a warp's rows take 32 of them; there is no room at D = 128
#define Q_FRAGMENTS (Q_IN_REGISTERS ? HEAD_DIM / 16 : 1)  // held at a time, each 16 columns wide
static_assert(BLOCK_N <= NUM_THREADS, "a thread looks up one key");

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
tuned_prefill_kernel(const ELEMENT* q, const ELEMENT* k_pages, const ELEMENT* v_pages, const int* block_table,
                     const int* seq_lens, const int* cu_seqlens_q, ELEMENT* out, float* lse, int num_q_per_kv, int page_size,
                     int max_pages, long long stride_q_token, long long stride_q_head, long long stride_page,
                     long long stride_slot, long long stride_kv_head, float softmax_scale_log2) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ long long row_offsets_smem[2][BLOCK_N];  // (2, BLOCK_N): where the rows of this tile and of the next begin
    unsigned char* q_smem = smem;                          // (BLOCK_M, HEAD_DIM)
    unsigned char* k_smem = q_smem + BLOCK_M * ROW_BYTES;  // (BLOCK_N, HEAD_DIM)
    unsigned char* v_smem = k_smem + BLOCK_N * ROW_BYTES;  // (BLOCK_N, HEAD_DIM)
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    // region: heads
    const int head = blockIdx.x, num_heads = gridDim.x;  // the heads of a group side by side: they share K and V through L2
    const long long batch = blockIdx.z, first_token = cu_seqlens_q[batch];
    const int seq_len_q = cu_seqlens_q[batch + 1] - (int)first_token, seq_len_kv = seq_lens[batch];
    const int num_q_tiles = CEIL_DIV(seq_len_q, BLOCK_M);
    if (blockIdx.y >= num_q_tiles) return;                          // fewer new tokens than the longest sequence has
    const int q_start = (num_q_tiles - 1 - blockIdx.y) * BLOCK_M;  // the last rows see most, so they go first
    // endregion

    // region: limits
    const int offset = seq_len_kv - seq_len_q;  // query q_row sees the keys up to q_row + offset
    const int kv_end = min(seq_len_kv, min(q_start + BLOCK_M, seq_len_q) + offset);
    const int full_end = min(seq_len_kv, q_start + 1 + offset);  // keys below it: seen by every row
    const int warp_row = q_start + warp * WARP_M;  // the warp's first query
    const int last_tile = kv_end > 0 ? CEIL_DIV(kv_end, BLOCK_N) - 1 : -1;
    // endregion

    // region: pages
    const int copy_row = threadIdx.x / CHUNKS, copy_chunk = threadIdx.x % CHUNKS;  // this thread's chunk of a tile
    const int copy_offset = swizzle_offset<ROW_BYTES>(copy_row, copy_chunk);
    // Looks up the keys of the tile at kv_start. Keys past the end are copied as 0 bytes, whatever their table entry.
    auto look_up = [&](int kv_start) {
        if (threadIdx.x < BLOCK_N) {
            const unsigned key = kv_start + threadIdx.x;
            const int page = block_table[batch * max_pages + min(key / page_size, max_pages - 1u)];
            row_offsets_smem[kv_start / BLOCK_N % 2][threadIdx.x] =
                head / num_q_per_kv * stride_kv_head + page * stride_page + key % page_size * stride_slot;
        }
    };
    if (last_tile >= 0) look_up(last_tile * BLOCK_N);
    __syncthreads();  // separates the writes of row_offsets_smem from their reads
    const XorFragments<ROW_BYTES> fragments(lane);
    // endregion

    // region: load_q
    q += (first_token + q_start + copy_row) * stride_q_token + head * stride_q_head + copy_chunk * CHUNK;
    load_tile(q_smem + copy_offset, q, stride_q_token, BLOCK_M, seq_len_q - q_start - copy_row);
    if (last_tile >= 0) {
        load_tile(k_smem + copy_offset, k_pages, row_offsets_smem[last_tile % 2], seq_len_kv - last_tile * BLOCK_N - copy_row);
    }
    cp_async_commit_group();
    float acc[ROW_TILES][HEAD_DIM / 8][4] = {};  // (ROW_TILES, HEAD_DIM / 8, 4): lane 4 g + t, rows g and g + 8
    float m[ROW_TILES][2], l[ROW_TILES][2] = {};  // (ROW_TILES, 2); m in units of log2; l over this lane's own columns
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) m[i][0] = m[i][1] = NEG_INF;
    unsigned q_reg[Q_FRAGMENTS][ROW_TILES][4];  // (Q_FRAGMENTS, ROW_TILES, 4)
    if (Q_IN_REGISTERS) {                       // read once, not once a tile
        cp_async_wait_group<0>();
        __syncthreads();  // separates all threads' copies of Q from the reads
#pragma unroll
        for (int d = 0; d < Q_FRAGMENTS; ++d) load_q_fragments(q_reg[d], q_smem, warp * WARP_M, d, fragments);
    }
    // endregion

    for (int kv_start = last_tile * BLOCK_N; kv_start >= 0; kv_start -= BLOCK_N) {
        // region: load_v
        cp_async_wait_group<0>();  // this thread's copies of this tile's K have landed
        __syncthreads();           // all threads' copies have, and all warps are done with the previous V tile
        load_tile(v_smem + copy_offset, v_pages, row_offsets_smem[kv_start / BLOCK_N % 2], seq_len_kv - kv_start - copy_row);
        cp_async_commit_group();
        if (kv_start > 0) look_up(kv_start - BLOCK_N);  // read after the next barrier
        // endregion

        // region: scores
        float scores[ROW_TILES][BLOCK_N / 8][4] = {};  // (ROW_TILES, BLOCK_N / 8, 4): q k^T without the scale
#pragma unroll
        for (int d = 0; d < HEAD_DIM / 16; ++d) {
            unsigned(&q_now)[ROW_TILES][4] = q_reg[Q_IN_REGISTERS ? d : 0];
            if (!Q_IN_REGISTERS) load_q_fragments(q_now, q_smem, warp * WARP_M, d, fragments);
            multiply_q_k<ELEMENT>(scores, q_now, k_smem, d, fragments);
        }
        // endregion

        // region: load_k
        cp_async_wait_group<0>();  // this thread's copies of this tile's V have landed
        __syncthreads();           // all threads' copies and look-ups have, and all warps are done with this tile's K
        if (kv_start > 0) load_tile(k_smem + copy_offset, k_pages, row_offsets_smem[(kv_start / BLOCK_N - 1) % 2], BLOCK_N);
        cp_async_commit_group();
        // endregion

        // region: mask
        if (kv_start + BLOCK_N > full_end) {
            if (kv_start > warp_row + WARP_M - 1 + offset) continue;  // no row of this warp sees a key of the tile
            mask_scores(scores, warp_row, kv_start, seq_len_kv, offset, 1, lane);
        }
        // endregion

        lazy_softmax(scores, m, l, acc, softmax_scale_log2);
        multiply_p_v<ELEMENT>(acc, scores, v_smem, fragments);
    }

    // region: store
    cp_async_wait_all();  // without any tile, Q may still be on its way to where out is put
    __syncthreads();      // separates all threads' copies of Q, and the warp's reads, from the writes of out
    const long long first_row = (first_token + warp_row) * num_heads + head;  // the next row: num_heads further
    unsigned char* out_smem = q_smem + warp * WARP_M * ROW_BYTES;  // (WARP_M, HEAD_DIM): the warp's own rows of Q
    store_rows_wide(out, lse, out_smem, acc, m, l, first_row, seq_len_q - warp_row, num_heads, lane);
    // endregion
}
