// mbarrier on the SIMT machine: what common/mbarrier.cuh includes when it is not compiled for a GPU.
#pragma once
#include "simt/hooks.h"

SIMT_INLINE void mbarrier_init(mbarrier_t* barrier, unsigned num_arrivals) { simt_mbarrier_init(barrier, num_arrivals); }
SIMT_INLINE void fence_mbarrier_init() { simt_mbarrier_init_fence(); }
SIMT_INLINE void mbarrier_arrive(mbarrier_t* barrier) { simt_mbarrier_arrive(barrier); }
SIMT_INLINE void mbarrier_arrive_expect_tx(mbarrier_t* barrier, unsigned num_bytes) {
    simt_mbarrier_arrive_expect_tx(barrier, num_bytes);
}
SIMT_INLINE bool mbarrier_try_wait_parity(mbarrier_t* barrier, unsigned parity) {
    return simt_mbarrier_try_wait(barrier, parity) != 0;
}
SIMT_INLINE void mbarrier_wait_parity(mbarrier_t* barrier, unsigned parity) { simt_mbarrier_wait(barrier, parity); }
