// tensor_core — the warp's matrix product d = a b + c on tensor cores (mma.m16n8k16), and ldmatrix to feed it
//
// a is 16 x 16 (row, k), b is 16 x 8 (k, column), c and d are 16 x 8. All 32 lanes take part; with g = lane / 4 and
// t = lane % 4, this is what a lane holds (two 16-bit numbers a register, the first in the low half):
//     a[0] row g,     k 2t, 2t+1        b[0] column g, k 2t, 2t+1        c[0], c[1] row g,     columns 2t, 2t+1
//     a[1] row g + 8, k 2t, 2t+1        b[1] column g, k 2t+8, 2t+9      c[2], c[3] row g + 8, columns 2t, 2t+1
//     a[2] row g,     k 2t+8, 2t+9                          as halves:   c[0] row g, c[1] row g + 8, both columns in each
//     a[3] row g + 8, k 2t+8, 2t+9
// Names: mma_m16n8k16_<type of c and d>_<type of a and b>. d and c may be the same array.
// Needs     compute capability 8.0 · device code only, no host headers
// Source    PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"
#pragma once
#include "common/ldmatrix.cuh"

#ifndef __CUDA_ARCH__
#include <simt/tensor_core.h>  // the same functions on the SIMT machine
#elif __CUDA_ARCH__ < 800
#error "common/tensor_core.cuh: mma.m16n8k16 needs compute capability 8.0 (sm_80) or newer; common/ldmatrix.cuh needs 7.5"
#else

__device__ __forceinline__ void mma_m16n8k16_f32_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                                     const float (&c)[4]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
                   "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

__device__ __forceinline__ void mma_m16n8k16_f32_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                                      const float (&c)[4]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),
                   "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// Sums kept in half precision: eleven bits. Fast on some cards, and wrong for attention; the course shows why.
__device__ __forceinline__ void mma_m16n8k16_f16_f16(unsigned (&d)[2], const unsigned (&a)[4], const unsigned (&b)[2],
                                                     const unsigned (&c)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};\n"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]));
}

#endif
