// 02_tma_ring — FlashAttention-3 forward: TMA brings the tiles, mbarriers count their bytes
//
// Idea      one thread asks for a whole tile, the copy engine computes its addresses, swizzles it and fills the end with zeros; while
//           the warpgroup works on one stage of the ring, the next is on its way
// Builds on 01_wgmma. Changed regions: barriers, load_kv, scores, weights.
// Contract  q (B, H, Nq, D), k, v (B, Hkv, Nkv, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128 · any Nq, Nkv >= 1
//           as tensor maps with the swizzle of 128 bytes; boxes (1, 1, BLOCK_M, 64) of q and (1, 1, BLOCK_N, 64) of k and v
//           out (B, H, Nq, D) ELEMENT, contiguous · lse (B, H, Nq) float, contiguous, natural log · B * H * Nq < 2^31
//           H = Hkv * num_q_per_kv; query head h reads head h / num_q_per_kv of k and v
//           softmax_scale_log2 > 0 is softmax_scale * log2(e)
//           causal bottom-right: query q_row sees the keys k <= q_row + Nkv - Nq · fully masked row: out 0, lse -inf
// Launch    grid (ceil(Nq/BLOCK_M) * H * B) · block 128
//           dynamic shared memory (BLOCK_M + 2 * NUM_STAGES * BLOCK_N) * D * 2 bytes
// Needs     compute capability 9.0a · compiled by NVRTC: device code only, no host headers
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=64 -DELEMENT=__nv_bfloat16
// gate: -DHEAD_DIM=128 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    J. Shah et al., "FlashAttention-3", 2024, section 2.2, arXiv:2407.08608
//           PTX ISA, "cp.async.bulk.tensor", "mbarrier"
#include "common/attention_macros.cuh"  // HEAD_DIM, ELEMENT
#include "common/attention_wgmma.cuh"   // the products, the mask and the softmax of a warpgroup's rows
#include "common/ring.cuh"              // Ring: stage and parity
#define BLOCK_M WARPGROUP_ROWS  // query rows of a block
#ifndef BLOCK_N
#define BLOCK_N 64  // keys of a tile
#endif
#define NUM_STAGES 2
#define NUM_THREADS 128
#define Q_BYTES (BLOCK_M * HEAD_DIM * 2)
#define KV_BYTES (BLOCK_N * HEAD_DIM * 2)
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");
static_assert(BLOCK_N % 16 == 0 && BLOCK_N <= 256, "wgmma: n is a multiple of 16 here, at most 256");

// region: load_kv
// One thread starts the copies of keys kv_start and up into a stage of K and of V.
__device__ __forceinline__ void load_kv(unsigned char* k_smem, unsigned char* v_smem, const TensorMap* k_map, const TensorMap* v_map,
                                        mbarrier_t* k_full, mbarrier_t* v_full, int stage, int kv_start, const QueryTile& tile) {
    mbarrier_arrive_expect_tx(&k_full[stage], KV_BYTES);
    load_panels<HEAD_DIM, BLOCK_N>(k_smem + stage * KV_BYTES, k_map, &k_full[stage], kv_start, tile.kv_head, tile.batch);
    mbarrier_arrive_expect_tx(&v_full[stage], KV_BYTES);
    load_panels<HEAD_DIM, BLOCK_N>(v_smem + stage * KV_BYTES, v_map, &v_full[stage], kv_start, tile.kv_head, tile.batch);
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
flash_attention_3_kernel(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
                         const __grid_constant__ TensorMap v_map, ELEMENT* out, float* lse, int num_heads, int num_q_per_kv,
                         int seq_len_q, int seq_len_kv, float softmax_scale_log2, int causal) {
    extern __shared__ __align__(1024) unsigned char smem[];
    unsigned char* q_smem = smem;                            // (BLOCK_M, HEAD_DIM)
    unsigned char* k_smem = q_smem + Q_BYTES;                // (NUM_STAGES, BLOCK_N, HEAD_DIM)
    unsigned char* v_smem = k_smem + NUM_STAGES * KV_BYTES;  // (NUM_STAGES, BLOCK_N, HEAD_DIM)
    __shared__ mbarrier_t q_full, k_full[NUM_STAGES], v_full[NUM_STAGES];
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    const int num_q_tiles = CEIL_DIV(seq_len_q, BLOCK_M), batch_head = blockIdx.x / num_q_tiles;
    const int q_start = (num_q_tiles - 1 - blockIdx.x % num_q_tiles) * BLOCK_M;  // the longest walks of a causal head first
    const QueryTile tile = query_tile(q_start, BLOCK_M, BLOCK_N, batch_head, num_heads, num_q_per_kv, seq_len_q, seq_len_kv, causal);
    const int first_row = tile.q_start + warp * 16 + lane / 4;  // this lane's rows: first_row and first_row + 8

    // region: barriers
    if (threadIdx.x == 0) {
        mbarrier_init(&q_full, 1);  // one arrival: the thread that expects the bytes
        for (int stage = 0; stage < NUM_STAGES; ++stage) {
            mbarrier_init(&k_full[stage], 1);
            mbarrier_init(&v_full[stage], 1);
        }
        fence_mbarrier_init();
    }
    __syncthreads();  // separates the initialisation from every use
    // endregion

    // region: load_q
    if (threadIdx.x == 0 && tile.num_kv_tiles > 0) {
        mbarrier_arrive_expect_tx(&q_full, Q_BYTES);
        load_panels<HEAD_DIM, BLOCK_M>(q_smem, &q_map, &q_full, tile.q_start, tile.head, tile.batch);
        for (int i = 0; i < min(NUM_STAGES, tile.num_kv_tiles); ++i) {
            load_kv(k_smem, v_smem, &k_map, &v_map, k_full, v_full, i, (tile.num_kv_tiles - 1 - i) * BLOCK_N, tile);
        }
    }
    if (tile.num_kv_tiles > 0) mbarrier_wait_parity(&q_full, 0);
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
    Ring<NUM_STAGES> ring;
    for (int j = tile.num_kv_tiles - 1; j >= 0; --j) {
        const int kv_start = j * BLOCK_N;
        // region: scores
        mbarrier_wait_parity(&k_full[ring.stage], ring.parity);
        issue_q_k<ELEMENT, HEAD_DIM, BLOCK_M>(scores, q_desc, k_desc + ring.stage * (KV_BYTES / 16));
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
        mbarrier_wait_parity(&v_full[ring.stage], ring.parity);
        issue_p_v<ELEMENT>(acc, probs, v_desc + ring.stage * (KV_BYTES / 16));
        wgmma_wait_group<0>();
        wgmma_keep_order(acc);
        // endregion

        // region: refill
        __syncthreads();  // separates all warps' products from the copy into the same stage; one warpgroup's wait does too
        if (threadIdx.x == 0 && j >= NUM_STAGES) {
            load_kv(k_smem, v_smem, &k_map, &v_map, k_full, v_full, ring.stage, (j - NUM_STAGES) * BLOCK_N, tile);
        }
        ring.advance();
        // endregion
    }

    // region: store
    const float l_row[2] = {quad_sum(l[0]), quad_sum(l[1])};
    const long long head_row = (long long)batch_head * seq_len_q;
    store_rows(out + head_row * HEAD_DIM, acc, l_row, first_row, seq_len_q, lane);
    store_lse(lse + head_row, m, l_row, first_row, seq_len_q, lane);
    // endregion
}
