// <cub/block/block_reduce.cuh> of the SIMT machine: the result is thread 0's. TempStorage is shared memory of the block; as with
// CUB, a __syncthreads() is needed before it is used again.
#pragma once
#include "cub/warp/warp_reduce.cuh"

namespace cub {
template <class T, int BLOCK_DIM_X, int ALGORITHM = 0, int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1>
class BlockReduce {
    static constexpr int NUM_THREADS = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z;
    static constexpr int NUM_WARPS = (NUM_THREADS + 31) / 32;

  public:
    struct TempStorage {
        T of_warp[NUM_WARPS];
    };
    SIMT_MEMBER explicit BlockReduce(TempStorage& storage) : storage_(storage) {}
    template <class OP>
    SIMT_MEMBER T Reduce(T value, OP op) { return Reduce(value, op, NUM_THREADS); }
    // Of the first valid_items threads.
    template <class OP>
    SIMT_MEMBER T Reduce(T value, OP op, int valid_items) {
        const int thread = static_cast<int>(cooperative_groups::simt::rank_in_block()), warp = thread / 32;
        const int in_warp = valid_items - 32 * warp < 32 ? valid_items - 32 * warp : 32, lanes = NUM_THREADS - 32 * warp;
        const unsigned mask = lanes >= 32 ? 0xffffffffu : (1u << lanes) - 1u;
        for (int distance = 1; distance < 32; distance *= 2) {
            const T other = cooperative_groups::simt::shuffled(mask, 2, value, distance, 32);
            if (thread % 32 + distance < in_warp) value = op(value, other);
        }
        if (thread % 32 == 0) storage_.of_warp[warp] = value;
        simt_barrier(0, 0);
        if (thread == 0) {
            for (int other = 1; other < NUM_WARPS && 32 * other < valid_items; ++other) value = op(value, storage_.of_warp[other]);
        }
        return value;
    }
    SIMT_MEMBER T Sum(T value) { return Reduce(value, cuda::std::plus<>()); }
    SIMT_MEMBER T Sum(T value, int valid_items) { return Reduce(value, cuda::std::plus<>(), valid_items); }

  private:
    TempStorage& storage_;
};
}  // namespace cub
