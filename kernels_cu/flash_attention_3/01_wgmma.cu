// 01_wgmma — FlashAttention-3 forward, first rung: the two products with wgmma, by one warpgroup
//
// Idea      128 threads multiply 64 rows at once, and the right operand comes straight from shared memory: no ldmatrix, no
//           fragments of K and V in registers. The tiles lie as wgmma reads them: panels of 64 columns, swizzled
// Builds on flash_attention_2/10_heavy_first. Changed regions: load_tile, scores, weights.
// Contract  q (B, H, Nq, D), k, v (B, Hkv, Nkv, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128 · any Nq, Nkv >= 1
//           strides in elements of batch, head and row; a row is contiguous, rows start at multiples of 16 bytes
//           out (B, H, Nq, D) ELEMENT, contiguous · lse (B, H, Nq) float, contiguous, natural log · B * H * Nq < 2^31
//           H = Hkv * num_q_per_kv; query head h reads head h / num_q_per_kv of k and v
//           softmax_scale_log2 > 0 is softmax_scale * log2(e)
//           causal bottom-right: query q_row sees the keys k <= q_row + Nkv - Nq · fully masked row: out 0, lse -inf
// Launch    grid (ceil(Nq/BLOCK_M) * H * B) · block 128
//           dynamic shared memory (BLOCK_M + 2 * BLOCK_N) * D * 2 bytes
// Needs     compute capability 9.0a · compiled by NVRTC: device code only, no host headers
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=64 -DELEMENT=__nv_bfloat16
// gate: -DHEAD_DIM=128 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    J. Shah et al., "FlashAttention-3", 2024, section 2.2, arXiv:2407.08608
//           PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions" (layouts: common/wgmma.cuh)
#include "common/async_copy.cuh"        // cp_async_16_zfill, commit, wait
#include "common/attention_macros.cuh"  // HEAD_DIM, ELEMENT
#include "common/attention_wgmma.cuh"   // the products, the mask and the softmax of a warpgroup's rows
#define BLOCK_M WARPGROUP_ROWS  // query rows of a block
#ifndef BLOCK_N
#define BLOCK_N 64  // keys of a tile
#endif
#define NUM_THREADS 128
#define CHUNK 8                           // elements in 16 bytes
#define CHUNKS (HEAD_DIM / CHUNK)         // in a row
#define COPY_ROWS (NUM_THREADS / CHUNKS)  // rows that the block copies in one pass
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");
static_assert(BLOCK_N % 16 == 0 && BLOCK_N <= 256, "wgmma: n is a multiple of 16 here, at most 256");

