// half_chunk — 16 bytes of a row, eight numbers of a 16-bit type, as floats. Device code only, no host headers.
//
// The last argument is a value of the type, ELEMENT(), and only chooses the function.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ float2 unpack_pair(unsigned pair, __half) {
    return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}
__device__ __forceinline__ float2 unpack_pair(unsigned pair, __nv_bfloat16) {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}
__device__ __forceinline__ __half rounded(float x, __half) { return __float2half_rn(x); }
__device__ __forceinline__ __nv_bfloat16 rounded(float x, __nv_bfloat16) { return __float2bfloat16_rn(x); }

// Two floats, rounded, in one register; `low` in the low half.
__device__ __forceinline__ unsigned pack_pair(float low, float high, __half) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ __forceinline__ unsigned pack_pair(float low, float high, __nv_bfloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
}

// Eight neighbours, one load; `source` is a multiple of 16 bytes.
template <typename T>
__device__ __forceinline__ void load_chunk(float (&x)[8], const T* source) {
    const uint4 chunk = *reinterpret_cast<const uint4*>(source);
    const unsigned pairs[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = unpack_pair(pairs[i], T());
        x[2 * i] = pair.x;
        x[2 * i + 1] = pair.y;
    }
}
