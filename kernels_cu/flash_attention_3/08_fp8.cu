// 08_fp8 — FlashAttention-3 forward in e4m3: numbers of one byte, scales of blocks, sums promoted to float32
//
// Idea      e4m3 products run at twice the rate of bfloat16. Scales restore the range: those of Q and K go into the scale of the scores,
//           V's becomes an addend of the exponent, so that it multiplies the weight before the weight is rounded
// Builds on 07_persistent. Changed regions: produce, descriptors, scales (new), first_tile, step, walk, last_tile, store.
// Contract  q (B, H, Nq, D), k (B, Hkv, Nkv, D), v_t (B, Hkv, D, stride) e4m3 as flash_attention_3_quantise writes them, D = 64 or 128
//           as tensor maps: q and k with boxes (1, 1, BLOCK_M, D) and (1, 1, BLOCK_N, D) and a swizzle of D bytes, v_t with boxes
//           (1, 1, D, V_WIDTH) and a swizzle of V_WIDTH bytes · any Nq, Nkv >= 1
//           q_scales (B, H, ceil(Nq/64)), k_scales, v_scales (B, Hkv, ceil(Nkv/BLOCK_N)) float, from 2^-40 to 2^40: a number is byte * scale
//           out (B, H, Nq, D) ELEMENT (__half or __nv_bfloat16), as a tensor map with boxes (1, 1, 64, 64)
//           lse (B, H, Nq) float, contiguous, natural log · B * H * Nq < 2^31
//           H = Hkv * num_q_per_kv; query head h reads head h / num_q_per_kv of k and v
//           softmax_scale_log2 > 0 is softmax_scale * log2(e)
//           causal bottom-right: query q_row sees the keys k <= q_row + Nkv - Nq · fully masked row: out 0, lse -inf
//           heads_together >= 1: heads whose tiles are taken side by side: the last of each, then the one before of each, …
//           counters (2) int: zero on entry; zeroed on exit
// Launch    grid: any number of blocks, one an SM is best · block 128 * (BLOCK_M / 64 + 1)
//           dynamic shared memory ((Q_STAGES + 2) * BLOCK_M + 2 * NUM_STAGES * BLOCK_N) * D bytes
// Needs     compute capability 9.0a · compiled by NVRTC: device code only, no host headers
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=64 -DELEMENT=__nv_bfloat16
// gate: -DHEAD_DIM=128 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    J. Shah et al., "FlashAttention-3", 2024, section 3.3, arXiv:2407.08608
//           sums of about 14 bits: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.3.2, arXiv:2412.19437
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of out; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#include "common/attention_fp8.cuh"  // the products, the mask and the softmax of a warpgroup's rows
#include "common/named_barrier.cuh"
#include "common/ring.cuh"  // Ring: stage and parity
#include "common/setmaxnreg.cuh"
#define BLOCK_M (HEAD_DIM == 64 ? 192 : 128)  // query rows of a block
#ifndef BLOCK_N
#define BLOCK_N (HEAD_DIM == 64 ? 96 : 128)  // keys of a tile, which share a scale
#endif
#ifndef PROMOTE_TILES
#define PROMOTE_TILES 2  // tiles that the tensor cores add before float32 does; 0: all
#endif
#define V_WIDTH (BLOCK_N % 128 == 0 ? 128 : BLOCK_N % 64 == 0 ? 64 : 32)  // keys, and bytes, of a panel of V^T
#define WALK_TILES (PROMOTE_TILES > 0 ? PROMOTE_TILES : 4)  // of a turn of the loop
#define NUM_STAGES 2  // of K and of V
#define Q_STAGES 2
#define NUM_CONSUMERS (BLOCK_M / WARPGROUP_ROWS)  // warpgroups that compute
#define NUM_THREADS (128 * (NUM_CONSUMERS + 1))
#define FIRST_OUT_BARRIER 1  // named barriers 1, 2, …: the threads of one consumer, before its store; 0 is __syncthreads
#define CONSUMER_REGISTERS (NUM_CONSUMERS == 2 ? 240 : 160)  // of a thread; with the producer's at most 65,536 in all
#define PRODUCER_REGISTERS (NUM_CONSUMERS == 2 ? 24 : 32)
#define Q_BYTES (BLOCK_M * HEAD_DIM)
#define KV_BYTES (BLOCK_N * HEAD_DIM)
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");
static_assert(BLOCK_N % 32 == 0 && BLOCK_N <= 256, "wgmma: n is at most 256, and k of the second product 32");

