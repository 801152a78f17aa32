// Warp shuffles, atomic adds and cached loads of the 16-bit types, over the hooks.
//
// SIMT_HALF_INTRINSICS(H, H2, ATOMIC, ATOMIC2) defines them for one pair of types; simt/fp16.h and simt/bf16.h use it.
// Source: CUDA Math API, "Half Precision Intrinsics: Data Movement"; CUDA C++ Programming Guide, "Warp Shuffle Functions"
// and "atomicAdd()".
#pragma once
#include "simt/hooks.h"
#include "simt/math.h"

// mode as simt_shuffle has it: 0 index, 1 up, 2 down, 3 xor.
#define SIMT_SHUFFLE(NAME, T, OPERAND, MODE)                                                              \
    SIMT_INLINE T NAME(unsigned int mask, T value, OPERAND operand, int width = 32) {                     \
        T result = value;                                                                                 \
        simt_shuffle(mask, MODE, static_cast<int>(operand), width, &value, &result, sizeof(T));           \
        return result;                                                                                    \
    }
#define SIMT_SHUFFLES(T)                                                                                  \
    SIMT_SHUFFLE(__shfl_sync, T, int, 0)                                                                  \
    SIMT_SHUFFLE(__shfl_up_sync, T, unsigned int, 1)                                                      \
    SIMT_SHUFFLE(__shfl_down_sync, T, unsigned int, 2)                                                    \
    SIMT_SHUFFLE(__shfl_xor_sync, T, int, 3)

#define SIMT_ATOMIC_ADD(T, ATOMIC)                                                                        \
    SIMT_INLINE T atomicAdd(T* address, T value) {                                                        \
        T old = value;                                                                                    \
        simt_atomic(0, ATOMIC, 1, address, &value, nullptr, &old);                                        \
        return old;                                                                                       \
    }

#define SIMT_HALF_INTRINSICS(H, H2, ATOMIC, ATOMIC2)                                                      \
    SIMT_SHUFFLES(H)                                                                                      \
    SIMT_SHUFFLES(H2)                                                                                     \
    SIMT_ATOMIC_ADD(H, ATOMIC)                                                                            \
    SIMT_ATOMIC_ADD(H2, ATOMIC2)                                                                          \
    SIMT_CACHED_ACCESS(H)                                                                                 \
    SIMT_CACHED_ACCESS(H2)
