// <cooperative_groups/reduce.h> of the SIMT machine: reduce over a tile or the coalesced lanes of a warp; every thread gets it.
#pragma once
#include "simt/groups.h"

namespace cooperative_groups {
template <class T>
struct plus {
    SIMT_MEMBER T operator()(T x, T y) const { return x + y; }
};
template <class T>
struct less {  // the smaller of two, as in CUDA
    SIMT_MEMBER T operator()(T x, T y) const { return y < x ? y : x; }
};
template <class T>
struct greater {
    SIMT_MEMBER T operator()(T x, T y) const { return x < y ? y : x; }
};
template <class T>
struct bit_and {
    SIMT_MEMBER T operator()(T x, T y) const { return x & y; }
};
template <class T>
struct bit_or {
    SIMT_MEMBER T operator()(T x, T y) const { return x | y; }
};
template <class T>
struct bit_xor {
    SIMT_MEMBER T operator()(T x, T y) const { return x ^ y; }
};

template <unsigned SIZE, class PARENT, class T, class OP>
SIMT_MEMBER T reduce(const thread_block_tile<SIZE, PARENT>& tile, T value, OP&& op) {
    for (unsigned distance = SIZE / 2; distance > 0; distance /= 2) value = op(value, tile.shfl_xor(value, distance));
    return value;
}
template <class T, class OP>
SIMT_MEMBER T reduce(const coalesced_group& group, T value, OP&& op) {
    T result = group.shfl(value, 0);
    for (unsigned rank = 1; rank < group.size(); ++rank) result = op(result, group.shfl(value, static_cast<int>(rank)));
    return result;
}
}  // namespace cooperative_groups
