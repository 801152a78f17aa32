// cp.async on the SIMT machine: what common/async_copy.cuh includes when it is not compiled for a GPU. Not in kernels_cu, so
// that a finding names the kernel's line and not a line of this file.
#pragma once
#include "simt/hooks.h"

SIMT_INLINE void cp_async_4(void* dst_smem, const void* src_gmem) { simt_copy_async(dst_smem, src_gmem, 4, 4); }
SIMT_INLINE void cp_async_8(void* dst_smem, const void* src_gmem) { simt_copy_async(dst_smem, src_gmem, 8, 8); }
SIMT_INLINE void cp_async_16(void* dst_smem, const void* src_gmem) { simt_copy_async(dst_smem, src_gmem, 16, 16); }

SIMT_INLINE void cp_async_4_zfill(void* dst_smem, const void* src_gmem, int src_bytes) {
    simt_copy_async(dst_smem, src_gmem, 4, static_cast<unsigned>(src_bytes));
}
SIMT_INLINE void cp_async_8_zfill(void* dst_smem, const void* src_gmem, int src_bytes) {
    simt_copy_async(dst_smem, src_gmem, 8, static_cast<unsigned>(src_bytes));
}
SIMT_INLINE void cp_async_16_zfill(void* dst_smem, const void* src_gmem, int src_bytes) {
    simt_copy_async(dst_smem, src_gmem, 16, static_cast<unsigned>(src_bytes));
}

SIMT_INLINE void cp_async_commit_group() { simt_copy_commit(); }
template <int CP_ASYNC_GROUPS>
SIMT_INLINE void cp_async_wait_group() {
    static_assert(CP_ASYNC_GROUPS >= 0, "cp_async_wait_group: groups that may stay in flight, 0 or more");
    simt_copy_wait(CP_ASYNC_GROUPS);
}
SIMT_INLINE void cp_async_wait_all() { simt_copy_wait_all(); }
