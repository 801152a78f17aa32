// CUDA's device maths in the global namespace: library functions, fast intrinsics, integer intrinsics, type casts,
// rounding casts, and loads and stores with cache hints.
//
// The set is that of the CUDA Math API (sections Single/Double Precision Mathematical Functions, … Intrinsics, Type
// Casting Intrinsics, Integer Intrinsics), less what has no counterpart in a C library (inverse error functions,
// Bessel I, the packed 2 x 16 and 4 x 8 bit video instructions). The functions are declared here instead of including
// <math.h>, so that a kernel sees the names that NVRTC gives it and no others: INFINITY and NAN apart, which NVRTC
// leaves out and CUDA's host headers have.
//
// Accuracy: on the machine, fast intrinsics (__expf, __sinf, __fdividef, …) are as accurate as the library functions. On a
// GPU they are faster and less accurate, so the last bits of a result may differ. __fdividef by more than 2^126 gives 0,
// as it does there. Rounded float operations (_rn, _rz, _ru, _rd) give the same bits on both; of doubles, _rn alone.
#pragma once
#include "simt/hooks.h"
#include "simt/vector_types.h"

// A function that touches registers only. In the checked build it is compiled without instrumentation, so its branches and
// locals do not show in the ledger. A function that calls a hook or accesses the kernel's memory must be SIMT_INLINE.
#if defined(SIMT_CHECKED) && defined(__clang__)
#define SIMT_HELPER static __attribute__((noinline, unused, disable_sanitizer_instrumentation, no_sanitize("coverage")))
#elif defined(SIMT_CHECKED)
#define SIMT_HELPER static __attribute__((noinline, unused, no_sanitize_thread, no_sanitize_coverage))
#else
#define SIMT_HELPER SIMT_INLINE
#endif

#define SIMT_UNARY(F) F(acos) F(acosh) F(asin) F(asinh) F(atan) F(atanh) F(cbrt) F(ceil) F(cos) F(cosh) F(erf) F(erfc) \
    F(exp) F(exp2) F(expm1) F(fabs) F(floor) F(lgamma) F(log) F(log10) F(log1p) F(log2) F(logb) F(nearbyint) F(rint)   \
    F(round) F(sin) F(sinh) F(sqrt) F(tan) F(tanh) F(tgamma) F(trunc)
#define SIMT_BINARY(F) F(atan2) F(copysign) F(fdim) F(fmax) F(fmin) F(fmod) F(hypot) F(nextafter) F(pow) F(remainder)

