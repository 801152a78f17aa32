// named_barrier — barriers for some warps of a block (bar.sync and bar.arrive with a number)
//
// A block has 16 barriers, 0 to 15; __syncthreads() is number 0. `num_threads`, a multiple of 32, counts the threads that take
// part, those that wait and those that only arrive, whole warps of them. The barrier opens for the waiting ones when all have come.
// Needs     any compute capability · device code only, no host headers
// Source    PTX ISA, "barrier" (bar.sync is barrier.sync.aligned), "bar.arrive"
#pragma once

#ifndef __CUDA_ARCH__
#include <simt/named_barrier.h>  // the same functions on the SIMT machine
#else

__device__ __forceinline__ void named_barrier_sync(int barrier_idx, int num_threads) {
    asm volatile("bar.sync %0, %1;\n" ::"r"(barrier_idx), "r"(num_threads) : "memory");
}

// The same where all threads of a block wait, at different places of the code: compute-sanitizer wants bar.sync at one place then.
__device__ __forceinline__ void named_barrier_sync_apart(int barrier_idx, int num_threads) {
    asm volatile("barrier.sync %0, %1;\n" ::"r"(barrier_idx), "r"(num_threads) : "memory");
}

__device__ __forceinline__ void named_barrier_arrive(int barrier_idx, int num_threads) {
    asm volatile("bar.arrive %0, %1;\n" ::"r"(barrier_idx), "r"(num_threads) : "memory");
}

#endif
