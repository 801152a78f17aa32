// 01_keys_as_rows — the gradients of attention on Hopper: one walk, five wgmma products a tile, dQ added up in global memory
//
// Idea      the scores are computed transposed, keys as rows: then P^T and dS^T stay in the registers that computed them, as the left
//           operands of dV += P^T dO and dK += dS^T Q, and only dS passes through shared memory, for dQ = dS K
// Builds on flash_attention_2_backward/01_two_walks, and on flash_attention_3/06_tuned: producer, ring, swizzle.
// Contract  q, out, d_out, dq (B, H, Nq, D), k, v, dk, dv (B, Hkv, Nkv, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128 · any Nq,
//           Nkv >= 1 · H = Hkv * num_q_per_kv; dk and dv are sums over the query heads of a group
//           q, k, v, d_out, dk, dv, dq as tensor maps with the swizzle of 128 bytes; boxes (1, 1, BLOCK_M, 64) of q and d_out,
//           (1, 1, BLOCK_N, 64) of k and v, (1, 1, 64, 64) of dk, dv and dq
//           out and d_out also as pointers, with strides in elements: rows contiguous, starting at multiples of 16 bytes
//           lse (B, H, Nq) float, contiguous, the forward pass's, natural log
//           stats (B, H, ceil(Nq/BLOCK_M), 2, BLOCK_M) float and dq_acc (B, H, ceil(Nq/BLOCK_M), BLOCK_M * D) float: scratch
//           causal bottom-right: query q_row sees the keys k <= q_row + Nkv - Nq
//           fully masked row (lse -inf): its dq is 0, and it adds nothing to dk and dv
//           heads_together >= 1: key heads whose tiles are taken side by side
//           the sum in dq_acc has no fixed order: two runs may differ in the last bits of dq
// Launch    three, one after the other
//           row_stats_kernel: grid (ceil(Nq/BLOCK_M) * H * B) · block 256
//           gradients_kernel: grid (ceil(Nkv/BLOCK_N) * Hkv * B) · block 384 · dynamic shared memory
//               ((2 * BLOCK_N + 5 * BLOCK_M) * D + 2 * BLOCK_N * BLOCK_M) * 2 + 2 * 4096 * 4 + 6 * BLOCK_M * 4 bytes
//           dq_kernel: grid (2 * ceil(Nq/BLOCK_M) * H * B) · block 128
// Needs     compute capability 9.0a · compiled by NVRTC: device code only, no host headers
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=64 -DELEMENT=__nv_bfloat16
// gate: -DHEAD_DIM=128 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    J. Shah et al., "FlashAttention-3", 2024, appendix B, algorithm 3, arXiv:2407.08608
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of q, k, v and their gradients; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#include "common/attention_wgmma_backward.cuh"  // the products and the softmax of a warpgroup's keys
#include "common/half_chunk.cuh"
#include "common/named_barrier.cuh"
#include "common/ring.cuh"  // Ring: stage and parity
#include "common/setmaxnreg.cuh"
#define BLOCK_M (HEAD_DIM == 64 ? 128 : 64)  // queries of a tile: BLOCK_M * HEAD_DIM is two chunks of dQ, one a consumer
#define BLOCK_N 128                          // keys of a block: 64 a consumer
#define Q_STAGES 3                           // Q of a tile is read until the next tile's probabilities are done
#define NUM_STAGES 2                         // of dO and of dS
#define NUM_CONSUMERS 2
#define NUM_THREADS (128 * (NUM_CONSUMERS + 1))
#define CONSUMER_REGISTERS 240  // of a thread; with the producer's at most 65,536 in all
#define PRODUCER_REGISTERS 24
#define PANELS (HEAD_DIM / PANEL_COLS)
#define Q_BYTES (BLOCK_M * HEAD_DIM * 2)
#define KV_BYTES (BLOCK_N * HEAD_DIM * 2)
#define KEY_PANEL_BYTES (BLOCK_N * PANEL_ROW_BYTES)                 // a panel whose rows are the block's keys
#define CONSUMER_ROWS_BYTES (WARPGROUP_ROWS * PANEL_ROW_BYTES)      // from one consumer's keys to the other's
#define CHUNK (WARPGROUP_ROWS * PANEL_COLS)                         // floats of dQ that one consumer computes at a time
#define DS_READY 1     // named barriers; 0 is __syncthreads. Both consumers have written dS
#define DQ_EMPTY 2     // 2, 3: the reduction has read dq_smem of a consumer
#define DQ_FULL 4      // 4, 5: a consumer has written it
#define STAGED 6       // 6, 7: the threads of one consumer, before its store
#define STATS_THREADS 256
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");
static_assert(BLOCK_M * HEAD_DIM == NUM_CONSUMERS * CHUNK, "each consumer computes one chunk of dQ a tile");

