// CUDA's atomic functions, each one call of a hook. Source: CUDA C++ Programming Guide, "Atomic Functions".
// Included by machine.h.
#pragma once

#define SIMT_ATOMIC_IN(NAME, T, OP, TYPE, SCOPE)                            \
    SIMT_INLINE T NAME(T* address, T value) {                               \
        T old;                                                              \
        simt_atomic(OP, TYPE, SCOPE, address, &value, nullptr, &old);       \
        return old;                                                         \
    }
#define SIMT_ATOMIC_OF(NAME, T, OP, TYPE)                                   \
    SIMT_ATOMIC_IN(NAME, T, OP, TYPE, 1)                                    \
    SIMT_ATOMIC_IN(NAME##_block, T, OP, TYPE, 0)                            \
    SIMT_ATOMIC_IN(NAME##_system, T, OP, TYPE, 2)
#define SIMT_ATOMIC_INTEGERS(NAME, OP)                          \
    SIMT_ATOMIC_OF(NAME, int, OP, SIMT_I32)                     \
    SIMT_ATOMIC_OF(NAME, unsigned int, OP, SIMT_U32)            \
    SIMT_ATOMIC_OF(NAME, unsigned long long, OP, SIMT_U64)

SIMT_ATOMIC_INTEGERS(atomicAdd, 0)
SIMT_ATOMIC_OF(atomicAdd, float, 0, SIMT_F32)
SIMT_ATOMIC_OF(atomicAdd, double, 0, SIMT_F64)
SIMT_ATOMIC_OF(atomicSub, int, 1, SIMT_I32)
SIMT_ATOMIC_OF(atomicSub, unsigned int, 1, SIMT_U32)
SIMT_ATOMIC_INTEGERS(atomicExch, 2)
SIMT_ATOMIC_OF(atomicExch, float, 2, SIMT_F32)
SIMT_ATOMIC_INTEGERS(atomicMin, 3)
SIMT_ATOMIC_OF(atomicMin, long long, 3, SIMT_I64)
SIMT_ATOMIC_INTEGERS(atomicMax, 4)
SIMT_ATOMIC_OF(atomicMax, long long, 4, SIMT_I64)
SIMT_ATOMIC_INTEGERS(atomicAnd, 5)
SIMT_ATOMIC_INTEGERS(atomicOr, 6)
SIMT_ATOMIC_INTEGERS(atomicXor, 7)
SIMT_ATOMIC_OF(atomicInc, unsigned int, 8, SIMT_U32)
SIMT_ATOMIC_OF(atomicDec, unsigned int, 9, SIMT_U32)

#define SIMT_ATOMIC_CAS_IN(NAME, T, TYPE, SCOPE)                            \
    SIMT_INLINE T NAME(T* address, T compare, T value) {                    \
        T old;                                                              \
        simt_atomic(10, TYPE, SCOPE, address, &value, &compare, &old);      \
        return old;                                                         \
    }
#define SIMT_ATOMIC_CAS_OF(T, TYPE)                                         \
    SIMT_ATOMIC_CAS_IN(atomicCAS, T, TYPE, 1)                               \
    SIMT_ATOMIC_CAS_IN(atomicCAS_block, T, TYPE, 0)                         \
    SIMT_ATOMIC_CAS_IN(atomicCAS_system, T, TYPE, 2)
SIMT_ATOMIC_CAS_OF(int, SIMT_I32)
SIMT_ATOMIC_CAS_OF(unsigned int, SIMT_U32)
SIMT_ATOMIC_CAS_OF(unsigned long long, SIMT_U64)
SIMT_ATOMIC_CAS_OF(unsigned short, SIMT_U16)
