// <cuda_pipeline.h> of the SIMT machine: cp.async of one thread. Source: CUDA C++ Programming Guide, "Pipeline Primitives".
#pragma once
#include "simt/groups.h"

// size: 4, 8 or 16 bytes, of which the last zfill are zeros.
SIMT_INLINE void __pipeline_memcpy_async(void* dst_shared, const void* src_global, size_t size, size_t zfill = 0) {
    simt_copy_async(dst_shared, src_global, static_cast<unsigned>(size), static_cast<unsigned>(size - zfill));
}
SIMT_INLINE void __pipeline_commit() { simt_copy_commit(); }
SIMT_INLINE void __pipeline_wait_prior(size_t num_groups) { simt_copy_wait(static_cast<unsigned>(num_groups)); }
