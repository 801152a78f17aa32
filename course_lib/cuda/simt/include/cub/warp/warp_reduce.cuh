// <cub/warp/warp_reduce.cuh> of the SIMT machine: the result is lane 0's; the other lanes get a value that no kernel may use.
#pragma once
#include "cuda/functional"

namespace cub {
template <class T, int LOGICAL_WARP_THREADS = 32>
class WarpReduce {
    using Tile = cooperative_groups::thread_block_tile<LOGICAL_WARP_THREADS>;

  public:
    struct TempStorage {
        char unused;
    };
    SIMT_MEMBER explicit WarpReduce(TempStorage&) {}
    template <class OP>
    SIMT_MEMBER T Reduce(T value, OP op) { return Reduce(value, op, LOGICAL_WARP_THREADS); }
    // Of the first valid_items lanes.
    template <class OP>
    SIMT_MEMBER T Reduce(T value, OP op, int valid_items) {
        for (unsigned distance = 1; distance < LOGICAL_WARP_THREADS; distance *= 2) {
            const T other = Tile::shfl_down(value, distance);
            if (Tile::thread_rank() + distance < static_cast<unsigned>(valid_items)) value = op(value, other);
        }
        return value;
    }
    SIMT_MEMBER T Sum(T value) { return Reduce(value, cuda::std::plus<>()); }
    SIMT_MEMBER T Sum(T value, int valid_items) { return Reduce(value, cuda::std::plus<>(), valid_items); }
};
}  // namespace cub
