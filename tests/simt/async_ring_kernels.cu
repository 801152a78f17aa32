// Test kernels of mbarriers and bulk copies: a ring of STAGES tiles between a producer warp and two consumer warps. WRONG
// names what is wrong with it, see test_async_ring.py. Also run on a GPU by tests/gpu/test_async_gpu.py.
#include "common/tma.cuh"

#define TILE 64  // floats; also the consumers
#define BYTES (TILE * 4)
#define SWAPPED_PARITY 1
#define NO_FULL_WAIT 2
#define NO_EMPTY_WAIT 3
#define EARLY_RELEASE 4
#define HALF_BYTES 5
#define DOUBLE_BYTES 6
#define NO_BYTES 7
#define ABSENT_WARP 8
#define LOW_COUNT 9
#define NO_INIT_FENCE 10
#define NO_INIT_SYNC 11
#define NO_INIT 12
#define STALE_PARITY 13
#define PLAIN_STORE 14
#define SOURCE_CHANGED 15
#define NO_LAST_WAIT 16
#define HALF_BYTES_OF_TWO 17

// One block of 96 threads. x (num_tiles, TILE) · out (TILE,): sum over the tiles of every seventh number from t on
extern "C" __global__ void ring_kernel(float* x, float* out, int num_tiles) {
    __shared__ __align__(128) float tile_smem[STAGES][TILE];
    __shared__ mbarrier_t full[STAGES], empty[STAGES];
    const int t = threadIdx.x;
    if (t == 0 && WRONG != NO_INIT) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], WRONG == LOW_COUNT ? TILE / 2 : TILE);
        }
        if (WRONG != NO_INIT_FENCE) fence_mbarrier_init();
    }
    if (WRONG != NO_INIT_SYNC) __syncthreads();
    if (t >= TILE) {  // the producer warp
        for (int tile = 0; t == TILE && tile < num_tiles; ++tile) {
            const int stage = tile % STAGES, parity = tile / STAGES % 2;
            if (WRONG != NO_EMPTY_WAIT) mbarrier_wait_parity(&empty[stage], parity ^ 1);
            if (WRONG == NO_BYTES) mbarrier_arrive(&full[stage]);
            else if (WRONG == HALF_BYTES || WRONG == HALF_BYTES_OF_TWO) mbarrier_arrive_expect_tx(&full[stage], BYTES / 2);
            else if (WRONG == DOUBLE_BYTES) mbarrier_arrive_expect_tx(&full[stage], BYTES * 2);
            else mbarrier_arrive_expect_tx(&full[stage], BYTES);
            if (WRONG == HALF_BYTES_OF_TWO) {
                bulk_load(tile_smem[stage], x + tile * TILE, BYTES / 2, &full[stage]);                        // first half
                bulk_load(tile_smem[stage] + TILE / 2, x + tile * TILE + TILE / 2, BYTES / 2, &full[stage]);  // second half
            } else {
                bulk_load(tile_smem[stage], x + tile * TILE, BYTES, &full[stage]);  // the load
            }
            if (WRONG == SOURCE_CHANGED) x[tile * TILE] = 0.0f;  // under the load
        }
        return;
    }
    float sum = 0.0f;
    for (int tile = 0; tile < num_tiles; ++tile) {
        const int stage = tile % STAGES, parity = tile / STAGES % 2;
        if (WRONG == SWAPPED_PARITY) mbarrier_wait_parity(&full[stage], parity ^ 1);  // the other parity
        else if (WRONG == STALE_PARITY) mbarrier_wait_parity(&full[stage], 0);        // always parity 0
        else if (WRONG == NO_LAST_WAIT && tile == num_tiles - 1) break;
        else if (WRONG != NO_FULL_WAIT) mbarrier_wait_parity(&full[stage], parity);  // wait for full
        if (WRONG == EARLY_RELEASE) mbarrier_arrive(&empty[stage]);                  // too early
        for (int k = 0; k < TILE; k += 7) {
            sum += tile_smem[stage][(t + k) % TILE];  // the read
        }
        if (WRONG == PLAIN_STORE && t == 3) full[stage] = 0;  // into the barrier
        if (WRONG == ABSENT_WARP && t >= 32) continue;
        if (WRONG != EARLY_RELEASE) mbarrier_arrive(&empty[stage]);  // release
    }
    out[t] = sum;
}
