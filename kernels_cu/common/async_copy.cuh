// async_copy — copies from global to shared memory that go on while the thread computes (cp.async)
//
// A thread starts copies, commits what it has started as a group, and later waits for its groups in order:
//     cp_async_16(dst_smem, src_gmem); … cp_async_commit_group(); … cp_async_wait_group<1>(); __syncthreads();
// The wait is for the thread's own copies. Whoever reads what others copied needs the wait of those others, then a barrier;
// and a copy into a buffer that is read needs a barrier after its last reader. Addresses are multiples of the size.
// Needs     compute capability 8.0 · device code only, no host headers
// Source    PTX ISA, "cp.async", "cp.async.commit_group", "cp.async.wait_group"
#pragma once

#ifndef __CUDA_ARCH__
#include <simt/async_copy.h>  // the same functions on the SIMT machine, where a copy lands at its wait
#elif __CUDA_ARCH__ < 800
#error "common/async_copy.cuh: cp.async needs compute capability 8.0 (sm_80) or newer; copy through registers instead"
#else

// 4 or 8 bytes, through L1. 16 bytes past L1 (.cg): what goes to shared memory is seldom wanted in L1 as well.
__device__ __forceinline__ void cp_async_4(void* dst_smem, const void* src_gmem) {
    const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(dst_smem));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(dst), "l"(src_gmem) : "memory");
}
__device__ __forceinline__ void cp_async_8(void* dst_smem, const void* src_gmem) {
    const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(dst_smem));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;\n" ::"r"(dst), "l"(src_gmem) : "memory");
}
__device__ __forceinline__ void cp_async_16(void* dst_smem, const void* src_gmem) {
    const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(dst_smem));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(dst), "l"(src_gmem) : "memory");
}

// The same, with zeros after the first src_bytes (0 to the size; at 0 nothing is read): tails need no branch.
__device__ __forceinline__ void cp_async_4_zfill(void* dst_smem, const void* src_gmem, int src_bytes) {
    const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(dst_smem));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(dst), "l"(src_gmem), "r"(src_bytes) : "memory");
}
__device__ __forceinline__ void cp_async_8_zfill(void* dst_smem, const void* src_gmem, int src_bytes) {
    const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(dst_smem));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;\n" ::"r"(dst), "l"(src_gmem), "r"(src_bytes) : "memory");
}
__device__ __forceinline__ void cp_async_16_zfill(void* dst_smem, const void* src_gmem, int src_bytes) {
    const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(dst_smem));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src_gmem), "r"(src_bytes) : "memory");
}

// Everything that this thread has started since its last commit becomes one group (an empty one is fine).
__device__ __forceinline__ void cp_async_commit_group() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

// Waits until at most the CP_ASYNC_GROUPS newest groups of this thread are under way: the older ones have landed.
template <int CP_ASYNC_GROUPS>
__device__ __forceinline__ void cp_async_wait_group() {
    static_assert(CP_ASYNC_GROUPS >= 0, "cp_async_wait_group: groups that may stay under way, 0 or more");
    asm volatile("cp.async.wait_group %0;\n" ::"n"(CP_ASYNC_GROUPS) : "memory");
}

// Waits for every copy of this thread, committed or not.
__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;\n" ::: "memory"); }

#endif
