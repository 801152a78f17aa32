// 09_wgmma — matrix product of 16-bit numbers on Hopper: warpgroups multiply what the copy engine brings
//
// Idea      wgmma reads both operands from shared memory, so a tile needs one thread to fetch it and no registers on its way
// Builds on 08_pipelined. Changed: TMA in place of cp.async, a ring of mbarriers in place of __syncthreads, a warpgroup that only
//           copies, wgmma in place of ldmatrix and mma, blocks that walk over many tiles, a result that leaves by TMA.
// Contract  a (size_m, size_k), b (size_k, size_n), out (size_m, size_n) = a b: ELEMENT (__half or __nv_bfloat16), summed in float
//           rows of whole 16-byte chunks (size_k and size_n multiples of 8), 16-byte aligned; any size_m
//           maps: a with boxes of (BLOCK_M, 64), b of (BLOCK_K, 64), out of (64, 64), all swizzled by 128 bytes
// Launch    grid min(multiprocessors, tiles) with ceil(size_m / BLOCK_M) ceil(size_n / BLOCK_N) tiles · block 384
//           dynamic shared memory of NUM_STAGES (BLOCK_M + BLOCK_N) BLOCK_K * 2 + 32768 bytes
// Needs     compute capability 9.0a · compiled by NVRTC: device code only, no host headers
// gate: -DELEMENT=__half -DBLOCK_N=256 -DNUM_STAGES=4 -DGROUP_M=16
// gate: -DELEMENT=__nv_bfloat16 -DBLOCK_N=256 -DNUM_STAGES=4 -DGROUP_M=16
// gate: -DELEMENT=__half -DBLOCK_N=128 -DNUM_STAGES=2 -DGROUP_M=2
// Source    PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "cp.async.bulk.tensor"
//           roles of the warpgroups: CUTLASS, sm90_mma_tma_gmma_ss_warpspecialized.hpp
//           order of the tiles: Triton tutorial 03, "L2 Cache Optimizations"
#include "common/constants.cuh"      // CEIL_DIV, ALL_LANES
#include "common/half_types.cuh"     // pack_pair
#include "common/named_barrier.cuh"  // named_barrier_sync
#include "common/ring.cuh"           // Ring: stage and parity
#include "common/setmaxnreg.cuh"     // setmaxnreg_dec, setmaxnreg_inc
#include "common/tma.cuh"            // TensorMap, tma_load_2d, tma_store_2d, mbarrier_…
#include "common/wgmma.cuh"          // wgmma_descriptor, wgmma_ss
#ifndef ELEMENT
#error "ELEMENT: type of a, b and out; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#ifndef BLOCK_N
#error "BLOCK_N: columns of a tile; pass -DBLOCK_N=256"
#endif
#if !defined(NUM_STAGES) || !defined(GROUP_M)
#error "NUM_STAGES: tiles in shared memory; GROUP_M: rows of tiles that are walked together; pass -DNUM_STAGES=4 -DGROUP_M=16"
#endif
#define WARPGROUP 128                        // threads
#define WARPGROUP_ROWS 64                    // of the result: m of a wgmma
#define NUM_CONSUMERS 2                      // warpgroups that multiply; one more copies
#define NUM_THREADS ((NUM_CONSUMERS + 1) * WARPGROUP)
#define CONSUMER_REGISTERS 240               // 2 * 128 * 240 + 128 * 24 <= 65536: BLOCK_N / 2 of them are sums
#define PRODUCER_REGISTERS 24
#define BLOCK_M (NUM_CONSUMERS * WARPGROUP_ROWS)
#define BLOCK_K PANEL_COLS
#define PANEL_COLS 64                        // a panel is as wide as the swizzle: 64 numbers
#define PANEL_ROW_BYTES 128
#define SWIZZLE_BYTES 1024                   // the pattern repeats after 8 rows of a panel
#define A_STEP_BYTES 32                      // wgmma takes 16 of k at a time: 16 numbers further along a row of a
#define B_STEP_BYTES (16 * PANEL_ROW_BYTES)  // and 16 rows further down in b
#define A_BYTES (BLOCK_M * PANEL_ROW_BYTES)
#define B_PANEL_BYTES (BLOCK_K * PANEL_ROW_BYTES)
#define NUM_PANELS (BLOCK_N / PANEL_COLS)    // of b's tile, and of the result
#define STAGE_BYTES (A_BYTES + NUM_PANELS * B_PANEL_BYTES)
#define OUT_SLOTS 2                          // panels of the result that a consumer has in shared memory
#define OUT_PANEL_BYTES (WARPGROUP_ROWS * PANEL_ROW_BYTES)
static_assert(BLOCK_N % PANEL_COLS == 0 && BLOCK_N <= 256, "BLOCK_N: whole panels, and n of a wgmma, which is at most 256");
static_assert(NUM_PANELS % OUT_SLOTS == 0, "BLOCK_N: panels take turns in the slots, and each tile begins with slot 0");
static_assert(NUM_STAGES >= 2, "NUM_STAGES: one to read and one to fill, at least");

