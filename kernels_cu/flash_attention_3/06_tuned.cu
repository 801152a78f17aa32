// 06_tuned — FlashAttention-3 forward: less work beside the products
//
// Idea      rescale only when a maximum has grown by more than 2^MAX_GROWTH; test for the mask only in the tiles that can need it;
//           store whole rows by TMA, through the shared memory of Q; start the longest walks of several heads first
// Builds on 04_overlap. Changed regions: heads, first_tile, step, walk, store.
// Contract  q (B, H, Nq, D), k, v (B, Hkv, Nkv, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128 · any Nq, Nkv >= 1
//           as tensor maps with the swizzle of 128 bytes; boxes (1, 1, BLOCK_M, 64) of q and (1, 1, BLOCK_N, 64) of k and v
//           out (B, H, Nq, D) ELEMENT, as a tensor map with boxes (1, 1, 64, 64) · lse (B, H, Nq) float, contiguous, natural log · B * H * Nq < 2^31
//           H = Hkv * num_q_per_kv; query head h reads head h / num_q_per_kv of k and v
//           softmax_scale_log2 > 0 is softmax_scale * log2(e)
//           causal bottom-right: query q_row sees the keys k <= q_row + Nkv - Nq · fully masked row: out 0, lse -inf
//           heads_together >= 1: heads whose blocks run side by side: the last tile of each, then the tile before of each, …
// Launch    grid (ceil(Nq/BLOCK_M) * H * B) · block 128 * (BLOCK_M / 64 + 1)
//           dynamic shared memory (BLOCK_M + 2 * NUM_STAGES * BLOCK_N) * D * 2 bytes
// Needs     compute capability 9.0a · compiled by NVRTC: device code only, no host headers
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=64 -DELEMENT=__nv_bfloat16
// gate: -DHEAD_DIM=128 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    J. Shah et al., "FlashAttention-3", 2024, section 3.2, arXiv:2407.08608
//           threshold of the rescaling: common/lazy_softmax.cuh
#include "common/attention_macros.cuh"  // HEAD_DIM, ELEMENT
#include "common/attention_wgmma.cuh"   // the products, the mask and the softmax of a warpgroup's rows
#include "common/named_barrier.cuh"
#include "common/ring.cuh"              // Ring: stage and parity
#include "common/setmaxnreg.cuh"
#define BLOCK_M (HEAD_DIM == 64 ? 192 : 128)  // query rows of a block
#ifndef BLOCK_N
#define BLOCK_N 128  // keys of a tile
#endif
#define NUM_STAGES 2
#define NUM_CONSUMERS (BLOCK_M / WARPGROUP_ROWS)  // warpgroups that compute
#define NUM_THREADS (128 * (NUM_CONSUMERS + 1))
#define FIRST_OUT_BARRIER 1  // named barriers 1, 2, …: the threads of one consumer, before its store; 0 is __syncthreads
#define CONSUMER_REGISTERS (NUM_CONSUMERS == 2 ? 240 : 160)  // of a thread; with the producer's at most 65,536 in all
#define PRODUCER_REGISTERS (NUM_CONSUMERS == 2 ? 24 : 32)
#define Q_BYTES (BLOCK_M * HEAD_DIM * 2)
#define KV_BYTES (BLOCK_N * HEAD_DIM * 2)
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");
static_assert(BLOCK_N % 16 == 0 && BLOCK_N <= 256, "wgmma: n is a multiple of 16 here, at most 256");

struct Barriers {
    mbarrier_t q_full;
    mbarrier_t k_full[NUM_STAGES], k_empty[NUM_STAGES];
    mbarrier_t v_full[NUM_STAGES], v_empty[NUM_STAGES];
};

// region: barriers
__device__ __forceinline__ void init_barriers(Barriers& barriers) {
    mbarrier_init(&barriers.q_full, 1);
    for (int stage = 0; stage < NUM_STAGES; ++stage) {
        mbarrier_init(&barriers.k_full[stage], 1);  // the producer, which expects the bytes
        mbarrier_init(&barriers.v_full[stage], 1);
        mbarrier_init(&barriers.k_empty[stage], NUM_CONSUMERS);  // one thread of each consumer
        mbarrier_init(&barriers.v_empty[stage], NUM_CONSUMERS);
    }
    fence_mbarrier_init();
}
// endregion

