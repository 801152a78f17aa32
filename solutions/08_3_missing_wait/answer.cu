// 08.3 missing_wait — three loops over tiles of keys and values, each of which lacks its wait in one place
//
// Idea      a copy and a product go on after the call that starts them. Each touch of their data needs a wait of its own kind:
//           for bytes an mbarrier, for registers and operands the product's group, and for a stage its release
// Builds on flash_attention_3/04_overlap. Changed: no softmax, one block; three loops with one mistake each.
// Contract  q (64, 64), k, v (64 * num_tiles, 64) half, as tensor maps with boxes (64, 64) and the swizzle of 128 bytes
//           out (64, 64) float = the sum over the tiles of (scale * q k^T, rounded to half) v; part 0, 1, 2 chooses the loop
//           no Triton twin: Triton's compiler places the waits
// Launch    grid 1 · block 160 · dynamic shared memory 5 * 8192 bytes
// Needs     compute capability 9.0a · compiled by NVRTC: device code only, no host headers
// gate:
// Source    J. Shah et al., "FlashAttention-3", 2024, section 3.2, arXiv:2407.08608
#include "common/attention_wgmma.cuh"  // issue_q_k, issue_p_v: one product each, issued and committed; pack_probs
#include "common/ring.cuh"             // Ring: stage, parity, advance()
#define TILE 64          // queries, keys of a tile, head_dim
#define TILE_BYTES 8192  // 64 rows of 128 bytes
#define NUM_STAGES 2

struct Barriers {
    mbarrier_t q_full, k_full[NUM_STAGES], v_full[NUM_STAGES];  // complete when the tile has landed
    mbarrier_t empty[NUM_STAGES];                               // completes when K and V of the stage may be overwritten
};

// What a loop needs to know, and the two numbers that stay with it.
struct Walk {
    unsigned long long q_desc, k_desc, v_desc;  // of stage 0; a stage is TILE_BYTES / 16 further
    Barriers* barriers;
    int num_tiles, thread;
    float scale;
};

__device__ __forceinline__ void scale_scores(float (&scores)[TILE / 2], float scale) {
#pragma unroll
    for (int i = 0; i < TILE / 2; ++i) scores[i] *= scale;
}

// One thread loads K and V of every tile as soon as a stage is empty.
__device__ __forceinline__ void produce(unsigned char* smem, Barriers& barriers, const TensorMap* q_map, const TensorMap* k_map,
                                        const TensorMap* v_map, int num_tiles) {
    mbarrier_arrive_expect_tx(&barriers.q_full, TILE_BYTES);
    tma_load_2d(smem, q_map, &barriers.q_full, 0, 0);
    Ring<NUM_STAGES> ring;
    for (int tile = 0; tile < num_tiles; ++tile, ring.advance()) {
        unsigned char *k_smem = smem + (1 + ring.stage) * TILE_BYTES, *v_smem = smem + (3 + ring.stage) * TILE_BYTES;
        mbarrier_wait_parity(&barriers.empty[ring.stage], ring.parity ^ 1);
        mbarrier_arrive_expect_tx(&barriers.k_full[ring.stage], TILE_BYTES);
        tma_load_2d(k_smem, k_map, &barriers.k_full[ring.stage], 0, tile * TILE);
        mbarrier_arrive_expect_tx(&barriers.v_full[ring.stage], TILE_BYTES);
        tma_load_2d(v_smem, v_map, &barriers.v_full[ring.stage], 0, tile * TILE);
    }
}

// Part 0: one product after the other.
__device__ __forceinline__ void one_after_the_other(const Walk& walk, float (&acc)[TILE / 2]) {
    Barriers& barriers = *walk.barriers;
    float scores[TILE / 2];
    unsigned probs[TILE / 16][4];
    Ring<NUM_STAGES> ring;
    for (int tile = 0; tile < walk.num_tiles; ++tile, ring.advance()) {
        mbarrier_wait_parity(&barriers.k_full[ring.stage], ring.parity);
        issue_q_k<__half, TILE, TILE>(scores, walk.q_desc, walk.k_desc + ring.stage * (TILE_BYTES / 16));
        wgmma_wait_group<0>();
        wgmma_keep_order(scores);
        scale_scores(scores, walk.scale);
        pack_probs<__half>(probs, scores);
        // BEGIN SOLUTION unmarked
        mbarrier_wait_parity(&barriers.v_full[ring.stage], ring.parity);
        // END SOLUTION
        issue_p_v<__half>(acc, probs, walk.v_desc + ring.stage * (TILE_BYTES / 16));
        wgmma_wait_group<0>();
        wgmma_keep_order(acc);
        if (walk.thread == 0) mbarrier_arrive(&barriers.empty[ring.stage]);
    }
}