struct Barriers {
    mbarrier_t full[NUM_STAGES];   // a stage has arrived: one arrival, STAGE_BYTES
    mbarrier_t empty[NUM_STAGES];  // a stage has been read: one arrival of each consumer
};

// region: tile_of
struct Tile {
    int row, col;  // its first, in the result
};
// Tile number `idx`: down a column of GROUP_M tiles, then the next column. Tiles in flight share rows of a and columns of b in L2.
__device__ __forceinline__ Tile tile_of(int idx, int tiles_m, int tiles_n) {
    const int group_row = idx / (GROUP_M * tiles_n) * GROUP_M, in_group = idx % (GROUP_M * tiles_n);
    const int group_rows = min(GROUP_M, tiles_m - group_row);
    return {(group_row + in_group % group_rows) * BLOCK_M, in_group / group_rows * BLOCK_N};
}
// endregion

// region: load_stage
// One thread starts the copies of the operands from k_start on. Outside the matrices zeros arrive, and count as bytes.
__device__ __forceinline__ void load_stage(unsigned char* stage_smem, mbarrier_t* full, const TensorMap* a_map,
                                           const TensorMap* b_map, Tile tile, int k_start) {
    mbarrier_arrive_expect_tx(full, STAGE_BYTES);
    tma_load_2d(stage_smem, a_map, full, k_start, tile.row);
    for (int panel = 0; panel < NUM_PANELS; ++panel) {
        tma_load_2d(stage_smem + A_BYTES + panel * B_PANEL_BYTES, b_map, full, tile.col + panel * PANEL_COLS, k_start);
    }
}
// endregion

// region: multiply_stage
// acc = a b, or acc + a b, of one stage: issued, and done on return. The rows of b are k, so wgmma reads it transposed.
__device__ __forceinline__ void multiply_stage(float (&acc)[BLOCK_N / 2], unsigned long long a_desc, unsigned long long b_desc,
                                               bool add) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < BLOCK_K / 16; ++step) {
        wgmma_ss<0, 1>(acc, a_desc + step * A_STEP_BYTES / 16, b_desc + step * B_STEP_BYTES / 16, add || step > 0, ELEMENT());
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();  // the tensor cores are not idle meanwhile: the other consumer's products are queued
}
// endregion

