// half_types — one kernel for __half and __nv_bfloat16: the product whose instruction depends on the type
//
// The last argument is a value of the type, ELEMENT(), and only chooses the function.
// Needs     compute capability 8.0 · device code only, no host headers
#pragma once
#include "common/half_chunk.cuh"   // pack_pair
#include "common/tensor_core.cuh"

// d = a b + d on tensor cores, the lanes' parts as in common/tensor_core.cuh
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], __half) {
    mma_m16n8k16_f32_f16(d, a, b, d);
}
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], __nv_bfloat16) {
    mma_m16n8k16_f32_bf16(d, a, b, d);
}