struct Tiles {
    unsigned char k[KV_BYTES], v[KV_BYTES];                    // (BLOCK_N, HEAD_DIM)
    unsigned char q[Q_STAGES][Q_BYTES];                        // (BLOCK_M, HEAD_DIM)
    unsigned char d_out[NUM_STAGES][Q_BYTES];                  // (BLOCK_M, HEAD_DIM)
    unsigned char d_scores[NUM_STAGES][BLOCK_N * BLOCK_M * 2];  // (BLOCK_N, BLOCK_M): dS^T
    float dq[NUM_CONSUMERS][CHUNK];
    RowStats<BLOCK_M> stats[Q_STAGES];
};
struct Barriers {
    mbarrier_t k_full, v_full;
    mbarrier_t q_full[Q_STAGES], q_empty[Q_STAGES];
    mbarrier_t d_out_full[NUM_STAGES], d_out_empty[NUM_STAGES];
};

// region: barriers
__device__ __forceinline__ void init_barriers(Barriers& barriers) {
    mbarrier_init(&barriers.k_full, 1);  // the producer, which expects the bytes
    mbarrier_init(&barriers.v_full, 1);
    for (int stage = 0; stage < Q_STAGES; ++stage) {
        mbarrier_init(&barriers.q_full[stage], 1);
        mbarrier_init(&barriers.q_empty[stage], NUM_CONSUMERS);  // one thread of each consumer
    }
    for (int stage = 0; stage < NUM_STAGES; ++stage) {
        mbarrier_init(&barriers.d_out_full[stage], 1);
        mbarrier_init(&barriers.d_out_empty[stage], NUM_CONSUMERS);
    }
    fence_mbarrier_init();
}
// endregion

// region: walk
// The keys of a block, and the tiles of queries that see them: for each query head of the group the tiles from first_tile on.
struct KeyTile {
    int kv_start, kv_head, batch;
    int first_tile, num_q_tiles, num_steps;
    int first_head;  // the group's first query head, over all batches
};

// Of heads_together key heads the first tile of each, then the second: under a causal mask the longest walks come first.
__device__ __forceinline__ KeyTile key_tile(int tile_idx, int num_batch_heads, int num_kv_heads, int num_q_per_kv, int seq_len_q,
                                            int seq_len_kv, int heads_together, int causal) {
    const int num_kv_tiles = CEIL_DIV(seq_len_kv, BLOCK_N);
    const int first_kv_head = tile_idx / (num_kv_tiles * heads_together) * heads_together;
    const int num_together = min(heads_together, num_batch_heads - first_kv_head);  // fewer in the last turn
    const int turn_idx = tile_idx - first_kv_head * num_kv_tiles;                   // among the tiles of these heads
    const int batch_head = first_kv_head + turn_idx % num_together;
    KeyTile keys;
    keys.kv_start = turn_idx / num_together * BLOCK_N;
    keys.kv_head = batch_head % num_kv_heads;
    keys.batch = batch_head / num_kv_heads;
    keys.first_tile = causal ? max(keys.kv_start - (seq_len_kv - seq_len_q), 0) / BLOCK_M : 0;
    keys.num_q_tiles = CEIL_DIV(seq_len_q, BLOCK_M);
    keys.num_steps = (keys.num_q_tiles - keys.first_tile) * num_q_per_kv;  // at least 1: the last query sees every key
    keys.first_head = batch_head * num_q_per_kv;
    return keys;
}