// region: produce
// The one thread that loads: Q, then K and V of every tile as soon as a stage is empty.
__device__ __forceinline__ void produce(unsigned char* q_smem, unsigned char* k_smem, unsigned char* v_smem, Barriers& barriers,
                                        const TensorMap* q_map, const TensorMap* k_map, const TensorMap* v_map,
                                        const QueryTile& tile) {
    if (tile.num_kv_tiles == 0) return;
    mbarrier_arrive_expect_tx(&barriers.q_full, Q_BYTES);
    load_panels<HEAD_DIM, BLOCK_M>(q_smem, q_map, &barriers.q_full, tile.q_start, tile.head, tile.batch);
    Ring<NUM_STAGES> ring;
    for (int j = tile.num_kv_tiles - 1; j >= 0; --j) {
        mbarrier_t *k_full = &barriers.k_full[ring.stage], *v_full = &barriers.v_full[ring.stage];
        mbarrier_wait_parity(&barriers.k_empty[ring.stage], ring.parity ^ 1);
        mbarrier_arrive_expect_tx(k_full, KV_BYTES);
        load_panels<HEAD_DIM, BLOCK_N>(k_smem + ring.stage * KV_BYTES, k_map, k_full, j * BLOCK_N, tile.kv_head, tile.batch);
        mbarrier_wait_parity(&barriers.v_empty[ring.stage], ring.parity ^ 1);
        mbarrier_arrive_expect_tx(v_full, KV_BYTES);
        load_panels<HEAD_DIM, BLOCK_N>(v_smem + ring.stage * KV_BYTES, v_map, v_full, j * BLOCK_N, tile.kv_head, tile.batch);
        ring.advance();
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
flash_attention_3_kernel(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
                         const __grid_constant__ TensorMap v_map, const __grid_constant__ TensorMap out_map, float* lse,
                         int num_heads, int num_q_per_kv, int seq_len_q, int seq_len_kv, int heads_together,
                         float softmax_scale_log2, int causal) {
    extern __shared__ __align__(1024) unsigned char smem[];
    unsigned char* q_smem = smem;                            // (BLOCK_M, HEAD_DIM)
    unsigned char* k_smem = q_smem + Q_BYTES;                // (NUM_STAGES, BLOCK_N, HEAD_DIM)
    unsigned char* v_smem = k_smem + NUM_STAGES * KV_BYTES;  // (NUM_STAGES, BLOCK_N, HEAD_DIM)
    __shared__ Barriers barriers;
    // region: heads
    const int num_q_tiles = CEIL_DIV(seq_len_q, BLOCK_M);
    const int first_head = blockIdx.x / (num_q_tiles * heads_together) * heads_together;
    const int num_together = min(heads_together, (int)gridDim.x / num_q_tiles - first_head);  // fewer in the last turn
    const int turn_idx = blockIdx.x - first_head * num_q_tiles;                              // among the blocks of these heads
    const int q_start = (num_q_tiles - 1 - turn_idx / num_together) * BLOCK_M;
    const int batch_head = first_head + turn_idx % num_together;
    // endregion
    const QueryTile tile = query_tile(q_start, BLOCK_M, BLOCK_N, batch_head, num_heads, num_q_per_kv, seq_len_q, seq_len_kv, causal);
    if (threadIdx.x == 0) init_barriers(barriers);
    __syncthreads();  // separates the initialisation from every use

    // region: roles
    const int warpgroup = __shfl_sync(ALL_LANES, threadIdx.x / 128, 0);  // the same in all lanes: a branch, no divergence
    if (warpgroup == 0) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) produce(q_smem, k_smem, v_smem, barriers, &q_map, &k_map, &v_map, tile);
        return;
    }
    setmaxnreg_inc<CONSUMER_REGISTERS>();
    const int consumer = warpgroup - 1, thread = threadIdx.x % 128, lane = thread % WARP_SIZE;
    const int first_row = tile.q_start + consumer * WARPGROUP_ROWS + thread / WARP_SIZE * 16 + lane / 4;  // and first_row + 8
    // endregion

    // region: descriptors
    const unsigned long long q_desc = wgmma_descriptor(q_smem + consumer * WARPGROUP_ROWS * PANEL_ROW_BYTES, 16, 8 * PANEL_ROW_BYTES);
    const unsigned long long k_desc = wgmma_descriptor(k_smem, 16, 8 * PANEL_ROW_BYTES);
    const unsigned long long v_desc = wgmma_descriptor(v_smem, BLOCK_N * PANEL_ROW_BYTES, 8 * PANEL_ROW_BYTES);  // transposed
    // endregion

    float acc[HEAD_DIM / 2], scores[BLOCK_N / 2];
    float m[2] = {NEG_INF, NEG_INF}, l[2] = {0.0f, 0.0f}, alpha[2];
    unsigned probs[BLOCK_N / 16][4];
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; ++i) acc[i] = 0.0f;
    Ring<NUM_STAGES> k_ring, v_ring;  // V is read one tile later than K
    const int offset = seq_len_kv - seq_len_q;
    if (tile.num_kv_tiles > 0) {
        // region: first_tile
        const int kv_start = (tile.num_kv_tiles - 1) * BLOCK_N;
        mbarrier_wait_parity(&barriers.q_full, 0);
        mbarrier_wait_parity(&barriers.k_full[k_ring.stage], k_ring.parity);
        issue_q_k<ELEMENT, HEAD_DIM, BLOCK_M>(scores, q_desc, k_desc + k_ring.stage * (KV_BYTES / 16));
        wgmma_wait_group<0>();
        wgmma_keep_order(scores);
        if (thread == 0) mbarrier_arrive(&barriers.k_empty[k_ring.stage]);  // the producer may load the next K there
        k_ring.advance();
        if (kv_start + BLOCK_N > tile.full_end) mask_scores(scores, first_row, kv_start, seq_len_kv, offset, causal, lane);
        online_softmax(scores, m, l, alpha, softmax_scale_log2);  // acc is still 0: nothing to rescale
        pack_probs<ELEMENT>(probs, scores);
        // endregion
    }

    // region: step
    auto step = [&](int j, bool masked) {
        const int kv_start = j * BLOCK_N;
        mbarrier_wait_parity(&barriers.k_full[k_ring.stage], k_ring.parity);
        issue_q_k<ELEMENT, HEAD_DIM, BLOCK_M>(scores, q_desc, k_desc + k_ring.stage * (KV_BYTES / 16));
        mbarrier_wait_parity(&barriers.v_full[v_ring.stage], v_ring.parity);
        issue_p_v<ELEMENT>(acc, probs, v_desc + v_ring.stage * (KV_BYTES / 16));  // of the tile before
        wgmma_wait_group<1>();                                                      // the scores are done, acc is in flight
        wgmma_keep_order(scores);
        if (thread == 0) mbarrier_arrive(&barriers.k_empty[k_ring.stage]);
        k_ring.advance();
        if (masked) mask_scores(scores, first_row, kv_start, seq_len_kv, offset, causal, lane);
        const bool moved = lazy_softmax(scores, m, l, alpha, softmax_scale_log2);
        wgmma_wait_group<0>();  // before it, neither acc nor probs may be touched
        wgmma_keep_order(acc);
        if (thread == 0) mbarrier_arrive(&barriers.v_empty[v_ring.stage]);
        v_ring.advance();
        if (moved) rescale(acc, alpha);
        pack_probs<ELEMENT>(probs, scores);
    };
    // endregion

    // region: walk
    int j = tile.num_kv_tiles - 2;
