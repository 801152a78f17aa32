// CUDA's built-in vector types: char1 … double4, uint3, dim3, and make_*.
//
// Sizes and alignments are those of the CUDA C++ Programming Guide, section "Built-in Vector Types".
//
// On a GPU `float4 v = a[t]` and `*(float4*)p = make_float4(…)` are one 16-byte access each. A C++ compiler may split them
// into four, so in the checked build (SIMT_CHECKED) a vector of 2 or 4 elements copies itself as one
// word of 2, 4, 8 or 16 bytes, which the sanitizer then reports as one access; 32 bytes (double4, longlong4) are two
// words. Volatile, since otherwise a word of which only `.x` is used may become a 4-byte load. Nothing is recorded when
// both ends are locals whose address goes nowhere, which a call to simt_copy could not tell: it would make each later
// `v.x` an access of its own. Vectors of 3 have only the alignment of one element; a GPU moves them element by element,
// and so does the checked build. The fast build copies plainly.
//
// Such a copy constructor means that the type is no aggregate; a list constructor keeps `float4 v = {1, 2, 3, 4}`.
// It also makes g++ guard an array of them in thread-local storage, with a guard variable beside the array: shared
// arrays must be declared `__constinit thread_local` there.
#pragma once
#include <initializer_list>

#include "simt/hooks.h"

typedef unsigned short __attribute__((may_alias)) simt_word2;
typedef unsigned int __attribute__((may_alias)) simt_word4;
typedef unsigned long long __attribute__((may_alias)) simt_word8;
// aligned(1): the checked build reports a misaligned address before the access; the access itself must not crash then.
typedef unsigned long long __attribute__((vector_size(16), may_alias, aligned(1))) simt_word16;

template <class Word>
SIMT_INLINE void simt_copy_word(void* to, const void* from) {
    *static_cast<Word*>(to) = *static_cast<const volatile Word*>(from);
}

SIMT_INLINE void simt_copy_word16(void* to, const void* from) {  // a template argument would lose its alignment
    *static_cast<simt_word16*>(to) = *static_cast<const volatile simt_word16*>(from);
}

SIMT_INLINE void simt_copy_vector(void* to, const void* from, unsigned bytes) {  // bytes is a constant at each call
    if (bytes == 2) {
        simt_copy_word<simt_word2>(to, from);
    } else if (bytes == 4) {
        simt_copy_word<simt_word4>(to, from);
    } else if (bytes == 8) {
        simt_copy_word<simt_word8>(to, from);
    } else {
        simt_copy_word16(to, from);
    }
    if (bytes == 32) simt_copy_word16(static_cast<char*>(to) + 16, static_cast<const char*>(from) + 16);
}

#define SIMT_ALWAYS_INLINE inline __attribute__((always_inline))

#if defined(SIMT_CHECKED)
#define SIMT_COPY_WHOLE(NAME)                                                                                 \
    SIMT_ALWAYS_INLINE NAME(const NAME& other) { simt_copy_vector(this, &other, sizeof(NAME)); }              \
    SIMT_ALWAYS_INLINE NAME& operator=(const NAME& other) {                                                   \
        simt_copy_vector(this, &other, sizeof(NAME));                                                         \
        return *this;                                                                                         \
    }
#define SIMT_VECTOR2_MEMBERS(NAME, T)                                                                         \
    NAME() = default;                                                                                         \
    SIMT_ALWAYS_INLINE constexpr NAME(std::initializer_list<T> v)                                             \
        : x(v.size() > 0 ? v.begin()[0] : static_cast<T>(0)), y(v.size() > 1 ? v.begin()[1] : static_cast<T>(0)) {}                       \
    SIMT_COPY_WHOLE(NAME)
#define SIMT_VECTOR3_MEMBERS(NAME, T)                                                                         \
    NAME() = default;                                                                                         \
    SIMT_ALWAYS_INLINE constexpr NAME(std::initializer_list<T> v)                                             \
        : x(v.size() > 0 ? v.begin()[0] : static_cast<T>(0)),                                                               \
          y(v.size() > 1 ? v.begin()[1] : static_cast<T>(0)),                                                               \
          z(v.size() > 2 ? v.begin()[2] : static_cast<T>(0)) {}                                                             \
    SIMT_ALWAYS_INLINE constexpr NAME(const NAME& other) : x(other.x), y(other.y), z(other.z) {}              \
    SIMT_ALWAYS_INLINE NAME& operator=(const NAME& other) {                                                   \
        x = other.x;                                                                                          \
        y = other.y;                                                                                          \
        z = other.z;                                                                                          \
        return *this;                                                                                         \
    }
