// Test kernels of named barriers and setmaxnreg. WRONG names what is wrong, see test_named_barrier.py and test_setmaxnreg.py.
// Also run on a GPU by tests/gpu/test_async_gpu.py.
#include "common/named_barrier.cuh"
#include "common/setmaxnreg.cuh"

#define OTHER_COUNT 1
#define NO_MULTIPLE 2
#define ABSENT_WARP 3
#define TWICE 4
#define HALF_A_WARP 5
#define NO_ARRIVE 6
#define LEFT_OVER 7
#define OTHER_NUMBER 8
#define INC_FOR_DEC 9
#define DEC_FOR_INC 10
#define TOO_MANY 11
#define ABSENT_FROM_SETMAXNREG 12
#define ONE_PRODUCER_WARP 13
#ifndef WRONG
#define WRONG 0
#endif

// One block of 128 threads. Warps 0 and 1 write x, warps 2 and 3 read each other's halves of it, through barriers 1 (full) and
// 2 (empty), `rounds` times; the writers only arrive at full, the readers only at empty. out (64,) = rounds * x reversed.
extern "C" __global__ void hand_over_kernel(const float* x, float* out, int rounds) {
    __shared__ float tile_smem[64];
    const int t = threadIdx.x, warp = t / 32;
    float sum = 0.0f;
    for (int round = 0; round < rounds; ++round) {
        if (warp < 2) {
            if (round > 0) named_barrier_sync(2, 128);  // empty
            tile_smem[t] = x[t];                        // the write
            if (WRONG == NO_ARRIVE && warp == 1) continue;
            if (WRONG == HALF_A_WARP && t >= 48) continue;
            if (WRONG == OTHER_COUNT && warp == 1) named_barrier_arrive(1, 96);  // another count
            else if (WRONG == OTHER_NUMBER && warp == 1) named_barrier_arrive(3, 128);
            else named_barrier_arrive(1, WRONG == NO_MULTIPLE ? 120 : 128);                         // full
            if (WRONG == TWICE && warp == 1 && round == 0) named_barrier_arrive(1, 128);  // a second time
        } else {
            if (WRONG == ABSENT_WARP && warp == 3) return;
            named_barrier_sync(1, 128);       // wait for full
            sum += tile_smem[127 - t];        // the read
            if (round + 1 < rounds || WRONG == LEFT_OVER) named_barrier_arrive(2, 128);  // the tile may be written
        }
    }
    if (warp >= 2) out[t - 64] = sum;
}

// One block of 384 threads: a producer warpgroup and two consumers. out (384,) = 1.
extern "C" __global__ void __launch_bounds__(384, 1) registers_kernel(float* out) {
    const int t = threadIdx.x, warpgroup = t / 128;
    if (warpgroup == 0) {
        if (WRONG == ONE_PRODUCER_WARP && t >= 32) return;
        if (WRONG == TOO_MANY) setmaxnreg_dec<80>();
        else if (WRONG == INC_FOR_DEC) setmaxnreg_inc<24>();  // fewer
        else if (WRONG != ABSENT_FROM_SETMAXNREG) setmaxnreg_dec<24>();  // the producer
    } else {
        if (WRONG == DEC_FOR_INC) setmaxnreg_dec<240>();  // more
        else if (WRONG == TOO_MANY) setmaxnreg_inc<224>();  // too many
        else setmaxnreg_inc<240>();                       // the consumers
    }
    out[t] = 1.0f;
}
