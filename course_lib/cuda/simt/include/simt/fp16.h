// __half and __half2, bit-exact, for <cuda_fp16.h>.
//
// The names are in namespace simt_fp16, and <cuda_fp16.h> has a using-directive for it: all headers are in one precompiled
// header, and a kernel without the include must not compile here, since it would not under NVRTC.
// The constructors and conversions are those of CUDA, all implicit, so that `h + 1.0f` is as ambiguous as under NVRTC.
// Source: CUDA Math API, section "FP16 Intrinsics".
#pragma once
#include "simt/half_bits.h"
#include "simt/half_intrinsics.h"

// Members shared by __half and __nv_bfloat16. TO_BITS(float) and TO_FLOAT(bits) are the format's conversions.
#define SIMT_HALF_MEMBERS(H, RAW, TO_BITS, TO_FLOAT)                                                      \
    unsigned short simt_bits;                                                                             \
    H() = default;                                                                                        \
    constexpr H(const RAW& raw) : simt_bits(raw.x) {}                                                     \
    SIMT_ALWAYS_INLINE H(float x) : simt_bits(TO_BITS(x)) {}                                              \
    SIMT_ALWAYS_INLINE H(double x) : simt_bits(TO_BITS(simt_round_to_odd(x))) {}                          \
    SIMT_ALWAYS_INLINE H(short x) : simt_bits(TO_BITS(static_cast<float>(x))) {}                          \
    SIMT_ALWAYS_INLINE H(unsigned short x) : simt_bits(TO_BITS(static_cast<float>(x))) {}                 \
    SIMT_ALWAYS_INLINE H(int x) : simt_bits(TO_BITS(simt_round_to_odd(x))) {}                             \
    SIMT_ALWAYS_INLINE H(unsigned int x) : simt_bits(TO_BITS(simt_round_to_odd(x))) {}                    \
    inline H(long x);                                                                                     \
    inline H(unsigned long x);                                                                            \
    inline H(long long x);                                                                                \
    inline H(unsigned long long x);                                                                       \
    SIMT_ALWAYS_INLINE operator RAW() const {                                                             \
        RAW raw;                                                                                          \
        raw.x = simt_bits;                                                                                \
        return raw;                                                                                       \
    }                                                                                                     \
    SIMT_ALWAYS_INLINE operator float() const { return TO_FLOAT(simt_bits); }                             \
    SIMT_ALWAYS_INLINE operator bool() const { return (simt_bits & 0x7fffu) != 0; }                       \
    SIMT_HALF_CAST(signed char, TO_FLOAT, max(-128, min(127, i)))                                         \
    SIMT_HALF_CAST(unsigned char, TO_FLOAT, max(0, min(255, i)))                                          \
    SIMT_HALF_CAST(char, TO_FLOAT, max(static_cast<char>(-1) < 0 ? -128 : 0, min(static_cast<char>(-1) < 0 ? 127 : 255, i))) \
    SIMT_HALF_CAST(short, TO_FLOAT, max(-32768, min(32767, i)))                                           \
    SIMT_HALF_CAST(unsigned short, TO_FLOAT, max(0, min(65535, i)))                                       \
    SIMT_HALF_CAST(int, TO_FLOAT, i)                                                                      \
    SIMT_ALWAYS_INLINE operator unsigned int() const { return __float2uint_rz(TO_FLOAT(simt_bits)); }     \
    SIMT_ALWAYS_INLINE operator long() const { return __float2ll_rz(TO_FLOAT(simt_bits)); }               \
    SIMT_ALWAYS_INLINE operator unsigned long() const { return __float2ull_rz(TO_FLOAT(simt_bits)); }     \
    SIMT_ALWAYS_INLINE operator long long() const { return __float2ll_rz(TO_FLOAT(simt_bits)); }          \
    SIMT_ALWAYS_INLINE operator unsigned long long() const { return __float2ull_rz(TO_FLOAT(simt_bits)); }
// i: the value rounded toward zero
#define SIMT_HALF_CAST(T, TO_FLOAT, EXPRESSION)                                                           \
    SIMT_ALWAYS_INLINE operator T() const {                                                               \
        int i = __float2int_rz(TO_FLOAT(simt_bits));                                                      \
        return static_cast<T>(EXPRESSION);                                                                \
    }
#define SIMT_HALF_FROM_LONG(H, H_NAME)                                                                    \
    SIMT_ALWAYS_INLINE H::H(long x) : H(__ll2##H_NAME##_rn(x)) {}                                         \
    SIMT_ALWAYS_INLINE H::H(unsigned long x) : H(__ull2##H_NAME##_rn(x)) {}                               \
    SIMT_ALWAYS_INLINE H::H(long long x) : H(__ll2##H_NAME##_rn(x)) {}                                    \
    SIMT_ALWAYS_INLINE H::H(unsigned long long x) : H(__ull2##H_NAME##_rn(x)) {}
// A pair is one 32-bit word: it loads and stores as such (see vector_types.h).
#if defined(SIMT_CHECKED)
#define SIMT_HALF2_COPY(H2) SIMT_COPY_WHOLE(H2)
#else
#define SIMT_HALF2_COPY(H2)
#endif
#define SIMT_HALF2_MEMBERS(H, H2, RAW2)                                                                   \
    H x, y;                                                                                               \
    H2() = default;                                                                                       \
    SIMT_ALWAYS_INLINE H2(const H& a, const H& b) : x(a), y(b) {}                                         \
    SIMT_ALWAYS_INLINE H2(const RAW2& raw) {                                                              \
        x.simt_bits = raw.x;                                                                              \
        y.simt_bits = raw.y;                                                                              \
    }                                                                                                     \
    SIMT_ALWAYS_INLINE operator RAW2() const {                                                            \
        RAW2 raw;                                                                                         \
        raw.x = x.simt_bits;                                                                              \
        raw.y = y.simt_bits;                                                                              \
        return raw;                                                                                       \
    }                                                                                                     \
    SIMT_HALF2_COPY(H2)

namespace simt_bf16 {
struct __nv_bfloat16;
}
namespace simt_fp16 {
struct __half_raw {
    unsigned short x;
};
struct alignas(4) __half2_raw {
    unsigned short x, y;
};
struct __half {
    SIMT_HALF_MEMBERS(__half, __half_raw, simt_float_to_half_bits, simt_half_bits_to_float)
    explicit inline __half(simt_bf16::__nv_bfloat16 x);  // defined in bf16.h
};
struct alignas(4) __half2 {
    SIMT_HALF2_MEMBERS(__half, __half2, __half2_raw)
};
typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

SIMT_INLINE __half simt_from_bits(unsigned short bits) {
    __half_raw raw;
    raw.x = bits;
    return __half(raw);
}
SIMT_INLINE float simt_value(__half x) { return simt_half_bits_to_float(x.simt_bits); }
SIMT_INLINE __half simt_round(float x) { return __half(x); }
SIMT_INLINE __half simt_round(double x) { return __half(x); }

#define H __half
#define H2 __half2
#define H_NAME half
#define H2_NAME half2
#include "simt/half_functions.inc"
#undef H
#undef H2
#undef H_NAME
#undef H2_NAME
SIMT_HALF_FROM_LONG(__half, half)
SIMT_HALF_INTRINSICS(__half, __half2, SIMT_F16, SIMT_F16X2)
}  // namespace simt_fp16
