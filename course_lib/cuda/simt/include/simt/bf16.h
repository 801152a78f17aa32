// __nv_bfloat16 and __nv_bfloat162, bit-exact. <cuda_bf16.h> brings them out (simt/fp16.h says how).
//
// Source: CUDA Math API, section "Bfloat16 Precision Intrinsics".
#pragma once
#include "simt/fp16.h"

namespace simt_bf16 {
struct __nv_bfloat16_raw {
    unsigned short x;
};
struct alignas(4) __nv_bfloat162_raw {
    unsigned short x, y;
};
struct __nv_bfloat16 {
    SIMT_HALF_MEMBERS(__nv_bfloat16, __nv_bfloat16_raw, simt_float_to_bf16_bits, simt_bf16_bits_to_float)
    SIMT_ALWAYS_INLINE explicit __nv_bfloat16(simt_fp16::__half x)
        : simt_bits(simt_float_to_bf16_bits(simt_half_bits_to_float(x.simt_bits))) {}
};
struct alignas(4) __nv_bfloat162 {
    SIMT_HALF2_MEMBERS(__nv_bfloat16, __nv_bfloat162, __nv_bfloat162_raw)
};
}  // namespace simt_bf16
SIMT_ALWAYS_INLINE simt_fp16::__half::__half(simt_bf16::__nv_bfloat16 x)
    : simt_bits(simt_float_to_half_bits(simt_bf16_bits_to_float(x.simt_bits))) {}

namespace simt_bf16 {
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

SIMT_INLINE __nv_bfloat16 simt_from_bits(unsigned short bits) {
    __nv_bfloat16_raw raw;
    raw.x = bits;
    return __nv_bfloat16(raw);
}
SIMT_INLINE float simt_value(__nv_bfloat16 x) { return simt_bf16_bits_to_float(x.simt_bits); }
SIMT_INLINE __nv_bfloat16 simt_round(float x) { return __nv_bfloat16(x); }
SIMT_INLINE __nv_bfloat16 simt_round(double x) { return __nv_bfloat16(x); }

#define H __nv_bfloat16
#define H2 __nv_bfloat162
#define H_NAME bfloat16
#define H2_NAME bfloat162
#include "simt/half_functions.inc"
#undef H
#undef H2
#undef H_NAME
#undef H2_NAME
SIMT_HALF_FROM_LONG(__nv_bfloat16, bfloat16)
SIMT_HALF_INTRINSICS(__nv_bfloat16, __nv_bfloat162, SIMT_BF16, SIMT_BF16X2)
}  // namespace simt_bf16