// region: store_tile
// The warpgroup's sums, rounded, panel by panel into its slots in shared memory; from there TMA writes them while the next tile is
// multiplied, and leaves out what lies outside the matrix.
__device__ __forceinline__ void store_tile(const TensorMap* out_map, const float (&acc)[BLOCK_N / 2], unsigned char* out_smem,
                                           int consumer, int first_row, int first_col) {
    const int thread = threadIdx.x % WARPGROUP, lane = thread % WARP_SIZE;
    const int own_row = thread / WARP_SIZE * 16 + lane / 4;  // and 8 rows below
#pragma unroll
    for (int panel = 0; panel < NUM_PANELS; ++panel) {
        unsigned char* slot = out_smem + panel % OUT_SLOTS * OUT_PANEL_BYTES;
        if (thread == 0) bulk_wait_group_read<OUT_SLOTS - 1>();
        named_barrier_sync(1 + consumer, WARPGROUP);  // separates TMA's read of the slot from the writes of its next panel
#pragma unroll
        for (int i = 0; i < PANEL_COLS / 4; ++i) {  // two columns of one row each
            const int row = own_row + i % 2 * 8, chunk = i / 2 ^ row % 8;  // swizzled, as the map says: no two lanes share a bank
            const float low = acc[panel * (PANEL_COLS / 2) + 2 * i], high = acc[panel * (PANEL_COLS / 2) + 2 * i + 1];
            unsigned* place = reinterpret_cast<unsigned*>(slot + row * PANEL_ROW_BYTES + chunk * 16 + lane % 4 * 4);
            *place = pack_pair(low, high, ELEMENT());
        }
        fence_proxy_async();
        named_barrier_sync(1 + consumer, WARPGROUP);  // separates all threads' writes of the panel from TMA's read
        if (thread == 0) {
            tma_store_2d(out_map, slot, first_col + panel * PANEL_COLS, first_row);
            bulk_commit_group();
        }
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
matmul_kernel(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
              const __grid_constant__ TensorMap out_map, int size_m, int size_n, int size_k) {
    // NUM_STAGES times a (row, k) and b (panel, k, col); then out (consumer, slot, row, col)
    extern __shared__ __align__(SWIZZLE_BYTES) unsigned char smem[];
    __shared__ Barriers barriers;
    const int tiles_m = CEIL_DIV(size_m, BLOCK_M), tiles_n = CEIL_DIV(size_n, BLOCK_N);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < NUM_STAGES; ++stage) {
            mbarrier_init(&barriers.full[stage], 1);
            mbarrier_init(&barriers.empty[stage], NUM_CONSUMERS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();  // separates the initialisation of the barriers from every use
    const int warpgroup = __shfl_sync(ALL_LANES, threadIdx.x / WARPGROUP, 0);  // the same in all lanes: a branch, no divergence
    Ring<NUM_STAGES> ring;
    if (warpgroup == 0) {
        // region: produce
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x != 0) return;  // one thread starts all copies
        for (int idx = blockIdx.x; idx < tiles_m * tiles_n; idx += gridDim.x) {
            const Tile tile = tile_of(idx, tiles_m, tiles_n);
            for (int k_start = 0; k_start < size_k; k_start += BLOCK_K) {
                // separates the consumers' reads of the stage from the copies over it; returns at once in the first round
                mbarrier_wait_parity(&barriers.empty[ring.stage], ring.parity ^ 1);
                load_stage(smem + ring.stage * STAGE_BYTES, &barriers.full[ring.stage], &a_map, &b_map, tile, k_start);
                ring.advance();
            }
        }
        return;
        // endregion
    }
    // region: consume
    setmaxnreg_inc<CONSUMER_REGISTERS>();
    const int consumer = warpgroup - 1, first_row = consumer * WARPGROUP_ROWS;  // in the block's tile
    const bool leader = threadIdx.x % WARPGROUP == 0;
    const unsigned long long a_desc = wgmma_descriptor(smem + first_row * PANEL_ROW_BYTES, 16, SWIZZLE_BYTES);
    const unsigned long long b_desc = wgmma_descriptor(smem + A_BYTES, B_PANEL_BYTES, SWIZZLE_BYTES);  // transposed
    unsigned char* out_smem = smem + NUM_STAGES * STAGE_BYTES + consumer * OUT_SLOTS * OUT_PANEL_BYTES;
    float acc[BLOCK_N / 2];
    for (int idx = blockIdx.x; idx < tiles_m * tiles_n; idx += gridDim.x) {
        const Tile tile = tile_of(idx, tiles_m, tiles_n);
        for (int k_start = 0; k_start < size_k; k_start += BLOCK_K) {
            mbarrier_wait_parity(&barriers.full[ring.stage], ring.parity);  // separates the copies of the stage from its reads
            const int stage_offset = ring.stage * (STAGE_BYTES / 16);       // in the unit of a descriptor
            multiply_stage(acc, a_desc + stage_offset, b_desc + stage_offset, k_start > 0);
            if (leader) mbarrier_arrive(&barriers.empty[ring.stage]);
            ring.advance();
        }
        wgmma_keep_order(acc);  // the compiler reads the sums after the last wait, not before
        store_tile(&out_map, acc, out_smem, consumer, tile.row + first_row, tile.col);
    }
    if (leader) bulk_wait_group<0>();  // TMA still reads the block's shared memory
    // endregion
}
