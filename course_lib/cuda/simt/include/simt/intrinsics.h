// The double-underscore half of CUDA's device maths: fast and rounded float operations, casts, bits, cached loads.
//
// Source of names and meanings: CUDA Math API, sections Single/Double Precision Intrinsics, Type Casting Intrinsics,
// Integer Intrinsics; CUDA C++ Programming Guide, "Load/Store Functions Using Cache Hints". Included by math.h.
#pragma once

// ---- fast intrinsics, as accurate as the library on the machine ----
// Macros, since glibc's <math.h> declares functions of these names.
#if !defined(__clang__)
#define __builtin_assume(...) static_cast<void>(sizeof(!(__VA_ARGS__)))  // checked for its types, never evaluated
#endif
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __tanhf tanhf
#define __sincosf sincosf
SIMT_INLINE float __fdividef(float x, float y) {  // beyond 2^126 the reciprocal of y counts as 0
    return fabsf(y) > 0x1p126f && !isinf(y) ? x * 0.0f * y : x / y;
}
SIMT_INLINE float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }  // NaN becomes 0, as on the GPU

// ---- operations rounded to nearest even, never contracted into a multiply-add ----
SIMT_INLINE float simt_keep(float x) {  // stops the compiler from fusing x into a multiply-add
    asm volatile("" : "+m"(x));
    return x;
}
SIMT_INLINE double simt_keep(double x) {
    asm volatile("" : "+m"(x));
    return x;
}
SIMT_INLINE float __fadd_rn(float x, float y) { return simt_keep(simt_keep(x) + simt_keep(y)); }
SIMT_INLINE float __fsub_rn(float x, float y) { return simt_keep(simt_keep(x) - simt_keep(y)); }
SIMT_INLINE float __fmul_rn(float x, float y) { return simt_keep(x * y); }
SIMT_INLINE float __fdiv_rn(float x, float y) { return x / y; }
SIMT_INLINE float __frcp_rn(float x) { return 1.0f / x; }
SIMT_INLINE float __fsqrt_rn(float x) { return sqrtf(x); }
SIMT_INLINE float __frsqrt_rn(float x) { return rsqrtf(x); }
SIMT_INLINE float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
SIMT_INLINE double __dadd_rn(double x, double y) { return simt_keep(simt_keep(x) + simt_keep(y)); }
SIMT_INLINE double __dsub_rn(double x, double y) { return simt_keep(simt_keep(x) - simt_keep(y)); }
SIMT_INLINE double __dmul_rn(double x, double y) { return simt_keep(x * y); }
SIMT_INLINE double __ddiv_rn(double x, double y) { return x / y; }
SIMT_INLINE double __drcp_rn(double x) { return 1.0 / x; }
SIMT_INLINE double __dsqrt_rn(double x) { return sqrt(x); }
SIMT_INLINE double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

#include "simt/directed.h"

// ---- the same bits under another type ----
#define SIMT_BIT_CAST(NAME, TO, FROM)            \
    SIMT_INLINE TO NAME(FROM x) {                \
        TO y;                                    \
        __builtin_memcpy(&y, &x, sizeof(y));     \
        return y;                                \
    }
SIMT_BIT_CAST(__int_as_float, float, int)
SIMT_BIT_CAST(__uint_as_float, float, unsigned int)
SIMT_BIT_CAST(__float_as_int, int, float)
SIMT_BIT_CAST(__float_as_uint, unsigned int, float)
SIMT_BIT_CAST(__longlong_as_double, double, long long)
SIMT_BIT_CAST(__double_as_longlong, long long, double)
SIMT_INLINE double __hiloint2double(int hi, int lo) {
    unsigned long long bits = static_cast<unsigned long long>(static_cast<unsigned>(hi)) << 32 | static_cast<unsigned>(lo);
    return __longlong_as_double(static_cast<long long>(bits));
}
SIMT_INLINE int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
SIMT_INLINE int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }

// ---- float to integer: saturating; NaN gives 0, as PTX cvt does ----
#define SIMT_ROUND_CAST(NAME, TO, FROM, ROUND, LOW, HIGH)                   \
    SIMT_HELPER TO NAME(FROM value) {                                       \
        double x = ROUND(static_cast<double>(value));                       \
        if (!(x > LOW)) return x != x ? static_cast<TO>(0) : SimtRange<TO>::lowest();    \
        return x < HIGH ? static_cast<TO>(x) : SimtRange<TO>::highest();    \
    }
