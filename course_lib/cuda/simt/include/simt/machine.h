// CUDA's qualifiers, built-in variables and device functions, in terms of C++ and of the machine's hooks.
//
// Precompiled, and forced in front of every kernel by build.py. Everything that calls a hook is always_inline: the source
// line of a finding is that of the hook call's return address.
#pragma once
#include "simt/fp8.h"  // the 16- and 8-bit types and wmma stay in namespaces until a kernel includes their CUDA header
#include "simt/hooks.h"
#include "simt/math.h"
#include "simt/vector_types.h"
#include "simt/wmma.h"

// ---- qualifiers ----
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(N) __attribute__((aligned(N)))
#define __managed__
// Constant memory is not part of the ledger; lines.py recognises it by its section.
#define SIMT_TEXT_(X) #X
#define SIMT_TEXT(X) SIMT_TEXT_(X)
#define __constant__ __attribute__((section(".simt_constant." SIMT_TEXT(__COUNTER__))))
// Shared memory is the library's thread-local segment: one copy for each worker, with nothing else in it, for static,
// templated and extern arrays alike. A static variable would share its segment with relocated tables and __device__
// variables. No initialisation runs. g++ needs __constinit, or it adds a guard variable to an array of a class type (see
// vector_types.h).
#if defined(__clang__)
#define __shared__ thread_local
#define SIMT_DYNAMIC_SHARED __thread
#else
#define __shared__ __constinit thread_local
#define SIMT_DYNAMIC_SHARED __constinit __thread
#endif

// ---- built-in variables ----
struct SimtIndex {
    unsigned x, y, z;
};
extern "C" {
SimtIndex simt_thread_index() __attribute__((const));
SimtIndex simt_block_index() __attribute__((const));
SimtIndex simt_block_size() __attribute__((const));
SimtIndex simt_grid_size() __attribute__((const));
unsigned simt_lane() __attribute__((const));
void simt_pause();
}
SIMT_INLINE uint3 simt_as_uint3(SimtIndex i) {
    uint3 result;
    result.x = i.x;
    result.y = i.y;
    result.z = i.z;
    return result;
}
SIMT_INLINE dim3 simt_as_dim3(SimtIndex i) { return dim3(i.x, i.y, i.z); }
#define threadIdx (simt_as_uint3(simt_thread_index()))
#define blockIdx (simt_as_uint3(simt_block_index()))
#define blockDim (simt_as_dim3(simt_block_size()))
#define gridDim (simt_as_dim3(simt_grid_size()))
static const int warpSize = 32;

// ---- barriers and fences ----
SIMT_INLINE void __syncthreads() { simt_barrier(0, 0); }
SIMT_INLINE int __syncthreads_count(int predicate) { return simt_barrier(1, predicate); }
SIMT_INLINE int __syncthreads_and(int predicate) { return simt_barrier(2, predicate); }
SIMT_INLINE int __syncthreads_or(int predicate) { return simt_barrier(3, predicate); }
SIMT_INLINE void __syncwarp(unsigned mask = 0xffffffffu) { simt_syncwarp(mask); }
SIMT_INLINE void __threadfence_block() { simt_fence(0); }
SIMT_INLINE void __threadfence() { simt_fence(1); }
SIMT_INLINE void __threadfence_system() { simt_fence(2); }

SIMT_INLINE size_t __cvta_generic_to_shared(const void* pointer) { return simt_shared_address(pointer); }

// ---- warp shuffles, votes, reductions, matches ----
#define SIMT_FOR_SHUFFLED(F) F(int) F(unsigned int) F(long) F(unsigned long) F(long long) F(unsigned long long) \
    F(float) F(double)
#define SIMT_SHUFFLE_OF(NAME, T, OPERAND, MODE)                                                              \
    SIMT_INLINE T NAME(unsigned mask, T value, OPERAND operand, int width = 32) {                            \
        T result;                                                                                            \
        simt_shuffle(mask, MODE, static_cast<int>(operand), width, &value, &result, sizeof(T));              \
        return result;                                                                                       \
    }
#define SIMT_SHUFFLES_OF(T)                         \
    SIMT_SHUFFLE_OF(__shfl_sync, T, int, 0)         \
    SIMT_SHUFFLE_OF(__shfl_up_sync, T, unsigned, 1) \
    SIMT_SHUFFLE_OF(__shfl_down_sync, T, unsigned, 2) \
    SIMT_SHUFFLE_OF(__shfl_xor_sync, T, int, 3)
