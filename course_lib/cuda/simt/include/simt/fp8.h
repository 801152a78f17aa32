// __nv_fp8_e4m3 and __nv_fp8_e5m2 with their x2 and x4 forms, and the __nv_cvt_* functions, for <cuda_fp8.h>.
//
// The types convert with saturation to the largest finite number (__NV_SATFINITE), as CUDA's do, and explicitly only;
// fp8 has no arithmetic of its own. Source: CUDA Math API, section "FP8 Intrinsics". Left out: the e8m0 scale type.
#pragma once
#include "simt/bf16.h"

namespace simt_fp8 {
using namespace simt_fp16;
using namespace simt_bf16;

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

SIMT_INLINE __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    if (kind == __NV_E4M3) return simt_float_to_fp8_bits<3, -6>(x, 0x7e, saturate == __NV_SATFINITE ? 0x7e : 0x7f, 0x7f);
    return simt_float_to_fp8_bits<2, -14>(x, 0x7b, saturate == __NV_SATFINITE ? 0x7b : 0x7c, 0x7f);
}
SIMT_INLINE __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float_to_fp8(simt_round_to_odd(x), saturate, kind);
}
SIMT_INLINE __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturate,
                                                       __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float_to_fp8(simt_half_bits_to_float(x.x), saturate, kind);
}
SIMT_INLINE __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturate,
                                                           __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float_to_fp8(simt_bf16_bits_to_float(x.x), saturate, kind);
}
// Two at once: the first in the low byte.
#define SIMT_FP8_PAIR(NAME, SINGLE, T, FIRST, SECOND)                                                        \
    SIMT_INLINE __nv_fp8x2_storage_t NAME(T v, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) { \
        return static_cast<__nv_fp8x2_storage_t>(SINGLE(FIRST, saturate, kind) | SINGLE(SECOND, saturate, kind) << 8); \
    }
SIMT_FP8_PAIR(__nv_cvt_float2_to_fp8x2, __nv_cvt_float_to_fp8, float2, v.x, v.y)
SIMT_FP8_PAIR(__nv_cvt_double2_to_fp8x2, __nv_cvt_double_to_fp8, double2, v.x, v.y)
SIMT_FP8_PAIR(__nv_cvt_halfraw2_to_fp8x2, __nv_cvt_halfraw_to_fp8, __half2_raw, __half_raw{v.x}, __half_raw{v.y})
SIMT_FP8_PAIR(__nv_cvt_bfloat16raw2_to_fp8x2, __nv_cvt_bfloat16raw_to_fp8, __nv_bfloat162_raw, __nv_bfloat16_raw{v.x},
              __nv_bfloat16_raw{v.y})
#undef SIMT_FP8_PAIR

SIMT_INLINE float simt_fp8_to_float(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return kind == __NV_E4M3 ? simt_e4m3_bits_to_float(x) : simt_e5m2_bits_to_float(x);
}
SIMT_INLINE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return __half_raw{simt_float_to_half_bits(simt_fp8_to_float(x, kind))};  // every fp8 is a half exactly
}
SIMT_INLINE __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return __half2_raw{__nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(x), kind).x,
                       __nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(x >> 8), kind).x};
}

#define SIMT_FP8_FROM(NAME, KIND, T, VALUE) \
    SIMT_ALWAYS_INLINE explicit NAME(T x) : __x(__nv_cvt_double_to_fp8(VALUE, __NV_SATFINITE, KIND)) {}
#define SIMT_FP8_TO(T, VALUE) \
    SIMT_ALWAYS_INLINE explicit operator T() const { return VALUE; }
#define SIMT_FP8_TO_SMALL(KIND, T, LOW, HIGH) \
    SIMT_FP8_TO(T, static_cast<T>(max(LOW, min(HIGH, __float2int_rz(simt_fp8_to_float(__x, KIND))))))

