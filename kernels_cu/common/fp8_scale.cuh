// fp8_scale — numbers of a block of threads as e4m3 with one scale
//
// Device code only, no host headers.
#pragma once
#include <cuda_fp8.h>
#include "common/warp_reduce.cuh"
#define LARGEST_E4M3 448.0f
#define MIN_SCALE 9.094947e-13f  // 2^-40: a block of zeros has a scale too, and products of three scales stay above 2^-126

// Four floats, to the nearest e4m3, ties to even, at most 448; `a` in the lowest byte.
__device__ __forceinline__ unsigned four_e4m3(float a, float b, float c, float d) {
    const unsigned low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
    const unsigned high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, __NV_E4M3);
    return low | high << 16;
}

// The scale that maps the largest number of the block's threads to 448. All take part, and all get it.
template <int NUM_THREADS_>
__device__ __forceinline__ float block_scale(float largest) {
    __shared__ float warp_largest[NUM_THREADS_ / WARP_SIZE];
    largest = warp_max(largest);
    if (threadIdx.x % WARP_SIZE == 0) warp_largest[threadIdx.x / WARP_SIZE] = largest;
    __syncthreads();  // separates the warps' maxima from their reads
#pragma unroll
    for (int warp = 0; warp < NUM_THREADS_ / WARP_SIZE; ++warp) largest = fmaxf(largest, warp_largest[warp]);
    return fmaxf(largest / LARGEST_E4M3, MIN_SCALE);
}
