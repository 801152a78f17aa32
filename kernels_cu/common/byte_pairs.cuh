// byte_pairs — numbers of one byte as halves, exactly: int8, and float8 e4m3 (1 sign, 4 exponent, 3 fraction bits)
//
// Both take the four numbers of a register and give two registers of two halves, in the same order. The last argument is a
// value of the type, char() for int8, and only chooses the function.
// Device code only, no host headers.
#pragma once
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// A half whose bits are 0x6400 + u is 1024 + u, for u from 0 to 1023: put the byte there, and subtract.
__device__ __forceinline__ void to_halves(unsigned (&halves)[2], unsigned bytes, char) {
    const unsigned shifted = bytes ^ 0x80808080u;  // each number + 128, as an unsigned byte
    const __half2 bias = __floats2half2_rn(1152.0f, 1152.0f);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const unsigned pair = __byte_perm(shifted, 0x64646464u, i == 0 ? 0x4140u : 0x4342u);
        const __half2 x = __hsub2(*reinterpret_cast<const __half2*>(&pair), bias);
        halves[i] = *reinterpret_cast<const unsigned*>(&x);
    }
}

__device__ __forceinline__ void to_halves(unsigned (&halves)[2], unsigned bytes, __nv_fp8_e4m3) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const __half2_raw x = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bytes >> (16 * i)), __NV_E4M3);
        halves[i] = x.x | static_cast<unsigned>(x.y) << 16;
    }
}