// ---- the C library's functions, and float overloads of the double names ----
#define SIMT_DECLARE_UNARY(NAME)                 \
    extern "C" double NAME(double) noexcept;     \
    extern "C" float NAME##f(float) noexcept;    \
    SIMT_INLINE float NAME(float x) { return NAME##f(x); }
#define SIMT_DECLARE_BINARY(NAME)                        \
    extern "C" double NAME(double, double) noexcept;     \
    extern "C" float NAME##f(float, float) noexcept;     \
    SIMT_INLINE float NAME(float x, float y) { return NAME##f(x, y); }
SIMT_UNARY(SIMT_DECLARE_UNARY)
SIMT_BINARY(SIMT_DECLARE_BINARY)
#undef SIMT_DECLARE_UNARY
#undef SIMT_DECLARE_BINARY

extern "C" {
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double ldexp(double, int) noexcept;
float ldexpf(float, int) noexcept;
double scalbn(double, int) noexcept;
float scalbnf(float, int) noexcept;
double frexp(double, int*) noexcept;
float frexpf(float, int*) noexcept;
double nan(const char*) noexcept;
float nanf(const char*) noexcept;
double modf(double, double*) noexcept;
float modff(float, float*) noexcept;
double remquo(double, double, int*) noexcept;
float remquof(float, float, int*) noexcept;
int ilogb(double) noexcept;
int ilogbf(float) noexcept;
long lrint(double) noexcept;
long lrintf(float) noexcept;
long lround(double) noexcept;
long lroundf(float) noexcept;
long long llrint(double) noexcept;
long long llrintf(float) noexcept;
long long llround(double) noexcept;
long long llroundf(float) noexcept;
int abs(int) noexcept;
long labs(long) noexcept;
long long llabs(long long) noexcept;
#if defined(__GLIBC__)
double exp10(double) noexcept;
float exp10f(float) noexcept;
void sincos(double, double*, double*) noexcept;
void sincosf(float, float*, float*) noexcept;
#endif
}
SIMT_INLINE float fma(float x, float y, float z) { return fmaf(x, y, z); }
SIMT_INLINE float ldexp(float x, int n) { return ldexpf(x, n); }
SIMT_INLINE float frexp(float x, int* n) { return frexpf(x, n); }
SIMT_INLINE float modf(float x, float* n) { return modff(x, n); }
SIMT_INLINE float remquo(float x, float y, int* n) { return remquof(x, y, n); }
SIMT_INLINE int ilogb(float x) { return ilogbf(x); }
SIMT_INLINE long lrint(float x) { return lrintf(x); }
SIMT_INLINE long lround(float x) { return lroundf(x); }
SIMT_INLINE long long llrint(float x) { return llrintf(x); }
SIMT_INLINE long long llround(float x) { return llroundf(x); }
SIMT_INLINE float scalbn(float x, int n) { return ldexpf(x, n); }

// ---- what CUDA adds to the C library ----
SIMT_INLINE float rsqrtf(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
SIMT_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
SIMT_INLINE float rsqrt(float x) { return rsqrtf(x); }
SIMT_INLINE float rcbrtf(float x) { return static_cast<float>(1.0 / cbrt(static_cast<double>(x))); }
SIMT_INLINE double rcbrt(double x) { return 1.0 / cbrt(x); }
SIMT_INLINE float rcbrt(float x) { return rcbrtf(x); }
#if !defined(__GLIBC__)
SIMT_INLINE float exp10f(float x) { return static_cast<float>(pow(10.0, static_cast<double>(x))); }
SIMT_INLINE double exp10(double x) { return pow(10.0, x); }
SIMT_INLINE void sincosf(float x, float* s, float* c) {
    *s = sinf(x);
    *c = cosf(x);
}
SIMT_INLINE void sincos(double x, double* s, double* c) {
    *s = sin(x);
    *c = cos(x);
}
#endif
SIMT_INLINE float exp10(float x) { return exp10f(x); }
SIMT_INLINE double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
SIMT_INLINE float rhypotf(float x, float y) { return static_cast<float>(rhypot(x, y)); }
SIMT_INLINE double norm3d(double x, double y, double z) { return hypot(hypot(x, y), z); }
SIMT_INLINE float norm3df(float x, float y, float z) { return static_cast<float>(norm3d(x, y, z)); }
SIMT_INLINE double norm4d(double x, double y, double z, double w) { return hypot(hypot(x, y), hypot(z, w)); }
SIMT_INLINE float norm4df(float x, float y, float z, float w) { return static_cast<float>(norm4d(x, y, z, w)); }
SIMT_INLINE double normcdf(double x) { return 0.5 * erfc(x * -0.70710678118654752440); }
SIMT_INLINE float normcdff(float x) { return static_cast<float>(normcdf(x)); }
SIMT_INLINE double sinpi(double x) { return sin(3.14159265358979323846 * remainder(x, 2.0)); }
SIMT_INLINE float sinpif(float x) { return static_cast<float>(sinpi(x)); }
SIMT_INLINE double cospi(double x) { return cos(3.14159265358979323846 * remainder(x, 2.0)); }
SIMT_INLINE float cospif(float x) { return static_cast<float>(cospi(x)); }
SIMT_INLINE float fdividef(float x, float y) { return x / y; }
SIMT_INLINE void sincos(float x, float* s, float* c) { sincosf(x, s, c); }
SIMT_INLINE long abs(long x) { return labs(x); }
SIMT_INLINE long long abs(long long x) { return llabs(x); }
SIMT_INLINE float abs(float x) { return fabsf(x); }
SIMT_INLINE double abs(double x) { return fabs(x); }

#undef isnan
#undef isinf
#undef isfinite
#undef signbit
SIMT_INLINE bool isnan(float x) { return __builtin_isnan(x); }
SIMT_INLINE bool isnan(double x) { return __builtin_isnan(x); }
SIMT_INLINE bool isinf(float x) { return __builtin_isinf(x); }
SIMT_INLINE bool isinf(double x) { return __builtin_isinf(x); }
SIMT_INLINE bool isfinite(float x) { return __builtin_isfinite(x); }
SIMT_INLINE bool isfinite(double x) { return __builtin_isfinite(x); }
SIMT_INLINE bool signbit(float x) { return __builtin_signbitf(x); }
SIMT_INLINE bool signbit(double x) { return __builtin_signbit(x); }
#ifndef INFINITY
#define INFINITY (__builtin_inff())
#endif
#ifndef NAN
#define NAN (__builtin_nanf(""))
#endif

// ---- min and max: CUDA's overloads, and no more, so that a call that is ambiguous under NVRTC does not compile ----
#define SIMT_MIN_MAX(R, A, B)                                                                                 \
    SIMT_INLINE R min(A a, B b) { return static_cast<R>(b) < static_cast<R>(a) ? static_cast<R>(b) : static_cast<R>(a); } \
    SIMT_INLINE R max(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(b) : static_cast<R>(a); }
#define SIMT_MIN_MAX_FAMILY(S, U) SIMT_MIN_MAX(S, S, S) SIMT_MIN_MAX(U, U, U) SIMT_MIN_MAX(U, S, U) SIMT_MIN_MAX(U, U, S)
SIMT_MIN_MAX_FAMILY(int, unsigned int)
SIMT_MIN_MAX_FAMILY(long, unsigned long)
SIMT_MIN_MAX_FAMILY(long long, unsigned long long)
SIMT_INLINE float min(float a, float b) { return fminf(a, b); }
SIMT_INLINE float max(float a, float b) { return fmaxf(a, b); }
SIMT_INLINE double min(double a, double b) { return fmin(a, b); }
SIMT_INLINE double max(double a, double b) { return fmax(a, b); }
SIMT_INLINE double min(float a, double b) { return fmin(static_cast<double>(a), b); }
SIMT_INLINE double max(float a, double b) { return fmax(static_cast<double>(a), b); }
SIMT_INLINE double min(double a, float b) { return fmin(a, static_cast<double>(b)); }
SIMT_INLINE double max(double a, float b) { return fmax(a, static_cast<double>(b)); }
SIMT_INLINE unsigned int umin(unsigned int a, unsigned int b) { return min(a, b); }
SIMT_INLINE unsigned int umax(unsigned int a, unsigned int b) { return max(a, b); }
SIMT_INLINE long long llmin(long long a, long long b) { return min(a, b); }
SIMT_INLINE long long llmax(long long a, long long b) { return max(a, b); }
SIMT_INLINE unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
SIMT_INLINE unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }

#include "simt/intrinsics.h"
#include "simt/memory_functions.h"
