// Float operations rounded towards zero (_rz), up (_ru) and down (_rd): CUDA Math API, "Single Precision Intrinsics".
//
// Idea: the double `near` of each operation is exact but for a rest, and the sign of the rest is known. So the float on
// the right side is the nearest float, or its neighbour. The processor's rounding mode stays as it is.
#pragma once

enum SimtRounding { SIMT_RZ, SIMT_RU, SIMT_RD };

// near + rest, rounded to a float; |rest| is less than the last bit of `near`, only its sign counts.
SIMT_HELPER float simt_directed(double near, double rest, SimtRounding rounding) {
    float nearest = static_cast<float>(near);
    if (!isfinite(near)) return nearest;
    bool down = rounding == SIMT_RD || (rounding == SIMT_RZ && near > 0.0);
    bool too_high = nearest > near || (nearest == near && rest < 0.0);
    bool too_low = nearest < near || (nearest == near && rest > 0.0);
    if (down && too_high) return nextafterf(nearest, -INFINITY);
    if (!down && too_low) return nextafterf(nearest, INFINITY);
    return nearest;
}

// x + y: the rest of a sum of doubles is a double (Knuth, The Art of Computer Programming 2, section 4.2.2).
SIMT_HELPER float simt_directed_sum(double x, double y, SimtRounding rounding) {
    double sum = x + y, added = sum - x;
    if (sum == 0.0 && signbit(x) != signbit(y)) return rounding == SIMT_RD ? -0.0f : 0.0f;
    return simt_directed(sum, (x - (sum - added)) + (y - added), rounding);
}

SIMT_HELPER float simt_directed_quotient(double x, double y, SimtRounding rounding) {
    double quotient = x / y, rest = fma(-quotient, y, x);  // exact: y is a float
    return simt_directed(quotient, signbit(y) ? -rest : rest, rounding);
}

SIMT_HELPER float simt_directed_root(double x, SimtRounding rounding) {
    double root = sqrt(x);
    return simt_directed(root, fma(-root, root, x), rounding);
}

// A product of two floats is exact in double.
#define SIMT_DIRECTED(SUFFIX, ROUNDING)                                                                                   \
    SIMT_INLINE float __fadd_##SUFFIX(float x, float y) { return simt_directed_sum(x, y, ROUNDING); }                     \
    SIMT_INLINE float __fsub_##SUFFIX(float x, float y) { return simt_directed_sum(x, -y, ROUNDING); }                    \
    SIMT_INLINE float __fmul_##SUFFIX(float x, float y) { return simt_directed(static_cast<double>(x) * y, 0.0, ROUNDING); } \
    SIMT_INLINE float __fdiv_##SUFFIX(float x, float y) { return simt_directed_quotient(x, y, ROUNDING); }                \
    SIMT_INLINE float __frcp_##SUFFIX(float x) { return simt_directed_quotient(1.0, x, ROUNDING); }                       \
    SIMT_INLINE float __fsqrt_##SUFFIX(float x) { return simt_directed_root(x, ROUNDING); }                               \
    SIMT_INLINE float __fmaf_##SUFFIX(float x, float y, float z) {                                                        \
        return simt_directed_sum(static_cast<double>(x) * y, z, ROUNDING);                                                \
    }
SIMT_DIRECTED(rz, SIMT_RZ)
SIMT_DIRECTED(ru, SIMT_RU)
SIMT_DIRECTED(rd, SIMT_RD)
#undef SIMT_DIRECTED
