// ldmatrix — 8 x 8 tiles of 16-bit numbers from shared memory into the registers of a warp, as mma wants them
//
// All 32 lanes take part. Lane 8 i + r gives the address of row r of tile i: 16 bytes, at a multiple of 16. x1 takes the
// addresses of lanes 0-7, x2 of 0-15, x4 of all. Then register i of lane 4 g + t holds two numbers of tile i, the first in the low half:
//     ldmatrix          row g, columns 2 t and 2 t + 1
//     ldmatrix_trans    column g, rows 2 t and 2 t + 1
// A tile is one pass through the banks when its eight rows lie in eight different groups of four banks (common/swizzle.cuh).
// Needs     compute capability 7.5 · device code only, no host headers
// Source    PTX ISA, "Warp-level matrix load instruction: ldmatrix"
#pragma once

#ifndef __CUDA_ARCH__
#include <simt/ldmatrix.h>  // the same functions on the SIMT machine
#elif __CUDA_ARCH__ < 750
#error "common/ldmatrix.cuh: ldmatrix needs compute capability 7.5 (sm_75) or newer"
#else

__device__ __forceinline__ void ldmatrix_x1(unsigned& r0, const void* row_smem) {
    const unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(row_smem));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];\n" : "=r"(r0) : "r"(row) : "memory");
}
__device__ __forceinline__ void ldmatrix_x2(unsigned& r0, unsigned& r1, const void* row_smem) {
    const unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(row_smem));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"
                 : "=r"(r0), "=r"(r1) : "r"(row) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4(unsigned& r0, unsigned& r1, unsigned& r2, unsigned& r3,
                                            const void* row_smem) {
    const unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(row_smem));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(row) : "memory");
}

__device__ __forceinline__ void ldmatrix_x1_trans(unsigned& r0, const void* row_smem) {
    const unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(row_smem));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];\n" : "=r"(r0) : "r"(row) : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_trans(unsigned& r0, unsigned& r1, const void* row_smem) {
    const unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(row_smem));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"
                 : "=r"(r0), "=r"(r1) : "r"(row) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned& r0, unsigned& r1, unsigned& r2, unsigned& r3,
                                                  const void* row_smem) {
    const unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(row_smem));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(row) : "memory");
}

#endif