struct Step {
    int tile, head;  // the head over all batches
    __device__ __forceinline__ explicit Step(const KeyTile& keys) : tile(keys.first_tile), head(keys.first_head) {}
    __device__ __forceinline__ void advance(const KeyTile& keys) {
        if (++tile == keys.num_q_tiles) {
            tile = keys.first_tile;
            ++head;
        }
    }
};
// endregion

// region: produce
// The one thread that loads: K and V once, then Q with its row stats and dO as soon as a stage is empty.
__device__ __forceinline__ void produce(Tiles& tiles, Barriers& barriers, const TensorMap* q_map, const TensorMap* k_map,
                                        const TensorMap* v_map, const TensorMap* d_out_map, const float* stats, int num_heads,
                                        const KeyTile& keys) {
    Ring<Q_STAGES> q_ring;
    Ring<NUM_STAGES> d_out_ring;
    mbarrier_arrive_expect_tx(&barriers.k_full, KV_BYTES);
    load_panels<HEAD_DIM, BLOCK_N>(tiles.k, k_map, &barriers.k_full, keys.kv_start, keys.kv_head, keys.batch);
    Step step(keys);
    for (int i = 0; i < keys.num_steps; ++i) {
        const int q_start = step.tile * BLOCK_M, head = step.head % num_heads;
        mbarrier_t *q_full = &barriers.q_full[q_ring.stage], *d_out_full = &barriers.d_out_full[d_out_ring.stage];
        mbarrier_wait_parity(&barriers.q_empty[q_ring.stage], q_ring.parity ^ 1);
        mbarrier_arrive_expect_tx(q_full, Q_BYTES + sizeof(RowStats<BLOCK_M>));
        load_panels<HEAD_DIM, BLOCK_M>(tiles.q[q_ring.stage], q_map, q_full, q_start, head, keys.batch);
        const float* tile_stats = stats + ((long long)step.head * keys.num_q_tiles + step.tile) * 2 * BLOCK_M;
        bulk_load(&tiles.stats[q_ring.stage], tile_stats, sizeof(RowStats<BLOCK_M>), q_full);
        if (i == 0) {
            mbarrier_arrive_expect_tx(&barriers.v_full, KV_BYTES);
            load_panels<HEAD_DIM, BLOCK_N>(tiles.v, v_map, &barriers.v_full, keys.kv_start, keys.kv_head, keys.batch);
        }
        mbarrier_wait_parity(&barriers.d_out_empty[d_out_ring.stage], d_out_ring.parity ^ 1);
        mbarrier_arrive_expect_tx(d_out_full, Q_BYTES);
        load_panels<HEAD_DIM, BLOCK_M>(tiles.d_out[d_out_ring.stage], d_out_map, d_out_full, q_start, head, keys.batch);
        q_ring.advance();
        d_out_ring.advance();
        step.advance(keys);
    }
}
// endregion

// region: reduce_dq
// One warp a consumer: adds each chunk of dQ to global memory as soon as it is complete.
__device__ __forceinline__ void reduce_dq(const float* dq_smem, float* dq_acc, int consumer, const KeyTile& keys) {
    const bool elected = threadIdx.x % WARP_SIZE == 0;
    Step step(keys);
    for (int i = 0; i < keys.num_steps; ++i) {
        if (elected) bulk_wait_group_read<0>();  // the last reduction has read dq_smem
        __syncwarp();  // bar.arrive takes converged warps
        named_barrier_arrive(DQ_EMPTY + consumer, 128 + WARP_SIZE);
        named_barrier_sync(DQ_FULL + consumer, 128 + WARP_SIZE);
        if (elected) {
            const long long tile_idx = (long long)step.head * keys.num_q_tiles + step.tile;
            bulk_reduce_add_f32(dq_acc + (tile_idx * NUM_CONSUMERS + consumer) * CHUNK, dq_smem, CHUNK * 4);
            bulk_commit_group();
        }
        step.advance(keys);
    }
    if (elected) bulk_wait_group<0>();  // shared memory stays the block's own until it has been read
}
// endregion