template <class T>
struct SimtRange {
    static constexpr T lowest() { return static_cast<T>(-1) < static_cast<T>(0) ? static_cast<T>(1ull << (8 * sizeof(T) - 1)) : static_cast<T>(0); }
    static constexpr T highest() { return static_cast<T>(~lowest()); }
};
#define SIMT_ROUND_CASTS(FROM, NAME, TO, LOW, HIGH)                         \
    SIMT_ROUND_CAST(__##FROM##2##NAME##_rn, TO, FROM, rint, LOW, HIGH)      \
    SIMT_ROUND_CAST(__##FROM##2##NAME##_rz, TO, FROM, trunc, LOW, HIGH)     \
    SIMT_ROUND_CAST(__##FROM##2##NAME##_rd, TO, FROM, floor, LOW, HIGH)     \
    SIMT_ROUND_CAST(__##FROM##2##NAME##_ru, TO, FROM, ceil, LOW, HIGH)
SIMT_ROUND_CASTS(float, int, int, -2147483648.0, 2147483648.0)
SIMT_ROUND_CASTS(float, uint, unsigned int, 0.0, 4294967296.0)
SIMT_ROUND_CASTS(float, ll, long long, -9223372036854775808.0, 9223372036854775808.0)
SIMT_ROUND_CASTS(float, ull, unsigned long long, 0.0, 18446744073709551616.0)
SIMT_ROUND_CASTS(double, int, int, -2147483648.0, 2147483648.0)
SIMT_ROUND_CASTS(double, uint, unsigned int, 0.0, 4294967296.0)
SIMT_ROUND_CASTS(double, ll, long long, -9223372036854775808.0, 9223372036854775808.0)
SIMT_ROUND_CASTS(double, ull, unsigned long long, 0.0, 18446744073709551616.0)
SIMT_INLINE float __int2float_rn(int x) { return static_cast<float>(x); }
SIMT_INLINE float __uint2float_rn(unsigned int x) { return static_cast<float>(x); }
SIMT_INLINE float __ll2float_rn(long long x) { return static_cast<float>(x); }
SIMT_INLINE float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
SIMT_INLINE double __int2double_rn(int x) { return x; }
SIMT_INLINE double __uint2double_rn(unsigned int x) { return x; }
SIMT_INLINE double __ll2double_rn(long long x) { return static_cast<double>(x); }
SIMT_INLINE double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
SIMT_INLINE float __double2float_rn(double x) { return static_cast<float>(x); }

// ---- bits ----
SIMT_INLINE int __popc(unsigned int x) { return __builtin_popcount(x); }
SIMT_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
SIMT_INLINE int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
SIMT_INLINE int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
SIMT_INLINE int __ffs(int x) { return __builtin_ffs(x); }
SIMT_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
SIMT_INLINE unsigned int __brev(unsigned int x) {
    x = __builtin_bswap32(x);
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    return (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
}
SIMT_INLINE unsigned long long __brevll(unsigned long long x) {
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 | __brev(static_cast<unsigned>(x >> 32));
}
// Byte i of the result is byte (selector >> 4 i) & 7 of y:x; with bit 3 set it is that byte's sign, eight times.
SIMT_HELPER unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector) {
    unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
    unsigned int result = 0;
    for (int i = 0; i < 4; ++i) {
        unsigned int pick = selector >> (4 * i);
        unsigned int byte = static_cast<unsigned int>(both >> (8 * (pick & 7))) & 0xffu;
        unsigned int sign = (byte >> 7) * 0xffu;
        result |= (pick & 8 ? sign : byte) << (8 * i);
    }
    return result;
}
// The shifts look at hi:lo as 64 bits: l keeps the high word, r the low; plain counts modulo 32, c clamps at 32.
SIMT_INLINE unsigned int __funnelshift_l(unsigned int lo, unsigned int hi, unsigned int shift) {
    return static_cast<unsigned int>(((static_cast<unsigned long long>(hi) << 32 | lo) << (shift & 31)) >> 32);
}
SIMT_INLINE unsigned int __funnelshift_r(unsigned int lo, unsigned int hi, unsigned int shift) {
    return static_cast<unsigned int>((static_cast<unsigned long long>(hi) << 32 | lo) >> (shift & 31));
}
SIMT_INLINE unsigned int __funnelshift_lc(unsigned int lo, unsigned int hi, unsigned int shift) {
    return static_cast<unsigned int>(((static_cast<unsigned long long>(hi) << 32 | lo) << (shift < 32 ? shift : 32)) >> 32);
}
SIMT_INLINE unsigned int __funnelshift_rc(unsigned int lo, unsigned int hi, unsigned int shift) {
    return static_cast<unsigned int>((static_cast<unsigned long long>(hi) << 32 | lo) >> (shift < 32 ? shift : 32));
}

// ---- integer arithmetic ----
SIMT_INLINE int __mul24(int x, int y) {  // low 24 bits of each, sign extended
    return static_cast<int>(static_cast<long long>(static_cast<int>(static_cast<unsigned>(x) << 8) >> 8) *
                            (static_cast<int>(static_cast<unsigned>(y) << 8) >> 8));
}
SIMT_INLINE unsigned int __umul24(unsigned int x, unsigned int y) { return (x & 0xffffffu) * (y & 0xffffffu); }
SIMT_INLINE int __mulhi(int x, int y) { return static_cast<int>(static_cast<long long>(x) * y >> 32); }
SIMT_INLINE unsigned int __umulhi(unsigned int x, unsigned int y) {
    return static_cast<unsigned int>(static_cast<unsigned long long>(x) * y >> 32);
}
SIMT_INLINE long long __mul64hi(long long x, long long y) {
    return static_cast<long long>(static_cast<__int128>(x) * y >> 64);
}
SIMT_INLINE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * y >> 64);
}
SIMT_INLINE int __hadd(int x, int y) { return static_cast<int>((static_cast<long long>(x) + y) >> 1); }
SIMT_INLINE int __rhadd(int x, int y) { return static_cast<int>((static_cast<long long>(x) + y + 1) >> 1); }
SIMT_INLINE unsigned int __uhadd(unsigned int x, unsigned int y) {
    return static_cast<unsigned int>((static_cast<unsigned long long>(x) + y) >> 1);
}
SIMT_INLINE unsigned int __urhadd(unsigned int x, unsigned int y) {
    return static_cast<unsigned int>((static_cast<unsigned long long>(x) + y + 1) >> 1);
}
SIMT_INLINE unsigned int __sad(int x, int y, unsigned int z) {
    long long difference = static_cast<long long>(x) - y;
    return z + static_cast<unsigned int>(difference < 0 ? -difference : difference);
}
SIMT_INLINE unsigned int __usad(unsigned int x, unsigned int y, unsigned int z) { return z + (x > y ? x - y : y - x); }
SIMT_INLINE int __dp4a(int a, int b, int c) {  // four products of signed bytes, added to c
    for (int i = 0; i < 32; i += 8) c += static_cast<signed char>(a >> i) * static_cast<signed char>(b >> i);
    return c;
}
SIMT_INLINE unsigned int __dp4a(unsigned int a, unsigned int b, unsigned int c) {
    for (int i = 0; i < 32; i += 8) c += (a >> i & 0xffu) * (b >> i & 0xffu);
    return c;
}

// ---- loads and stores with cache hints: plain accesses on the machine ----
#define SIMT_CACHED_LOAD(NAME, T) SIMT_INLINE T NAME(const T* address) { return *address; }
#define SIMT_CACHED_STORE(NAME, T) SIMT_INLINE void NAME(T* address, T value) { *address = value; }
#define SIMT_CACHED_ACCESS(T)                                                                             \
    SIMT_CACHED_LOAD(__ldg, T) SIMT_CACHED_LOAD(__ldcg, T) SIMT_CACHED_LOAD(__ldca, T)                     \
    SIMT_CACHED_LOAD(__ldcs, T) SIMT_CACHED_LOAD(__ldlu, T) SIMT_CACHED_LOAD(__ldcv, T)                    \
    SIMT_CACHED_STORE(__stwb, T) SIMT_CACHED_STORE(__stcg, T) SIMT_CACHED_STORE(__stcs, T)                 \
    SIMT_CACHED_STORE(__stwt, T)
SIMT_CACHED_ACCESS(char) SIMT_CACHED_ACCESS(signed char) SIMT_CACHED_ACCESS(unsigned char)
SIMT_CACHED_ACCESS(short) SIMT_CACHED_ACCESS(unsigned short) SIMT_CACHED_ACCESS(int) SIMT_CACHED_ACCESS(unsigned int)
SIMT_CACHED_ACCESS(long) SIMT_CACHED_ACCESS(unsigned long)
SIMT_CACHED_ACCESS(long long) SIMT_CACHED_ACCESS(unsigned long long)
SIMT_CACHED_ACCESS(float) SIMT_CACHED_ACCESS(double)
SIMT_CACHED_ACCESS(char2) SIMT_CACHED_ACCESS(char4) SIMT_CACHED_ACCESS(uchar2) SIMT_CACHED_ACCESS(uchar4)
SIMT_CACHED_ACCESS(short2) SIMT_CACHED_ACCESS(short4) SIMT_CACHED_ACCESS(ushort2) SIMT_CACHED_ACCESS(ushort4)
SIMT_CACHED_ACCESS(int2) SIMT_CACHED_ACCESS(int4) SIMT_CACHED_ACCESS(uint2) SIMT_CACHED_ACCESS(uint4)
SIMT_CACHED_ACCESS(longlong2) SIMT_CACHED_ACCESS(ulonglong2)
SIMT_CACHED_ACCESS(float2) SIMT_CACHED_ACCESS(float4) SIMT_CACHED_ACCESS(double2)