#pragma unroll 1
    for (; j >= 0 && (j + 1) * BLOCK_N > tile.full_end; --j) step(j, true);
#pragma unroll 1
    for (; j >= 0; --j) step(j, false);
    // endregion

    if (tile.num_kv_tiles > 0) {
        // region: last_tile
        mbarrier_wait_parity(&barriers.v_full[v_ring.stage], v_ring.parity);
        issue_p_v<ELEMENT>(acc, probs, v_desc + v_ring.stage * (KV_BYTES / 16));
        wgmma_wait_group<0>();
        wgmma_keep_order(acc);
        // endregion
    }

    // region: store
    const float l_row[2] = {quad_sum(l[0]), quad_sum(l[1])};
    store_lse(lse + (long long)batch_head * seq_len_q, m, l_row, first_row, seq_len_q, lane);
    unsigned char* out_smem = q_smem + consumer * WARPGROUP_ROWS * PANEL_ROW_BYTES;  // this consumer's rows of Q: read to the end
    stage_out<ELEMENT, BLOCK_M * PANEL_ROW_BYTES>(out_smem, acc, l_row, first_row - tile.q_start - consumer * WARPGROUP_ROWS, lane);
    fence_proxy_async();                                  // the store reads through the async proxy
    named_barrier_sync(FIRST_OUT_BARRIER + consumer, 128);  // separates the consumer's writes of out_smem from the store
    if (thread == 0) {
        for (int panel = 0; panel < HEAD_DIM / PANEL_COLS; ++panel) {
            tma_store_4d(&out_map, out_smem + panel * BLOCK_M * PANEL_ROW_BYTES, panel * PANEL_COLS,
                         tile.q_start + consumer * WARPGROUP_ROWS, tile.head, tile.batch);
        }
        bulk_commit_group();
        bulk_wait_group<0>();  // shared memory stays the block's own until it has been read
    }
    // endregion
}