SIMT_FOR_SHUFFLED(SIMT_SHUFFLES_OF)

SIMT_INLINE unsigned __ballot_sync(unsigned mask, int predicate) { return simt_ballot(mask, predicate); }
SIMT_INLINE int __any_sync(unsigned mask, int predicate) { return (simt_ballot(mask, predicate) & mask) != 0; }
SIMT_INLINE int __all_sync(unsigned mask, int predicate) { return simt_ballot(mask, !predicate) == 0; }
SIMT_INLINE unsigned __activemask() { return simt_active_mask(); }

#define SIMT_REDUCE_OF(NAME, T, OP, IS_SIGNED)                                                             \
    SIMT_INLINE T NAME(unsigned mask, T value) {                                                           \
        return static_cast<T>(simt_reduce(mask, OP, static_cast<unsigned>(value), IS_SIGNED));             \
    }
SIMT_REDUCE_OF(__reduce_add_sync, unsigned, 0, 0)
SIMT_REDUCE_OF(__reduce_min_sync, unsigned, 1, 0)
SIMT_REDUCE_OF(__reduce_max_sync, unsigned, 2, 0)
SIMT_REDUCE_OF(__reduce_add_sync, int, 0, 1)
SIMT_REDUCE_OF(__reduce_min_sync, int, 1, 1)
SIMT_REDUCE_OF(__reduce_max_sync, int, 2, 1)
SIMT_REDUCE_OF(__reduce_and_sync, unsigned, 3, 0)
SIMT_REDUCE_OF(__reduce_or_sync, unsigned, 4, 0)
SIMT_REDUCE_OF(__reduce_xor_sync, unsigned, 5, 0)

template <class T>
SIMT_INLINE unsigned long long simt_match_key(T value) {
    unsigned long long key = 0;
    __builtin_memcpy(&key, &value, sizeof(T));
    return key;
}
template <class T>
SIMT_INLINE unsigned __match_any_sync(unsigned mask, T value) {
    return simt_match_any(mask, simt_match_key(value));
}
template <class T>
SIMT_INLINE unsigned __match_all_sync(unsigned mask, T value, int* predicate) {
    return simt_match_all(mask, simt_match_key(value), predicate);
}

#include "simt/atomics.h"

// ---- clocks, traps, printf, assert ----
SIMT_INLINE long long clock64() { return simt_clock64(); }
SIMT_INLINE int clock() { return static_cast<int>(simt_clock64()); }
SIMT_INLINE unsigned long long globaltimer() { return static_cast<unsigned long long>(simt_clock64()); }
SIMT_INLINE void __nanosleep(unsigned) { simt_pause(); }
SIMT_INLINE void __trap() { simt_trap(); }
SIMT_INLINE void __brkpt() { simt_trap(); }
#define printf simt_printf
#include "assert.h"

// ---- entry point, called by the runtime once for each thread: no access, check or block of it is the kernel's ----
#if defined(__clang__)
#define SIMT_UNSEEN no_sanitize("thread", "coverage", "alignment")
#else
#define SIMT_UNSEEN no_sanitize("thread"), no_sanitize("alignment"), no_sanitize_coverage
#endif
#define SIMT_ENTRY __attribute__((visibility("default"), SIMT_UNSEEN, noinline))
namespace simt {
template <size_t... I>
struct Indices {};
template <size_t N, size_t... I>
struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <size_t... I>
struct MakeIndices<0, I...> {
    using type = Indices<I...>;
};
template <class T>
struct Plain {
    using type = T;
};
template <class T>
struct Plain<const T> {
    using type = T;
};
template <class... A, size_t... I>
SIMT_ENTRY void call_with(void (*kernel)(A...), void** arguments, Indices<I...>) {
    kernel(*static_cast<typename Plain<A>::type*>(arguments[I])...);
}
template <class... A>
static inline __attribute__((always_inline, SIMT_UNSEEN)) void call(void (*kernel)(A...), void** arguments) {
    call_with(kernel, arguments, typename MakeIndices<sizeof...(A)>::type());
}
}  // namespace simt
