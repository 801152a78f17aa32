// Named barriers on the SIMT machine: what common/named_barrier.cuh includes when it is not compiled for a GPU.
#pragma once
#include "simt/hooks.h"

SIMT_INLINE void named_barrier_sync(int barrier_idx, int num_threads) { simt_named_barrier(barrier_idx, num_threads, 1); }
SIMT_INLINE void named_barrier_sync_apart(int barrier_idx, int num_threads) { named_barrier_sync(barrier_idx, num_threads); }
SIMT_INLINE void named_barrier_arrive(int barrier_idx, int num_threads) { simt_named_barrier(barrier_idx, num_threads, 0); }