#define SIMT_FP8_TYPE(NAME, KIND)                                                                            \
    struct NAME {                                                                                            \
        __nv_fp8_storage_t __x;                                                                              \
        NAME() = default;                                                                                    \
        SIMT_ALWAYS_INLINE explicit NAME(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, KIND)) {}   \
        SIMT_FP8_FROM(NAME, KIND, __half, simt_half_bits_to_float(x.simt_bits))                              \
        SIMT_FP8_FROM(NAME, KIND, __nv_bfloat16, simt_bf16_bits_to_float(x.simt_bits))                       \
        SIMT_FP8_FROM(NAME, KIND, double, x)                                                                 \
        SIMT_FP8_FROM(NAME, KIND, short, x)                                                                  \
        SIMT_FP8_FROM(NAME, KIND, unsigned short, x)                                                         \
        SIMT_FP8_FROM(NAME, KIND, int, x)                                                                    \
        SIMT_FP8_FROM(NAME, KIND, unsigned int, x)                                                           \
        SIMT_FP8_FROM(NAME, KIND, long, static_cast<double>(x))                                              \
        SIMT_FP8_FROM(NAME, KIND, unsigned long, static_cast<double>(x))                                     \
        SIMT_FP8_FROM(NAME, KIND, long long, static_cast<double>(x))                                         \
        SIMT_FP8_FROM(NAME, KIND, unsigned long long, static_cast<double>(x))                                \
        SIMT_FP8_TO(float, simt_fp8_to_float(__x, KIND))                                                     \
        SIMT_FP8_TO(double, simt_fp8_to_float(__x, KIND))                                                    \
        SIMT_FP8_TO(__half, __half(simt_fp8_to_float(__x, KIND)))                                            \
        SIMT_FP8_TO(__nv_bfloat16, __nv_bfloat16(simt_fp8_to_float(__x, KIND)))                              \
        SIMT_FP8_TO(bool, (__x & 0x7f) != 0)                                                                 \
        SIMT_FP8_TO_SMALL(KIND, signed char, -128, 127)                                                      \
        SIMT_FP8_TO_SMALL(KIND, unsigned char, 0, 255)                                                       \
        SIMT_FP8_TO_SMALL(KIND, char, static_cast<char>(-1) < 0 ? -128 : 0, static_cast<char>(-1) < 0 ? 127 : 255) \
        SIMT_FP8_TO_SMALL(KIND, short, -32768, 32767)                                                        \
        SIMT_FP8_TO_SMALL(KIND, unsigned short, 0, 65535)                                                    \
        SIMT_FP8_TO(int, __float2int_rz(simt_fp8_to_float(__x, KIND)))                                       \
        SIMT_FP8_TO(unsigned int, __float2uint_rz(simt_fp8_to_float(__x, KIND)))                             \
        SIMT_FP8_TO(long, __float2ll_rz(simt_fp8_to_float(__x, KIND)))                                       \
        SIMT_FP8_TO(unsigned long, __float2ull_rz(simt_fp8_to_float(__x, KIND)))                             \
        SIMT_FP8_TO(long long, __float2ll_rz(simt_fp8_to_float(__x, KIND)))                                  \
        SIMT_FP8_TO(unsigned long long, __float2ull_rz(simt_fp8_to_float(__x, KIND)))                        \
    };
SIMT_FP8_TYPE(__nv_fp8_e4m3, __NV_E4M3)
SIMT_FP8_TYPE(__nv_fp8_e5m2, __NV_E5M2)

// Two and four in one word: a single scalar member, so they load and store as one access.
#define SIMT_FP8X2_TYPE(NAME, KIND)                                                                          \
    struct NAME {                                                                                            \
        __nv_fp8x2_storage_t __x;                                                                            \
        NAME() = default;                                                                                    \
        SIMT_ALWAYS_INLINE explicit NAME(float2 v) : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, KIND)) {} \
        SIMT_ALWAYS_INLINE explicit NAME(double2 v) : __x(__nv_cvt_double2_to_fp8x2(v, __NV_SATFINITE, KIND)) {} \
        SIMT_ALWAYS_INLINE explicit NAME(__half2 v)                                                          \
            : __x(__nv_cvt_halfraw2_to_fp8x2(static_cast<__half2_raw>(v), __NV_SATFINITE, KIND)) {}          \
        SIMT_ALWAYS_INLINE explicit NAME(__nv_bfloat162 v)                                                   \
            : __x(__nv_cvt_bfloat16raw2_to_fp8x2(static_cast<__nv_bfloat162_raw>(v), __NV_SATFINITE, KIND)) {} \
        SIMT_FP8_TO(__half2, __half2(__nv_cvt_fp8x2_to_halfraw2(__x, KIND)))                                 \
        SIMT_FP8_TO(float2, make_float2(simt_fp8_to_float(static_cast<unsigned char>(__x), KIND),            \
                                        simt_fp8_to_float(static_cast<unsigned char>(__x >> 8), KIND)))      \
    };
SIMT_FP8X2_TYPE(__nv_fp8x2_e4m3, __NV_E4M3)
SIMT_FP8X2_TYPE(__nv_fp8x2_e5m2, __NV_E5M2)

#define SIMT_FP8X4_TYPE(NAME, PAIR, KIND)                                                                    \
    struct NAME {                                                                                            \
        __nv_fp8x4_storage_t __x;                                                                            \
        NAME() = default;                                                                                    \
        SIMT_ALWAYS_INLINE explicit NAME(float4 v)                                                           \
            : __x(static_cast<unsigned>(PAIR(make_float2(v.x, v.y)).__x) |                                   \
                  static_cast<unsigned>(PAIR(make_float2(v.z, v.w)).__x) << 16) {}                           \
        SIMT_ALWAYS_INLINE explicit NAME(__half2 low, __half2 high)                                          \
            : __x(static_cast<unsigned>(PAIR(low).__x) | static_cast<unsigned>(PAIR(high).__x) << 16) {}     \
        SIMT_ALWAYS_INLINE explicit NAME(__nv_bfloat162 low, __nv_bfloat162 high)                            \
            : __x(static_cast<unsigned>(PAIR(low).__x) | static_cast<unsigned>(PAIR(high).__x) << 16) {}     \
        SIMT_ALWAYS_INLINE explicit operator float4() const {                                                \
            return make_float4(simt_fp8_to_float(static_cast<unsigned char>(__x), KIND),                     \
                               simt_fp8_to_float(static_cast<unsigned char>(__x >> 8), KIND),                \
                               simt_fp8_to_float(static_cast<unsigned char>(__x >> 16), KIND),               \
                               simt_fp8_to_float(static_cast<unsigned char>(__x >> 24), KIND));              \
        }                                                                                                    \
    };
SIMT_FP8X4_TYPE(__nv_fp8x4_e4m3, __nv_fp8x2_e4m3, __NV_E4M3)
SIMT_FP8X4_TYPE(__nv_fp8x4_e5m2, __nv_fp8x2_e5m2, __NV_E5M2)
}  // namespace simt_fp8