// Part 1: the product with V is waited for in the next turn, when its weights are needed again.
__device__ __forceinline__ void wait_in_the_next_turn(const Walk& walk, float (&acc)[TILE / 2]) {
    Barriers& barriers = *walk.barriers;
    float scores[TILE / 2];
    unsigned probs[TILE / 16][4];
    Ring<NUM_STAGES> ring;
    for (int tile = 0; tile < walk.num_tiles; ++tile, ring.advance()) {
        mbarrier_wait_parity(&barriers.k_full[ring.stage], ring.parity);
        issue_q_k<__half, TILE, TILE>(scores, walk.q_desc, walk.k_desc + ring.stage * (TILE_BYTES / 16));
        wgmma_wait_group<0>();  // also the product of the tile before
        wgmma_keep_order(scores);
        // BEGIN SOLUTION unmarked
        if (tile > 0 && walk.thread == 0) mbarrier_arrive(&barriers.empty[(tile - 1) % NUM_STAGES]);
        // END SOLUTION
        scale_scores(scores, walk.scale);
        pack_probs<__half>(probs, scores);
        mbarrier_wait_parity(&barriers.v_full[ring.stage], ring.parity);
        issue_p_v<__half>(acc, probs, walk.v_desc + ring.stage * (TILE_BYTES / 16));
        // BEGIN SOLUTION unmarked
        // GIVEN: if (walk.thread == 0) mbarrier_arrive(&barriers.empty[ring.stage]);
        // END SOLUTION
    }
    wgmma_wait_group<0>();
    wgmma_keep_order(acc);
}

// Part 2: the scores of the next tile are scaled while the product with V is in flight.
__device__ __forceinline__ void overlapped(const Walk& walk, float (&acc)[TILE / 2]) {
    Barriers& barriers = *walk.barriers;
    float scores[TILE / 2];
    unsigned probs[TILE / 16][4];
    Ring<NUM_STAGES> k_ring, v_ring;  // V is read one tile later than K
    mbarrier_wait_parity(&barriers.k_full[0], 0);
    issue_q_k<__half, TILE, TILE>(scores, walk.q_desc, walk.k_desc);
    k_ring.advance();
    wgmma_wait_group<0>();
    wgmma_keep_order(scores);
    scale_scores(scores, walk.scale);
    pack_probs<__half>(probs, scores);
    for (int tile = 1; tile < walk.num_tiles; ++tile) {
        mbarrier_wait_parity(&barriers.k_full[k_ring.stage], k_ring.parity);
        issue_q_k<__half, TILE, TILE>(scores, walk.q_desc, walk.k_desc + k_ring.stage * (TILE_BYTES / 16));
        k_ring.advance();
        mbarrier_wait_parity(&barriers.v_full[v_ring.stage], v_ring.parity);
        issue_p_v<__half>(acc, probs, walk.v_desc + v_ring.stage * (TILE_BYTES / 16));  // of the tile before
        // BEGIN SOLUTION unmarked
        wgmma_wait_group<1>();  // the scores are done, acc is in flight
        // END SOLUTION
        wgmma_keep_order(scores);
        scale_scores(scores, walk.scale);
        wgmma_wait_group<0>();
        wgmma_keep_order(acc);
        if (walk.thread == 0) mbarrier_arrive(&barriers.empty[v_ring.stage]);
        v_ring.advance();
        pack_probs<__half>(probs, scores);
    }
    mbarrier_wait_parity(&barriers.v_full[v_ring.stage], v_ring.parity);
    issue_p_v<__half>(acc, probs, walk.v_desc + v_ring.stage * (TILE_BYTES / 16));
    wgmma_wait_group<0>();
    wgmma_keep_order(acc);
}

extern "C" __global__ void __launch_bounds__(160)
three_loops_kernel(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
                   const __grid_constant__ TensorMap v_map, float* out, int part, int num_tiles, float scale) {
    // BEGIN SOLUTION
    // END SOLUTION
    extern __shared__ __align__(1024) unsigned char smem[];  // Q, two stages of K, two of V
    __shared__ Barriers barriers;
    if (threadIdx.x == 0) {
        mbarrier_init(&barriers.q_full, 1);
        for (int stage = 0; stage < NUM_STAGES; ++stage) {
            mbarrier_init(&barriers.k_full[stage], 1);
            mbarrier_init(&barriers.v_full[stage], 1);
            mbarrier_init(&barriers.empty[stage], 1);
        }
        fence_mbarrier_init();
    }
    __syncthreads();  // separates the initialisation from every use
    if (threadIdx.x >= 128) {
        if (threadIdx.x == 128) produce(smem, barriers, &q_map, &k_map, &v_map, num_tiles);
        return;
    }
    const Walk walk = {wgmma_descriptor(smem, 16, 1024), wgmma_descriptor(smem + TILE_BYTES, 16, 1024),
                       wgmma_descriptor(smem + 3 * TILE_BYTES, TILE_BYTES, 1024), &barriers, num_tiles, (int)threadIdx.x, scale};
    float acc[TILE / 2];
#pragma unroll
    for (int i = 0; i < TILE / 2; ++i) acc[i] = 0.0f;
    mbarrier_wait_parity(&barriers.q_full, 0);
    if (part == 0) one_after_the_other(walk, acc);
    if (part == 1) wait_in_the_next_turn(walk, acc);
    if (part == 2) overlapped(walk, acc);
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    for (int i = 0; i < TILE / 2; ++i) out[(row + i / 2 % 2 * 8) * TILE + i / 4 * 8 + lane % 4 * 2 + i % 2] = acc[i];
}