struct Barriers {
    mbarrier_t q_full[Q_STAGES], q_empty[Q_STAGES];
    mbarrier_t k_full[NUM_STAGES], k_empty[NUM_STAGES];
    mbarrier_t v_full[NUM_STAGES], v_empty[NUM_STAGES];
};

// region: barriers
__device__ __forceinline__ void init_barriers(Barriers& barriers) {
    for (int stage = 0; stage < Q_STAGES; ++stage) {
        mbarrier_init(&barriers.q_full[stage], 1);                     // the producer, which expects the bytes
        mbarrier_init(&barriers.q_empty[stage], 128 * NUM_CONSUMERS);  // every thread that reads next_tile
    }
    for (int stage = 0; stage < NUM_STAGES; ++stage) {
        mbarrier_init(&barriers.k_full[stage], 1);
        mbarrier_init(&barriers.v_full[stage], 1);
        mbarrier_init(&barriers.k_empty[stage], NUM_CONSUMERS);  // one thread of each consumer
        mbarrier_init(&barriers.v_empty[stage], NUM_CONSUMERS);
    }
    fence_mbarrier_init();
}
// endregion

// region: heads
struct Problem {
    int num_batch_heads, num_heads, num_q_per_kv, seq_len_q, seq_len_kv, heads_together, causal;
    int num_q_tiles;  // of a head
};

// Tile number tile_idx in the order in which tiles are taken: of heads_together heads the last tile of each, then the one before.
__device__ __forceinline__ QueryTile tile_in_order(int tile_idx, const Problem& problem) {
    const int first_head = tile_idx / (problem.num_q_tiles * problem.heads_together) * problem.heads_together;
    const int num_together = min(problem.heads_together, problem.num_batch_heads - first_head);  // fewer in the last turn
    const int turn_idx = tile_idx - first_head * problem.num_q_tiles;                             // among the tiles of these heads
    const int q_start = (problem.num_q_tiles - 1 - turn_idx / num_together) * BLOCK_M;
    return query_tile(q_start, BLOCK_M, BLOCK_N, first_head + turn_idx % num_together, problem.num_heads, problem.num_q_per_kv,
                      problem.seq_len_q, problem.seq_len_kv, problem.causal);
}
// endregion

// region: scales
// The scales that a consumer needs next; those of the keys are read one tile ahead, while products run.
struct Scales {
    float of_q;               // of the consumer's rows, times softmax_scale_log2
    float of_scores, v;       // of the tile in turn: of_q times K's; V's
    const float *k_ptr, *v_ptr;  // of the head's blocks of keys

    __device__ __forceinline__ Scales(const float* q_scales, const float* k_scales, const float* v_scales, const QueryTile& tile,
                                      int consumer, float softmax_scale_log2, const Problem& problem) {
        const int num_q_blocks = CEIL_DIV(problem.seq_len_q, WARPGROUP_ROWS), num_kv_blocks = CEIL_DIV(problem.seq_len_kv, BLOCK_N);
        const int q_block = min(tile.q_start / WARPGROUP_ROWS + consumer, num_q_blocks - 1);  // rows beyond the last: any scale
        const int num_kv_heads = problem.num_heads / problem.num_q_per_kv;
        of_q = softmax_scale_log2 * q_scales[(tile.batch * problem.num_heads + tile.head) * num_q_blocks + q_block];
        k_ptr = k_scales + (long long)(tile.batch * num_kv_heads + tile.kv_head) * num_kv_blocks;
        v_ptr = v_scales + (k_ptr - k_scales);
        read(tile.num_kv_tiles - 1);
    }
    __device__ __forceinline__ void read(int j) {
        if (j < 0) return;
        of_scores = of_q * k_ptr[j];
        v = v_ptr[j];
    }
};
// endregion

