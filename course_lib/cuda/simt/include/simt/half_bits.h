// Bit-exact conversions between float or double and the 16-bit and 8-bit formats; no types, only bits.
//
// half      1 sign, 5 exponent, 10 fraction bits (IEEE 754 binary16)      bf16   1, 8, 7 (the upper half of a float)
// fp8 e4m3  1, 4, 3, no infinity, NaN = 0x7f, largest 448                 e5m2   1, 5, 2, with infinity, largest 57344
// Source of the formats: PTX ISA, section "Alternate Floating-Point Data Formats"; rounding is to nearest, ties to even.
//
// Branch-free, so that a loop over them stays straight-line code.
// Integers and floats only, so that every processor and compiler gives the same bits, those of a NaN included (g++ 12
// has no _Float16 on Arm, and the host's default NaN differs from CUDA's).
#pragma once
#include "simt/math.h"

SIMT_INLINE unsigned simt_select(bool condition, unsigned yes, unsigned no) {
    return no ^ ((yes ^ no) & (0u - static_cast<unsigned>(condition)));
}

// A float rounded to nearest even in a small format, as that format's bits. Magnitude only:
// the caller handles sign, overflow and NaN. MIN_NORMAL_EXPONENT: that of the smallest normal number, as in 2^-14.
template <int FRACTION_BITS, int MIN_NORMAL_EXPONENT>
SIMT_INLINE unsigned simt_round_magnitude(unsigned magnitude) {
    constexpr int DROPPED = 23 - FRACTION_BITS;
    constexpr unsigned REBIAS = static_cast<unsigned>(127 + MIN_NORMAL_EXPONENT - 1) << 23;
    constexpr unsigned SMALLEST_NORMAL = static_cast<unsigned>(127 + MIN_NORMAL_EXPONENT) << 23;
    // Adding this number makes the hardware round a subnormal result at its last bit.
    constexpr unsigned ROUNDER = static_cast<unsigned>(127 + MIN_NORMAL_EXPONENT + DROPPED) << 23;
    unsigned even = magnitude >> DROPPED & 1u;
    unsigned normal = (magnitude + (1u << (DROPPED - 1)) - 1u + even - REBIAS) >> DROPPED;
    unsigned subnormal = __float_as_uint(__uint_as_float(magnitude) + __uint_as_float(ROUNDER)) - ROUNDER;
    return simt_select(magnitude < SMALLEST_NORMAL, subnormal, normal);
}

// ---- half ----
SIMT_HELPER unsigned short simt_float_to_half_bits(float value) {
    unsigned bits = __float_as_uint(value), magnitude = bits & 0x7fffffffu;
    unsigned special = simt_select(magnitude > 0x7f800000u, 0x7fffu, 0x7c00u);  // NaN, or too large: infinity
    unsigned rounded = simt_round_magnitude<10, -14>(magnitude);
    return static_cast<unsigned short>((bits >> 16 & 0x8000u) | simt_select(magnitude >= 0x47800000u, special, rounded));
}

SIMT_HELPER float simt_half_bits_to_float(unsigned short half) {
    // After the shift the fraction is in place and the exponent 112 too small, subnormals included: one exact product.
    unsigned magnitude = (half & 0x7fffu) << 13;
    unsigned scaled = __float_as_uint(__uint_as_float(magnitude) * 5.192296858534828e33f);  // 2^112
    unsigned special = 0u - static_cast<unsigned>(magnitude >= 0x0f800000u);
    return __uint_as_float((half & 0x8000u) << 16 | scaled | (special & 0x7f800000u));
}

// ---- bf16 ----
SIMT_HELPER unsigned short simt_float_to_bf16_bits(float value) {
    unsigned bits = __float_as_uint(value);
    unsigned rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return static_cast<unsigned short>(simt_select((bits & 0x7fffffffu) > 0x7f800000u, 0x7fffu, rounded));
}
SIMT_INLINE float simt_bf16_bits_to_float(unsigned short bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }

// ---- double to any of them: first to a float rounded to odd, which keeps the second rounding correct ----
// Round to odd: round toward zero, and set the last bit when the result is inexact.
SIMT_HELPER float simt_round_to_odd(double value) {
    float nearest = static_cast<float>(value);
    double back = nearest;
    unsigned inexact = static_cast<unsigned>(back != value) & static_cast<unsigned>(value == value);
    unsigned too_large = static_cast<unsigned>(fabs(back) > fabs(value));
    return __uint_as_float((__float_as_uint(nearest) - too_large) | inexact);
}

// a * b + c with the error of the one rounding kept in the last bit: products of the small formats are exact in double.
SIMT_HELPER double simt_fma_to_odd(double a, double b, double c) {
    double product = a * b, sum = product + c, c_part = sum - product;
    double error = (product - (sum - c_part)) + (c - c_part);
    if (!(error != 0.0) || !isfinite(sum) || isnan(error)) return sum;
    unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(sum));
    bits -= (error < 0.0) != (sum < 0.0);
    return __longlong_as_double(static_cast<long long>(bits | 1));
}

// ---- fp8 ----
// `largest`: bits of the largest finite number; `overflow`: what a larger one becomes; `nan`: bits of NaN.
template <int FRACTION_BITS, int MIN_NORMAL_EXPONENT>
SIMT_HELPER unsigned char simt_float_to_fp8_bits(float value, unsigned largest, unsigned overflow, unsigned nan) {
    unsigned bits = __float_as_uint(value), magnitude = bits & 0x7fffffffu;
    unsigned rounded = simt_round_magnitude<FRACTION_BITS, MIN_NORMAL_EXPONENT>(magnitude);
    rounded = simt_select(rounded > largest, overflow, rounded);
    rounded = simt_select(magnitude > 0x7f800000u, nan, rounded);
    return static_cast<unsigned char>((bits >> 24 & 0x80u) | rounded);
}

SIMT_HELPER float simt_e4m3_bits_to_float(unsigned char fp8) {
    unsigned magnitude = (fp8 & 0x7fu) << 20;
    unsigned scaled = __float_as_uint(__uint_as_float(magnitude) * 1.329227995784916e36f);  // 2^120
    unsigned not_a_number = 0u - static_cast<unsigned>((fp8 & 0x7fu) == 0x7fu);
    return __uint_as_float((fp8 & 0x80u) << 24 | scaled | (not_a_number & 0x7fc00000u));
}
SIMT_INLINE float simt_e5m2_bits_to_float(unsigned char fp8) {  // the upper byte of a half
    return simt_half_bits_to_float(static_cast<unsigned short>(fp8 << 8));
}