// region: operands
// Descriptors of what a consumer multiplies; those of a ring are its first stage's.
struct Operands {
    unsigned long long k, v, q, d_out, d_scores, dq_k;
    __device__ __forceinline__ Operands(const Tiles& tiles, int consumer) {
        constexpr unsigned ROWS_8 = 8 * PANEL_ROW_BYTES;
        k = wgmma_descriptor(tiles.k + consumer * CONSUMER_ROWS_BYTES, 16, ROWS_8);
        v = wgmma_descriptor(tiles.v + consumer * CONSUMER_ROWS_BYTES, 16, ROWS_8);
        q = wgmma_descriptor(tiles.q, BLOCK_M * PANEL_ROW_BYTES, ROWS_8);
        d_out = wgmma_descriptor(tiles.d_out, BLOCK_M * PANEL_ROW_BYTES, ROWS_8);
        // dQ: at D = 64 a consumer takes 64 of 128 queries, a panel of dS; at D = 128 it takes 64 of 128 columns, a panel of K
        d_scores = wgmma_descriptor(tiles.d_scores[0] + (PANELS == 1 ? consumer * KEY_PANEL_BYTES : 0), 16, ROWS_8);
        dq_k = wgmma_descriptor(tiles.k + (PANELS == 2 ? consumer * KEY_PANEL_BYTES : 0), 16, ROWS_8);
    }
};
// endregion

// region: store_dk_dv
// Through the block's K and V, which no product reads any more.
__device__ __forceinline__ void store_dk_dv(Tiles& tiles, const float (&dk)[HEAD_DIM / 2], const float (&dv)[HEAD_DIM / 2],
                                            const TensorMap* dk_map, const TensorMap* dv_map, float softmax_scale, int consumer,
                                            const KeyTile& keys) {
    const int thread = threadIdx.x % 128;
    stage_rows<ELEMENT, KEY_PANEL_BYTES>(tiles.v + consumer * CONSUMER_ROWS_BYTES, dv, 1.0f, thread);
    stage_rows<ELEMENT, KEY_PANEL_BYTES>(tiles.k + consumer * CONSUMER_ROWS_BYTES, dk, softmax_scale, thread);
    fence_proxy_async();                         // the stores read through the async proxy
    named_barrier_sync(STAGED + consumer, 128);  // separates the consumer's writes from its stores
    if (thread == 0) {
        const int row = keys.kv_start + consumer * WARPGROUP_ROWS;
        for (int panel = 0; panel < PANELS; ++panel) {
            const int panel_bytes = panel * KEY_PANEL_BYTES + consumer * CONSUMER_ROWS_BYTES;
            tma_store_4d(dv_map, tiles.v + panel_bytes, panel * PANEL_COLS, row, keys.kv_head, keys.batch);
            tma_store_4d(dk_map, tiles.k + panel_bytes, panel * PANEL_COLS, row, keys.kv_head, keys.batch);
        }
        bulk_commit_group();
        bulk_wait_group<0>();  // shared memory stays the block's own until it has been read
    }
}
// endregion

