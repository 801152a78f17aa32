// warp_reduce — one number of each lane to one number for the warp. Device code only, no host headers.
#pragma once
#include "common/constants.cuh"

// region: warp_reduce
// All 32 lanes take part, and all get the result.
__device__ __forceinline__ float warp_max(float value) {
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, offset));
    }
    return value;
}

__device__ __forceinline__ float warp_sum(float value) {
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(ALL_LANES, value, offset);
    }
    return value;
}
// endregion
