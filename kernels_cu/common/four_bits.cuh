// four_bits — weights of four bits in their words as 16-bit floats, exact, two at once. Device code only, no host headers.
//
// A word holds eight numbers of 0 to 15 in the order 0 2 4 6 1 3 5 7 from its lowest four bits on, so that a shift and a mask
// leave two neighbours in the halves of a register. The last argument is a value of the type and only chooses the function.
// Source    Y. J. Kim and others, "Who Says Elephants Can't Run", 2022 (numbers of four bits as floats by their
//           bits), arXiv:2211.10017; E. Frantar and others, "MARLIN", 2024 (order in the word), arXiv:2408.11743
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The lowest four bits of both halves of a word, and the bits of `above`: one instruction, which takes three registers or two and a
// constant. Written as & and |, it becomes two.
__device__ __forceinline__ unsigned quads_below(unsigned word, unsigned above) {
#ifdef __CUDA_ARCH__
    unsigned result;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;\n" : "=r"(result) : "r"(word), "r"(0x000f000fu), "r"(above));
    return result;
#else
    return (word & 0x000f000fu) | above;
#endif
}

// region: unpack
// Four bits set below an exponent are a float: 1024 + q in half, 128 + q in bfloat16; minus that and the zero, exact.
__device__ __forceinline__ unsigned minus_zero(unsigned word, unsigned zero, __half) {
    const unsigned numbers = quads_below(word, 0x64006400u), shift = (0x6400u + zero) * 0x10001u;  // integers below 2048: exact
    const __half2 pair = __hsub2(*reinterpret_cast<const __half2*>(&numbers), *reinterpret_cast<const __half2*>(&shift));
    return *reinterpret_cast<const unsigned*>(&pair);
}
// endregion
__device__ __forceinline__ unsigned minus_zero(unsigned word, unsigned zero, __nv_bfloat16) {
    const unsigned numbers = quads_below(word, 0x43004300u), shift = (0x4300u + zero) * 0x10001u;
    const __nv_bfloat162 pair =
        __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&numbers), *reinterpret_cast<const __nv_bfloat162*>(&shift));
    return *reinterpret_cast<const unsigned*>(&pair);
}

// Numbers 2 p and 2 p + 1 of a word, without the zero.
template <typename T>
__device__ __forceinline__ unsigned pair_of(unsigned word, int p, unsigned zero, T type) {
    return minus_zero(word >> (4 * p), zero, type);
}

// A pair of numbers times a pair of scales, rounded once.
__device__ __forceinline__ unsigned scaled(unsigned pair, unsigned scales, __half) {
    const __half2 product = __hmul2(*reinterpret_cast<const __half2*>(&pair), *reinterpret_cast<const __half2*>(&scales));
    return *reinterpret_cast<const unsigned*>(&product);
}
__device__ __forceinline__ unsigned scaled(unsigned pair, unsigned scales, __nv_bfloat16) {
    const __nv_bfloat162 product =
        __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&pair), *reinterpret_cast<const __nv_bfloat162*>(&scales));
    return *reinterpret_cast<const unsigned*>(&product);
}

__device__ __forceinline__ float as_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float as_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ unsigned word_of(const uint4& words, int i) {
    return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}
