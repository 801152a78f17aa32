// movmatrix — an 8 x 8 tile of 16-bit numbers in the registers of a warp, transposed
//
// All 32 lanes take part. Before: lane 4 g + t holds row g, columns 2 t and 2 t + 1, the first in the low half. After: column g,
// rows 2 t and 2 t + 1. So what an mma leaves with one matrix as rows can enter the next with the same matrix as columns.
// Needs     compute capability 7.5 · device code only, no host headers
// Source    PTX ISA, "Warp-level matrix transpose instruction: movmatrix"
#pragma once
#include "common/constants.cuh"

__device__ __forceinline__ unsigned movmatrix_trans(unsigned pair) {
#ifdef __CUDA_ARCH__
    unsigned transposed;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(transposed) : "r"(pair));
    return transposed;
#else
    const int lane = threadIdx.x % WARP_SIZE, row = lane / 4, from = lane % 4 * 8 + row / 2;  // column `row` of row 2 t, at the SIMT machine
    const unsigned first = __shfl_sync(ALL_LANES, pair, from), second = __shfl_sync(ALL_LANES, pair, from + 4);
    return row % 2 == 0 ? (first & 0xffffu) | second << 16 : first >> 16 | (second & 0xffff0000u);
#endif
}