// region: row_stats
extern "C" __global__ void __launch_bounds__(STATS_THREADS)
row_stats_kernel(const ELEMENT* out, const ELEMENT* d_out, const float* lse, float* stats, float* dq_acc, int num_heads, int seq_len_q,
                 long long out_stride_batch, long long out_stride_head, long long out_stride_row, long long d_out_stride_batch,
                 long long d_out_stride_head, long long d_out_stride_row) {
    constexpr int LANES = HEAD_DIM / 8;  // of a row: 16 bytes each
    const int num_tiles = CEIL_DIV(seq_len_q, BLOCK_M), tile = blockIdx.x % num_tiles, batch_head = blockIdx.x / num_tiles;
    const int batch = batch_head / num_heads, head = batch_head % num_heads;
    float4* acc = reinterpret_cast<float4*>(dq_acc + (long long)blockIdx.x * (BLOCK_M * HEAD_DIM));
    float *lse_log2 = stats + (long long)blockIdx.x * (2 * BLOCK_M), *row_dot = lse_log2 + BLOCK_M;
    out += batch * out_stride_batch + head * out_stride_head + threadIdx.x % LANES * 8;
    d_out += batch * d_out_stride_batch + head * d_out_stride_head + threadIdx.x % LANES * 8;
#pragma unroll
    for (int i = 0; i < BLOCK_M * HEAD_DIM / 4 / STATS_THREADS; ++i) {
        acc[i * STATS_THREADS + threadIdx.x] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
#pragma unroll
    for (int i = 0; i < BLOCK_M * LANES / STATS_THREADS; ++i) {
        const int tile_row = i * (STATS_THREADS / LANES) + threadIdx.x / LANES, row = tile * BLOCK_M + tile_row;
        float dot = 0.0f, lse_row = NEG_INF;
        if (row < seq_len_q) {
            float o[8], d_o[8];
            load_chunk(o, out + row * out_stride_row);
            load_chunk(d_o, d_out + row * d_out_stride_row);
#pragma unroll
            for (int e = 0; e < 8; ++e) dot += o[e] * d_o[e];
            lse_row = lse[(long long)batch_head * seq_len_q + row];
        }
#pragma unroll
        for (int mask = LANES / 2; mask > 0; mask /= 2) dot += __shfl_xor_sync(ALL_LANES, dot, mask);
        if (threadIdx.x % LANES == 0) {
            lse_log2[tile_row] = lse_row == NEG_INF ? -NEG_INF : lse_row * LOG2_E;
            row_dot[tile_row] = dot;
        }
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
gradients_kernel(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
                 const __grid_constant__ TensorMap d_out_map, const __grid_constant__ TensorMap dk_map,
                 const __grid_constant__ TensorMap dv_map, const float* stats, float* dq_acc, int num_batch_heads, int num_kv_heads,
                 int num_q_per_kv, int seq_len_q, int seq_len_kv, int heads_together, float softmax_scale, int causal) {
    extern __shared__ __align__(1024) unsigned char smem[];
    Tiles& tiles = *reinterpret_cast<Tiles*>(smem);
    __shared__ Barriers barriers;
    const KeyTile keys = key_tile(blockIdx.x, num_batch_heads, num_kv_heads, num_q_per_kv, seq_len_q, seq_len_kv, heads_together, causal);
    if (threadIdx.x == 0) init_barriers(barriers);
    __syncthreads();  // separates the initialisation from every use

    // region: roles
    const int warpgroup = __shfl_sync(ALL_LANES, threadIdx.x / 128, 0);  // the same in all lanes: a branch, no divergence
    if (warpgroup == 0) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        const int warp = threadIdx.x / WARP_SIZE;
        if (threadIdx.x == 0) {
            produce(tiles, barriers, &q_map, &k_map, &v_map, &d_out_map, stats, num_kv_heads * num_q_per_kv, keys);
        } else if (warp == 1 || warp == 2) {
            reduce_dq(tiles.dq[warp - 1], dq_acc, warp - 1, keys);
        }
        return;
    }
    setmaxnreg_inc<CONSUMER_REGISTERS>();
    const int consumer = warpgroup - 1, thread = threadIdx.x % 128, lane = thread % WARP_SIZE;
    const int own_key = consumer * WARPGROUP_ROWS + thread / WARP_SIZE * 16 + lane / 4;  // and own_key + 8
    // endregion

    const Operands operands(tiles, consumer);
    unsigned char* ds_smem = tiles.d_scores[0] + own_key * PANEL_ROW_BYTES;

    // At D = 128 the scores of the next tile run under the products of this one. At D = 64 a tile has twice the queries, and the
    // registers of its scores hold dQ until it has been stored: the next tile begins with them, while dK is still in flight.
    constexpr bool EARLY_SCORES = HEAD_DIM == 128;
    const float scale_log2 = softmax_scale * LOG2_E;
    float dk[HEAD_DIM / 2], dv[HEAD_DIM / 2], scores[BLOCK_M / 2], d_scores[BLOCK_M / 2], dq[CHUNK / 128];
    unsigned probs[BLOCK_M / 16][4], packed[BLOCK_M / 16][4];  // P^T and dS^T, rounded
    Ring<Q_STAGES> q_ring;
    Ring<NUM_STAGES> d_out_ring;
    int tile = keys.first_tile;
    // region: first_scores
    mbarrier_wait_parity(&barriers.k_full, 0);
    mbarrier_wait_parity(&barriers.q_full[0], 0);
    if (EARLY_SCORES) {
        issue_q_k<ELEMENT, HEAD_DIM, BLOCK_N>(scores, operands.k, operands.q);
        wgmma_wait_group<0>();
        wgmma_keep_order(scores);
    }
    mbarrier_wait_parity(&barriers.v_full, 0);
    // endregion
#pragma unroll 1
    for (int i = 0; i < keys.num_steps; ++i) {
        const int stage = q_ring.stage, q_start = tile * BLOCK_M;
        const bool last = i + 1 == keys.num_steps;
        mbarrier_t* q_before = &barriers.q_empty[stage == 0 ? Q_STAGES - 1 : stage - 1];  // of the tile before
        q_ring.advance();
        // region: late_scores
        if (!EARLY_SCORES) {
            issue_q_k<ELEMENT, HEAD_DIM, BLOCK_N>(scores, operands.k, operands.q + stage * (Q_BYTES / 16));
            wgmma_wait_group<1>();  // dK of the tile before is done
            keep_order(dk, packed);
            if (i > 0 && thread == 0) mbarrier_arrive(q_before);
        }
        // endregion
        // region: probs
        mbarrier_wait_parity(&barriers.d_out_full[d_out_ring.stage], d_out_ring.parity);
        issue_q_k<ELEMENT, HEAD_DIM, BLOCK_N>(d_scores, operands.v, operands.d_out + d_out_ring.stage * (Q_BYTES / 16));
        if (!EARLY_SCORES) {
            wgmma_wait_group<1>();
            wgmma_keep_order(scores);
        }
        const bool cut = causal && q_start + seq_len_kv - seq_len_q < keys.kv_start + BLOCK_N - 1;  // by the diagonal
        if (cut || keys.kv_start + BLOCK_N > seq_len_kv) {
            mask_keys(scores, keys.kv_start + own_key, q_start, seq_len_kv, seq_len_kv - seq_len_q, causal, lane);
        }
        exp_columns(scores, tiles.stats[stage].lse_log2, scale_log2, lane);  // while dP is in flight
        if (!EARLY_SCORES) {
            wgmma_keep_order(scores);
            if (!last) mbarrier_wait_parity(&barriers.q_full[q_ring.stage], q_ring.parity);  // here, where it costs nothing
        }
        // endregion
        // region: d_scores
        wgmma_wait_group<0>();  // dP, and with early scores dK of the tile before
        wgmma_keep_order(d_scores);
        if (EARLY_SCORES) {
            keep_order(dk, packed);
            if (i > 0 && thread == 0) mbarrier_arrive(q_before);
        }
        softmax_gradient(d_scores, scores, tiles.stats[stage].row_dot, lane);
        pack_probs<ELEMENT>(packed, d_scores);
        const int ds_stage = i % NUM_STAGES;
        stage_packed<KEY_PANEL_BYTES>(ds_smem + ds_stage * (BLOCK_N * BLOCK_M * 2), packed, lane);
        fence_proxy_async();  // wgmma reads dS through the async proxy
        pack_probs<ELEMENT>(probs, scores);
        // endregion
        // region: products
        issue_packed<ELEMENT>(dv, probs, operands.d_out + d_out_ring.stage * (Q_BYTES / 16), i);
        if (EARLY_SCORES) {  // of the next tile; in the last step once more of this one, which is not used: a branch costs registers
            const int next_stage = last ? stage : q_ring.stage;
            if (!last) mbarrier_wait_parity(&barriers.q_full[next_stage], q_ring.parity);
            issue_q_k<ELEMENT, HEAD_DIM, BLOCK_N>(scores, operands.k, operands.q + next_stage * (Q_BYTES / 16));
        }
        named_barrier_sync(DS_READY, 128 * NUM_CONSUMERS);  // separates the writes of dS from the product with K
        if (EARLY_SCORES) {
            wgmma_wait_group<1>();  // dV is done: its registers of P are free for dQ
            keep_order(dv, probs);
        }
        issue_ds_k<ELEMENT, BLOCK_N>(dq, operands.d_scores + ds_stage * (BLOCK_N * BLOCK_M * 2 / 16), operands.dq_k);
        issue_packed<ELEMENT>(dk, packed, operands.q + stage * (Q_BYTES / 16), i);
        wgmma_wait_group<1>();  // all but dK are done
        keep_order(dq, dv, probs);
        if (EARLY_SCORES) wgmma_keep_order(scores);
        if (thread == 0) mbarrier_arrive(&barriers.d_out_empty[d_out_ring.stage]);
        d_out_ring.advance();
        // endregion
        // region: store_dq
        named_barrier_sync(DQ_EMPTY + consumer, 128 + WARP_SIZE);  // the last chunk has left
        stage_floats(tiles.dq[consumer], dq, thread);
        fence_proxy_async();  // the reduction reads through the async proxy
        named_barrier_arrive(DQ_FULL + consumer, 128 + WARP_SIZE);
        if (++tile == keys.num_q_tiles) tile = keys.first_tile;
        // endregion
    }
    // region: last_wait
    wgmma_wait_group<0>();
    wgmma_keep_order(dk);
    named_barrier_sync(DS_READY, 128 * NUM_CONSUMERS);  // separates the last reads of K, by both consumers, from the writes of dK
    store_dk_dv(tiles, dk, dv, &dk_map, &dv_map, softmax_scale, consumer, keys);
    // endregion
}

// region: dq
extern "C" __global__ void __launch_bounds__(128)
dq_kernel(const float* dq_acc, const __grid_constant__ TensorMap dq_map, int num_heads, int seq_len_q, float softmax_scale) {
    __shared__ __align__(1024) unsigned char tile_smem[WARPGROUP_ROWS * PANEL_ROW_BYTES];  // (64, 64): a chunk
    float dq[CHUNK / 128];
    load_floats(dq, dq_acc + (long long)blockIdx.x * CHUNK, threadIdx.x);
    stage_rows<ELEMENT, 0>(tile_smem, dq, softmax_scale, threadIdx.x);
    fence_proxy_async();  // the store reads through the async proxy
    __syncthreads();      // separates all threads' writes from the store
    if (threadIdx.x == 0) {
        const int num_chunks = NUM_CONSUMERS * CEIL_DIV(seq_len_q, BLOCK_M);  // of a head
        const int chunk = blockIdx.x % num_chunks, batch_head = blockIdx.x / num_chunks;
        const int row = chunk / PANELS * WARPGROUP_ROWS, col = chunk % PANELS * PANEL_COLS;
        tma_store_4d(&dq_map, tile_smem, col, row, batch_head % num_heads, batch_head / num_heads);
        bulk_commit_group();
        bulk_wait_group<0>();
    }
}
// endregion
