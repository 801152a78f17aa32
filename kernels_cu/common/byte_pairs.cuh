// byte_pairs — numbers of one byte as halves, exactly: int8, and float8 e4m3 (1 sign, 4 exponent, 3 fraction bits)
//
// Both take the four numbers of a register and give two registers of two halves, in the same order. The last argument is a
// value of the type, char() for int8, and only chooses the function. `to_halves_apart` puts the first and the third number into
// the first register, the second and the fourth into the second.
// Device code only, no host headers.
#pragma once
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// A half whose bits are 0x6400 + u is 1024 + u, for u from 0 to 1023: insert the byte, and subtract.
template <unsigned FIRST, unsigned SECOND>  // __byte_perm: which bytes, 0x64 being number 4
__device__ __forceinline__ void int8_to_halves(unsigned (&halves)[2], unsigned bytes) {
    const unsigned shifted = bytes ^ 0x80808080u;  // each number + 128, as an unsigned byte
    const __half2 bias = __floats2half2_rn(1152.0f, 1152.0f);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const unsigned pair = __byte_perm(shifted, 0x64646464u, i == 0 ? FIRST : SECOND);
        const __half2 x = __hsub2(*reinterpret_cast<const __half2*>(&pair), bias);
        halves[i] = *reinterpret_cast<const unsigned*>(&x);
    }
}
__device__ __forceinline__ void to_halves(unsigned (&halves)[2], unsigned bytes, char) {
    int8_to_halves<0x4140u, 0x4342u>(halves, bytes);
}
__device__ __forceinline__ void to_halves_apart(unsigned (&halves)[2], unsigned bytes, char) {
    int8_to_halves<0x4240u, 0x4341u>(halves, bytes);
}

__device__ __forceinline__ void to_halves(unsigned (&halves)[2], unsigned bytes, __nv_fp8_e4m3) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const __half2_raw x = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bytes >> (16 * i)), __NV_E4M3);
        halves[i] = x.x | static_cast<unsigned>(x.y) << 16;
    }
}
__device__ __forceinline__ void to_halves_apart(unsigned (&halves)[2], unsigned bytes, __nv_fp8_e4m3) {
    to_halves(halves, __byte_perm(bytes, 0, 0x3120u), __nv_fp8_e4m3());
}

// The way back: a float to the nearest number of the type, ties to even, saturating; its byte.
__device__ __forceinline__ float largest_number(char) { return 127.0f; }
__device__ __forceinline__ float largest_number(__nv_fp8_e4m3) { return 448.0f; }
__device__ __forceinline__ unsigned to_byte(float x, char) {
    return static_cast<unsigned>(static_cast<int>(rintf(fminf(fmaxf(x, -127.0f), 127.0f)))) & 0xffu;
}
__device__ __forceinline__ unsigned to_byte(float x, __nv_fp8_e4m3) {
    return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
}