// region: load_tile
// Starts copying rows 0 to ROWS - 1 of `source` into a tile; rows from num_rows on become 0: a masked weight multiplies no NaN.
template <int ROWS>
__device__ __forceinline__ void load_tile(unsigned char* tile_smem, const ELEMENT* source, int stride_row, int num_rows) {
    const int chunk = threadIdx.x % CHUNKS, first_row = threadIdx.x / CHUNKS;
    unsigned char* panel_smem = tile_smem + chunk / 8 * (ROWS * PANEL_ROW_BYTES);
#pragma unroll
    for (int row = first_row; row < ROWS; row += COPY_ROWS) {
        cp_async_16_zfill(panel_smem + row * PANEL_ROW_BYTES + (chunk % 8 ^ row % 8) * 16,
                          source + (long long)row * stride_row + chunk * CHUNK, row < num_rows ? 16 : 0);
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
flash_attention_3_kernel(const ELEMENT* q, const ELEMENT* k, const ELEMENT* v, ELEMENT* out, float* lse,
                         int num_heads, int num_q_per_kv, int seq_len_q, int seq_len_kv,
                         long long stride_q_batch, long long stride_q_head, int stride_q_row,
                         long long stride_k_batch, long long stride_k_head, int stride_k_row,
                         long long stride_v_batch, long long stride_v_head, int stride_v_row,
                         float softmax_scale_log2, int causal) {
    extern __shared__ __align__(1024) unsigned char smem[];
    unsigned char* q_smem = smem;                              // (BLOCK_M, HEAD_DIM)
    unsigned char* k_smem = q_smem + BLOCK_M * HEAD_DIM * 2;  // (BLOCK_N, HEAD_DIM)
    unsigned char* v_smem = k_smem + BLOCK_N * HEAD_DIM * 2;  // (BLOCK_N, HEAD_DIM)
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    const int num_q_tiles = CEIL_DIV(seq_len_q, BLOCK_M), batch_head = blockIdx.x / num_q_tiles;
    const int q_start = (num_q_tiles - 1 - blockIdx.x % num_q_tiles) * BLOCK_M;  // the longest walks of a causal head first
    const QueryTile tile = query_tile(q_start, BLOCK_M, BLOCK_N, batch_head, num_heads, num_q_per_kv, seq_len_q, seq_len_kv, causal);
    const int first_row = tile.q_start + warp * 16 + lane / 4;  // this lane's rows: first_row and first_row + 8
    k += tile.batch * stride_k_batch + tile.kv_head * stride_k_head;
    v += tile.batch * stride_v_batch + tile.kv_head * stride_v_head;

    // region: load_q
    q += tile.batch * stride_q_batch + tile.head * stride_q_head + (long long)tile.q_start * stride_q_row;
    load_tile<BLOCK_M>(q_smem, q, stride_q_row, seq_len_q - tile.q_start);
    // endregion

    // region: descriptors
    const unsigned long long q_desc = wgmma_descriptor(q_smem, 16, 8 * PANEL_ROW_BYTES);
    const unsigned long long k_desc = wgmma_descriptor(k_smem, 16, 8 * PANEL_ROW_BYTES);
    const unsigned long long v_desc = wgmma_descriptor(v_smem, BLOCK_N * PANEL_ROW_BYTES, 8 * PANEL_ROW_BYTES);  // transposed
    // endregion

    float acc[HEAD_DIM / 2], scores[BLOCK_N / 2];
    float m[2] = {NEG_INF, NEG_INF}, l[2] = {0.0f, 0.0f}, alpha[2];
    unsigned probs[BLOCK_N / 16][4];
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; ++i) acc[i] = 0.0f;
    for (int j = tile.num_kv_tiles - 1; j >= 0; --j) {
        const int kv_start = j * BLOCK_N;
        // region: load_kv
        load_tile<BLOCK_N>(k_smem, k + (long long)kv_start * stride_k_row, stride_k_row, seq_len_kv - kv_start);
        load_tile<BLOCK_N>(v_smem, v + (long long)kv_start * stride_v_row, stride_v_row, seq_len_kv - kv_start);
        cp_async_wait_all();
        fence_proxy_async();  // wgmma reads through the async proxy what this thread has written
        __syncthreads();      // separates all threads' copies from the products
        // endregion

        // region: scores
        issue_q_k<ELEMENT, HEAD_DIM, BLOCK_M>(scores, q_desc, k_desc);
        wgmma_wait_group<0>();
        wgmma_keep_order(scores);
        // endregion

        // region: weights
        if (kv_start + BLOCK_N > tile.full_end) {
            mask_scores(scores, first_row, kv_start, seq_len_kv, seq_len_kv - seq_len_q, causal, lane);
        }
        online_softmax(scores, m, l, alpha, softmax_scale_log2);
        rescale(acc, alpha);
        pack_probs<ELEMENT>(probs, scores);
        issue_p_v<ELEMENT>(acc, probs, v_desc);
        wgmma_wait_group<0>();
        wgmma_keep_order(acc);
        __syncthreads();  // separates all warps' products from the next tile's copies; one warpgroup's wait does too
        // endregion
    }

    // region: store
    cp_async_wait_all();  // without any tile, Q is still in flight
    const float l_row[2] = {quad_sum(l[0]), quad_sum(l[1])};
    const long long head_row = (long long)batch_head * seq_len_q;
    store_rows(out + head_row * HEAD_DIM, acc, l_row, first_row, seq_len_q, lane);
    store_lse(lse + head_row, m, l_row, first_row, seq_len_q, lane);
    // endregion
}
