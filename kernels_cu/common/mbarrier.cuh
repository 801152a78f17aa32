// mbarrier — barriers in shared memory that count arrivals and bytes (mbarrier.*)
//
// One thread initialises a barrier with the number of arrivals of a phase:
//     if (threadIdx.x == 0) { mbarrier_init(&full, 1); fence_mbarrier_init(); }  __syncthreads();
// A phase completes when its arrivals have come and as many bytes have landed as were expected; the next phase begins at once.
// Phases alternate between parity 0 and 1, the first is 0. mbarrier_wait_parity(&full, parity) returns when the phase of that
// parity has completed; before the first phase completes, the phase of parity 1 counts as completed. An arrival releases what its
// thread wrote, a wait that returns acquires it.
// Needs     compute capability 9.0 · device code only, no host headers
// Source    PTX ISA, "mbarrier", "Phase of the mbarrier object"
#pragma once
typedef unsigned long long mbarrier_t;  // 8 bytes, aligned to 8, in shared memory; only the functions below may touch it

#ifndef __CUDA_ARCH__
#include <simt/mbarrier.h>  // the same functions on the SIMT machine
#elif __CUDA_ARCH__ < 900
#error "common/mbarrier.cuh: barriers that count bytes need compute capability 9.0 (sm_90) or newer"
#else

__device__ __forceinline__ void mbarrier_init(mbarrier_t* barrier, unsigned num_arrivals) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(address), "r"(num_arrivals) : "memory");
}

// Publishes this thread's mbarrier_init to the async proxy and to the cluster; threads of the block still need __syncthreads().
__device__ __forceinline__ void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory"); }

// One arrival.
__device__ __forceinline__ void mbarrier_arrive(mbarrier_t* barrier) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(address) : "memory");
}

// The phase also waits for `num_bytes` more bytes; then one arrival.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(mbarrier_t* barrier, unsigned num_bytes) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(address), "r"(num_bytes) : "memory");
}

// True when the phase of this parity has completed. Waits for a while that the hardware chooses, then may return false.
__device__ __forceinline__ bool mbarrier_try_wait_parity(mbarrier_t* barrier, unsigned parity) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    unsigned done;
    asm volatile("{\n.reg .pred done;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, done;\n}\n"
                 : "=r"(done)
                 : "r"(address), "r"(parity)
                 : "memory");
    return done != 0;
}

// Returns when the phase of this parity has completed.
__device__ __forceinline__ void mbarrier_wait_parity(mbarrier_t* barrier, unsigned parity) {
    while (!mbarrier_try_wait_parity(barrier, parity)) {}
}

#endif
