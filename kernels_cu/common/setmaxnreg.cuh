// setmaxnreg — moves registers from one warpgroup of a block to another
//
// A launch gives every thread the same number of registers, at most 65,536 / threads, rounded down to a multiple of 8
// (__launch_bounds__ must name the threads and the blocks an SM, or the compiler ignores setmaxnreg). A warpgroup that needs few
// gives its share back, another takes more and waits until enough are free. NUM_REGISTERS: 24 to 256, a multiple of 8; all warps of
// a warpgroup (128 threads) execute the same setmaxnreg.
// Needs     compute capability 9.0a · device code only, no host headers
// Source    PTX ISA, "setmaxnreg"
#pragma once

#ifndef __CUDA_ARCH__
#include <simt/setmaxnreg.h>  // the same functions on the SIMT machine
#elif __CUDA_ARCH__ < 900
#error "common/setmaxnreg.cuh: setmaxnreg needs compute capability 9.0 (sm_90a)"
#else

template <int NUM_REGISTERS>
__device__ __forceinline__ void setmaxnreg_inc() {
    static_assert(NUM_REGISTERS >= 24 && NUM_REGISTERS <= 256 && NUM_REGISTERS % 8 == 0, "24 to 256, a multiple of 8");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(NUM_REGISTERS));
}

template <int NUM_REGISTERS>
__device__ __forceinline__ void setmaxnreg_dec() {
    static_assert(NUM_REGISTERS >= 24 && NUM_REGISTERS <= 256 && NUM_REGISTERS % 8 == 0, "24 to 256, a multiple of 8");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(NUM_REGISTERS));
}

#endif