#define SIMT_VECTOR4_MEMBERS(NAME, T)                                                                         \
    NAME() = default;                                                                                         \
    SIMT_ALWAYS_INLINE constexpr NAME(std::initializer_list<T> v)                                             \
        : x(v.size() > 0 ? v.begin()[0] : static_cast<T>(0)),                                                               \
          y(v.size() > 1 ? v.begin()[1] : static_cast<T>(0)),                                                               \
          z(v.size() > 2 ? v.begin()[2] : static_cast<T>(0)),                                                               \
          w(v.size() > 3 ? v.begin()[3] : static_cast<T>(0)) {}                                                             \
    SIMT_COPY_WHOLE(NAME)
#else
#define SIMT_VECTOR2_MEMBERS(NAME, T)
#define SIMT_VECTOR3_MEMBERS(NAME, T)
#define SIMT_VECTOR4_MEMBERS(NAME, T)
#endif

// ALIGN2 and ALIGN4: alignment in bytes of the vectors of 2 and of 4.
#define SIMT_VECTOR_FAMILY(NAME, T, ALIGN2, ALIGN4)                                                           \
    struct NAME##1 {                                                                                          \
        T x;                                                                                                  \
    };                                                                                                        \
    struct alignas(ALIGN2) NAME##2 {                                                                          \
        T x, y;                                                                                               \
        SIMT_VECTOR2_MEMBERS(NAME##2, T)                                                                      \
    };                                                                                                        \
    struct NAME##3 {                                                                                          \
        T x, y, z;                                                                                            \
        SIMT_VECTOR3_MEMBERS(NAME##3, T)                                                                      \
    };                                                                                                        \
    struct alignas(ALIGN4) NAME##4 {                                                                          \
        T x, y, z, w;                                                                                         \
        SIMT_VECTOR4_MEMBERS(NAME##4, T)                                                                      \
    };                                                                                                        \
    SIMT_INLINE NAME##1 make_##NAME##1(T x) {                                                                 \
        NAME##1 v;                                                                                            \
        v.x = x;                                                                                              \
        return v;                                                                                             \
    }                                                                                                         \
    SIMT_INLINE NAME##2 make_##NAME##2(T x, T y) {                                                            \
        NAME##2 v;                                                                                            \
        v.x = x;                                                                                              \
        v.y = y;                                                                                              \
        return v;                                                                                             \
    }                                                                                                         \
    SIMT_INLINE NAME##3 make_##NAME##3(T x, T y, T z) {                                                       \
        NAME##3 v;                                                                                            \
        v.x = x;                                                                                              \
        v.y = y;                                                                                              \
        v.z = z;                                                                                              \
        return v;                                                                                             \
    }                                                                                                         \
    SIMT_INLINE NAME##4 make_##NAME##4(T x, T y, T z, T w) {                                                  \
        NAME##4 v;                                                                                            \
        v.x = x;                                                                                              \
        v.y = y;                                                                                              \
        v.z = z;                                                                                              \
        v.w = w;                                                                                              \
        return v;                                                                                             \
    }

SIMT_VECTOR_FAMILY(char, signed char, 2, 4)
SIMT_VECTOR_FAMILY(uchar, unsigned char, 2, 4)
SIMT_VECTOR_FAMILY(short, short, 4, 8)
SIMT_VECTOR_FAMILY(ushort, unsigned short, 4, 8)
SIMT_VECTOR_FAMILY(int, int, 8, 16)
SIMT_VECTOR_FAMILY(uint, unsigned int, 8, 16)
SIMT_VECTOR_FAMILY(long, long, 16, 16)
SIMT_VECTOR_FAMILY(ulong, unsigned long, 16, 16)
SIMT_VECTOR_FAMILY(longlong, long long, 16, 16)
SIMT_VECTOR_FAMILY(ulonglong, unsigned long long, 16, 16)
SIMT_VECTOR_FAMILY(float, float, 8, 16)
SIMT_VECTOR_FAMILY(double, double, 16, 16)

// Grid and block sizes; a dimension that is not given is 1.
struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    operator uint3() const { return make_uint3(x, y, z); }
};

static_assert(sizeof(float4) == 16 && alignof(float4) == 16, "float4 is one 128-bit word");
static_assert(sizeof(float2) == 8 && alignof(float2) == 8, "float2 is one 64-bit word");
static_assert(sizeof(float3) == 12 && alignof(float3) == 4, "float3 has the alignment of a float");
static_assert(sizeof(uchar4) == 4 && alignof(uchar4) == 4, "uchar4 is one 32-bit word");
static_assert(sizeof(double4) == 32 && alignof(double4) == 16, "double4 is two 128-bit words");
