// setmaxnreg on the SIMT machine: what common/setmaxnreg.cuh includes when it is not compiled for a GPU.
#pragma once
#include "simt/hooks.h"

template <int NUM_REGISTERS>
SIMT_INLINE void setmaxnreg_inc() {
    static_assert(NUM_REGISTERS >= 24 && NUM_REGISTERS <= 256 && NUM_REGISTERS % 8 == 0, "24 to 256, a multiple of 8");
    simt_setmaxnreg(NUM_REGISTERS, 1);
}

template <int NUM_REGISTERS>
SIMT_INLINE void setmaxnreg_dec() {
    static_assert(NUM_REGISTERS >= 24 && NUM_REGISTERS <= 256 && NUM_REGISTERS % 8 == 0, "24 to 256, a multiple of 8");
    simt_setmaxnreg(NUM_REGISTERS, 0);
}