// region: produce
// The one thread that loads. For every tile: its number and Q as soon as Q is empty, then K and V as soon as a stage is.
__device__ __forceinline__ void produce(unsigned char* q_smem, unsigned char* k_smem, unsigned char* v_smem, int* next_tile,
                                        Barriers& barriers, const TensorMap* q_map, const TensorMap* k_map, const TensorMap* v_map,
                                        int* counters, const Problem& problem) {
    const int num_tiles = problem.num_q_tiles * problem.num_batch_heads;
    Ring<Q_STAGES> q_ring;
    Ring<NUM_STAGES> ring;
    for (int tile_idx = blockIdx.x;; tile_idx = gridDim.x + atomicAdd(&counters[0], 1)) {
        mbarrier_t* q_full = &barriers.q_full[q_ring.stage];
        mbarrier_wait_parity(&barriers.q_empty[q_ring.stage], q_ring.parity ^ 1);
        next_tile[q_ring.stage] = tile_idx;  // the arrival at q_full releases it
        if (tile_idx >= num_tiles) break;
        const QueryTile tile = tile_in_order(tile_idx, problem);
        if (tile.num_kv_tiles > 0) {
            mbarrier_arrive_expect_tx(q_full, Q_BYTES);
            tma_load_4d(q_smem + q_ring.stage * Q_BYTES, q_map, q_full, 0, tile.q_start, tile.head, tile.batch);
        } else {
            mbarrier_arrive(q_full);
        }
        q_ring.advance();
        for (int j = tile.num_kv_tiles - 1; j >= 0; --j) {
            mbarrier_t *k_full = &barriers.k_full[ring.stage], *v_full = &barriers.v_full[ring.stage];
            mbarrier_wait_parity(&barriers.k_empty[ring.stage], ring.parity ^ 1);
            mbarrier_arrive_expect_tx(k_full, KV_BYTES);
            tma_load_4d(k_smem + ring.stage * KV_BYTES, k_map, k_full, 0, j * BLOCK_N, tile.kv_head, tile.batch);
            mbarrier_wait_parity(&barriers.v_empty[ring.stage], ring.parity ^ 1);
            mbarrier_arrive_expect_tx(v_full, KV_BYTES);
            for (int key = 0; key < BLOCK_N; key += V_WIDTH) {
                tma_load_4d(v_smem + ring.stage * KV_BYTES + key * HEAD_DIM, v_map, v_full, j * BLOCK_N + key, 0, tile.kv_head, tile.batch);
            }
            ring.advance();
        }
    }
    mbarrier_arrive(&barriers.q_full[q_ring.stage]);  // no tile is left
    if (atomicAdd(&counters[1], 1) == (int)gridDim.x - 1) counters[0] = counters[1] = 0;  // the last block: ready for the next launch
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
flash_attention_3_fp8_kernel(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
                             const __grid_constant__ TensorMap v_map, const __grid_constant__ TensorMap out_map,
                             const float* q_scales, const float* k_scales, const float* v_scales, float* lse, int* counters,
                             int num_batch_heads, int num_heads, int num_q_per_kv, int seq_len_q, int seq_len_kv, int heads_together,
                             float softmax_scale_log2, int causal) {
    extern __shared__ __align__(1024) unsigned char smem[];
    unsigned char* q_smem = smem;                              // (Q_STAGES, BLOCK_M, HEAD_DIM)
    unsigned char* k_smem = q_smem + Q_STAGES * Q_BYTES;       // (NUM_STAGES, BLOCK_N, HEAD_DIM)
    unsigned char* v_smem = k_smem + NUM_STAGES * KV_BYTES;    // (NUM_STAGES, BLOCK_N / V_WIDTH, HEAD_DIM, V_WIDTH)
    unsigned char* out_smem = v_smem + NUM_STAGES * KV_BYTES;  // (BLOCK_M, HEAD_DIM) ELEMENT
    __shared__ Barriers barriers;
    __shared__ int next_tile[Q_STAGES];  // its number, beside Q
    const Problem problem = {num_batch_heads, num_heads, num_q_per_kv,  seq_len_q, seq_len_kv, heads_together, causal,
                             CEIL_DIV(seq_len_q, BLOCK_M)};
    if (threadIdx.x == 0) init_barriers(barriers);
    __syncthreads();  // separates the initialisation from every use

    // region: roles
    const int warpgroup = __shfl_sync(ALL_LANES, threadIdx.x / 128, 0);  // the same in all lanes: a branch, no divergence
    if (warpgroup == 0) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) produce(q_smem, k_smem, v_smem, next_tile, barriers, &q_map, &k_map, &v_map, counters, problem);
        return;
    }
    setmaxnreg_inc<CONSUMER_REGISTERS>();
    const int consumer = warpgroup - 1, thread = threadIdx.x % 128, lane = thread % WARP_SIZE;
    const int tile_row = thread / WARP_SIZE * 16 + lane / 4;  // this lane's rows of the consumer's 64: tile_row and tile_row + 8
    // endregion

    // region: descriptors
    const unsigned long long first_q_desc = fp8_descriptor<HEAD_DIM>(q_smem + consumer * WARPGROUP_ROWS * HEAD_DIM);
    const unsigned long long k_desc = fp8_descriptor<HEAD_DIM>(k_smem), v_desc = fp8_descriptor<V_WIDTH>(v_smem);
    // endregion

    Ring<Q_STAGES> q_ring;
    Ring<NUM_STAGES> k_ring, v_ring;  // V is read one tile later than K
    const int offset = seq_len_kv - seq_len_q;
    out_smem += consumer * WARPGROUP_ROWS * PANEL_ROW_BYTES;  // this consumer's rows
    for (;;) {
        // region: next_tile
        mbarrier_wait_parity(&barriers.q_full[q_ring.stage], q_ring.parity);
        const int tile_idx = __shfl_sync(ALL_LANES, next_tile[q_ring.stage], 0);  // the compiler knows: the same in all lanes
        if (tile_idx >= problem.num_q_tiles * num_batch_heads) break;
        const QueryTile tile = tile_in_order(tile_idx, problem);
        const int first_row = tile.q_start + consumer * WARPGROUP_ROWS + tile_row;
        const unsigned long long q_desc = first_q_desc + q_ring.stage * (Q_BYTES / 16);
        // endregion

        Scales scales(q_scales, k_scales, v_scales, tile, consumer, softmax_scale_log2, problem);
        float acc[HEAD_DIM / 2], part[HEAD_DIM / 2], scores[BLOCK_N / 2];
        float m[2] = {NEG_INF, NEG_INF}, l[2] = {0.0f, 0.0f}, alpha[2];
        unsigned probs[BLOCK_N / 32][4];
#pragma unroll
        for (int i = 0; i < HEAD_DIM / 2; ++i) acc[i] = part[i] = 0.0f;
        if (tile.num_kv_tiles > 0) {
            // region: first_tile
            const int kv_start = (tile.num_kv_tiles - 1) * BLOCK_N;
            mbarrier_wait_parity(&barriers.k_full[k_ring.stage], k_ring.parity);
            issue_q_k_fp8<HEAD_DIM>(scores, q_desc, k_desc + k_ring.stage * (KV_BYTES / 16));
            wgmma_wait_group<0>();
            wgmma_keep_order(scores);
            if (thread == 0) mbarrier_arrive(&barriers.k_empty[k_ring.stage]);  // the producer may load the next K there
            k_ring.advance();
            if (kv_start + BLOCK_N > tile.full_end) mask_scores(scores, first_row, kv_start, seq_len_kv, offset, causal, lane);
            lazy_softmax_fp8(scores, m, l, alpha, scales.of_scores, scales.v);  // part is still 0: nothing to rescale
            scales.read(tile.num_kv_tiles - 2);
            pack_probs_fp8(probs, scores);
            // endregion
        }

        // region: step
        // Scores of tile j, and the product of the tile before: into part if `keep`, else in its place; `last` of those that part takes.
        auto step = [&](int j, bool masked, bool keep, bool last) {
            const int kv_start = j * BLOCK_N;
            const float scale_log2 = scales.of_scores, v_scale = scales.v;
            mbarrier_wait_parity(&barriers.k_full[k_ring.stage], k_ring.parity);
            issue_q_k_fp8<HEAD_DIM>(scores, q_desc, k_desc + k_ring.stage * (KV_BYTES / 16));
            mbarrier_wait_parity(&barriers.v_full[v_ring.stage], v_ring.parity);
            issue_p_v_fp8<V_WIDTH>(part, probs, v_desc + v_ring.stage * (KV_BYTES / 16), keep);  // of the tile before
            scales.read(j - 1);
            wgmma_wait_group<1>();  // the scores are done, part is in flight
            wgmma_keep_order(scores);
            if (thread == 0) mbarrier_arrive(&barriers.k_empty[k_ring.stage]);
            k_ring.advance();
            if (masked) mask_scores(scores, first_row, kv_start, seq_len_kv, offset, causal, lane);
            const bool moved = lazy_softmax_fp8(scores, m, l, alpha, scale_log2, v_scale);
            wgmma_wait_group<0>();  // before it, neither part nor probs may be touched
            wgmma_keep_order(part);
            if (thread == 0) mbarrier_arrive(&barriers.v_empty[v_ring.stage]);
            v_ring.advance();
            pack_probs_fp8(probs, scores);
            if (last) promote(acc, part);
            if (moved) rescale(acc, alpha);
            if (moved && !last) rescale(part, alpha);
        };
        // endregion

        // region: walk
        int j = tile.num_kv_tiles - 2;
#pragma unroll 1
        for (; j >= 0 && ((j + 1) * BLOCK_N > tile.full_end || (j + 1) % WALK_TILES != 0); --j) {  // until whole groups are left
            step(j, true, PROMOTE_TILES == 0, PROMOTE_TILES > 0);
        }
#pragma unroll 1
        for (; j >= 0; j -= WALK_TILES) {
#pragma unroll
            for (int i = 0; i < WALK_TILES; ++i) {
                step(j - i, false, PROMOTE_TILES == 0 || i > 0, PROMOTE_TILES > 0 && i == WALK_TILES - 1);
            }
        }
        mbarrier_arrive(&barriers.q_empty[q_ring.stage]);  // this thread needs neither Q nor next_tile any more
        q_ring.advance();
        // endregion

        if (tile.num_kv_tiles > 0) {
            // region: last_tile
            mbarrier_wait_parity(&barriers.v_full[v_ring.stage], v_ring.parity);
            issue_p_v_fp8<V_WIDTH>(part, probs, v_desc + v_ring.stage * (KV_BYTES / 16), PROMOTE_TILES == 0);
            wgmma_wait_group<0>();
            wgmma_keep_order(part);
            if (thread == 0) mbarrier_arrive(&barriers.v_empty[v_ring.stage]);
            v_ring.advance();
            promote(acc, part);
            // endregion
        }

        // region: store
        const float l_row[2] = {quad_sum(l[0]), quad_sum(l[1])};
        const float m_row[2] = {m[0] - WEIGHT_LOG2, m[1] - WEIGHT_LOG2};
        store_lse(lse + (long long)(tile.batch * num_heads + tile.head) * seq_len_q, m_row, l_row, first_row, seq_len_q, lane);
        if (thread == 0) bulk_wait_group_read<0>();             // the last tile's store has read out_smem
        named_barrier_sync(FIRST_OUT_BARRIER + consumer, 128);  // separates that from this tile's writes
        stage_out<ELEMENT, BLOCK_M * PANEL_ROW_BYTES>(out_smem, acc, l_row, tile_row, lane);
        fence_proxy_async();                                    // the store reads through the async proxy
        named_barrier_sync(FIRST_OUT_BARRIER + consumer, 128);  // separates the consumer's writes of out_smem from the store
        if (thread == 0) {
            for (int panel = 0; panel < HEAD_DIM / PANEL_COLS; ++panel) {
                tma_store_4d(&out_map, out_smem + panel * BLOCK_M * PANEL_ROW_BYTES, panel * PANEL_COLS,
                             tile.q_start + consumer * WARPGROUP_ROWS, tile.head, tile.batch);
            }
            bulk_commit_group();
        }
        // endregion
    }
    if (thread == 0) bulk_wait_group<0>();  // shared memory stays the block's own until it has been read
}
