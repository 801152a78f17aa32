// 08.2 two_stage_ring — sums of rows, brought tile by tile: a producer warp loads with TMA, consumer warps add up
//
// Idea      two mbarriers a stage: `full` counts the bytes that arrive, `empty` the consumers that have read them. While the
//           consumers read one stage, the next tile is on its way into another
// Builds on flash_attention_3/02_tma_ring. Changed: rows are added up in place of products; the producer is a warp of its own.
// Contract  x (num_rows, NUM_COLS) float, as a tensor map with boxes (TILE_ROWS, NUM_COLS), no swizzle
//           starts (gridDim.x + 1,) int, ascending · out (gridDim.x, NUM_COLS) float
//           out[b] = sum of the rows starts[b] to starts[b + 1] - 1 of x; without rows 0
//           no Triton twin: Triton has no mbarriers
// Launch    grid any · block 32 + NUM_COLS · dynamic shared memory NUM_STAGES * TILE_ROWS * NUM_COLS * 4 bytes
// Needs     compute capability 9.0 · compiled by NVRTC: device code only, no host headers
// gate: -DNUM_STAGES=2 -DTILE_ROWS=8 -DNUM_COLS=64
// Source    PTX ISA, "mbarrier", "cp.async.bulk.tensor"
#ifndef NUM_STAGES
#error "NUM_STAGES: tiles in the ring; pass -DNUM_STAGES=2"
#endif
#ifndef TILE_ROWS
#error "TILE_ROWS: rows of a tile; pass -DTILE_ROWS=8"
#endif
#ifndef NUM_COLS
#error "NUM_COLS: columns of x, a multiple of 32; pass -DNUM_COLS=64"
#endif
#include "common/tma.cuh"  // mbarrier_init, _arrive, _arrive_expect_tx, _wait_parity; tma_load_2d
#define NUM_CONSUMERS NUM_COLS  // threads, each with a column
#define TILE_BYTES (TILE_ROWS * NUM_COLS * 4)

// Column `col` of the first num_rows rows of a tile, added up.
__device__ __forceinline__ float column_sum(const float* tile_smem, int col, int num_rows) {
    float sum = 0.0f;
    for (int row = 0; row < num_rows; ++row) sum += tile_smem[row * NUM_COLS + col];
    return sum;
}

extern "C" __global__ void __launch_bounds__(32 + NUM_CONSUMERS)
segment_sums_kernel(const __grid_constant__ TensorMap x_map, const int* starts, float* out) {
    extern __shared__ __align__(128) float tiles_smem[];  // (NUM_STAGES, TILE_ROWS, NUM_COLS)
    __shared__ mbarrier_t full[NUM_STAGES], empty[NUM_STAGES];
    const int first_row = starts[blockIdx.x], num_rows = starts[blockIdx.x + 1] - first_row;
    const int num_tiles = (num_rows + TILE_ROWS - 1) / TILE_ROWS;  // the last one may be shorter
    const int col = (int)threadIdx.x - 32;                         // of a consumer; the producer warp has the first 32 threads
    float sum = 0.0f;

    // BEGIN SOLUTION
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < NUM_STAGES; ++stage) {
            mbarrier_init(&full[stage], 1);  // the thread that expects the bytes
            mbarrier_init(&empty[stage], NUM_CONSUMERS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();  // separates the initialisation from every use
    int stage = 0;
    unsigned parity = 0;
    for (int tile = 0; tile < num_tiles; ++tile) {
        float* tile_smem = tiles_smem + stage * TILE_ROWS * NUM_COLS;
        if (threadIdx.x == 0) {
            mbarrier_wait_parity(&empty[stage], parity ^ 1);  // in the first round it is empty
            mbarrier_arrive_expect_tx(&full[stage], TILE_BYTES);
            tma_load_2d(tile_smem, &x_map, &full[stage], 0, first_row + tile * TILE_ROWS);
        } else if (col >= 0) {
            mbarrier_wait_parity(&full[stage], parity);
            sum += column_sum(tile_smem, col, min(TILE_ROWS, num_rows - tile * TILE_ROWS));
            mbarrier_arrive(&empty[stage]);
        }
        if (++stage == NUM_STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
    // END SOLUTION

    if (col >= 0) out[(size_t)blockIdx.x * NUM_COLS + col] = sum;
}
