// TMA and bulk copies on the SIMT machine: what common/tma.cuh includes when it is not compiled for a GPU. A map's 128
// bytes are a SimtTensorMap (tensor_map.h).
#pragma once
#include "simt/hooks.h"

SIMT_INLINE void fence_proxy_async() { simt_fence_proxy_async(); }
SIMT_INLINE void prefetch_tensormap(const TensorMap* map) { simt_prefetch_tensormap(map); }

SIMT_INLINE void tma_load_2d(void* dst_smem, const TensorMap* map, mbarrier_t* barrier, int c0, int c1) {
    const int coordinates[] = {c0, c1};
    simt_tma_load(dst_smem, map, barrier, 2, coordinates);
}
SIMT_INLINE void tma_load_3d(void* dst_smem, const TensorMap* map, mbarrier_t* barrier, int c0, int c1, int c2) {
    const int coordinates[] = {c0, c1, c2};
    simt_tma_load(dst_smem, map, barrier, 3, coordinates);
}
SIMT_INLINE void tma_load_4d(void* dst_smem, const TensorMap* map, mbarrier_t* barrier, int c0, int c1, int c2, int c3) {
    const int coordinates[] = {c0, c1, c2, c3};
    simt_tma_load(dst_smem, map, barrier, 4, coordinates);
}

SIMT_INLINE void tma_store_2d(const TensorMap* map, const void* src_smem, int c0, int c1) {
    const int coordinates[] = {c0, c1};
    simt_tma_store(map, src_smem, 2, coordinates);
}
SIMT_INLINE void tma_store_3d(const TensorMap* map, const void* src_smem, int c0, int c1, int c2) {
    const int coordinates[] = {c0, c1, c2};
    simt_tma_store(map, src_smem, 3, coordinates);
}
SIMT_INLINE void tma_store_4d(const TensorMap* map, const void* src_smem, int c0, int c1, int c2, int c3) {
    const int coordinates[] = {c0, c1, c2, c3};
    simt_tma_store(map, src_smem, 4, coordinates);
}

SIMT_INLINE void bulk_load(void* dst_smem, const void* src_gmem, unsigned num_bytes, mbarrier_t* barrier) {
    simt_bulk_load(dst_smem, src_gmem, num_bytes, barrier);
}
SIMT_INLINE void bulk_reduce_add_f32(float* dst_gmem, const float* src_smem, unsigned num_bytes) {
    simt_bulk_reduce_add_f32(dst_gmem, src_smem, num_bytes);
}

SIMT_INLINE void bulk_commit_group() { simt_bulk_commit_group(); }
template <int NUM_GROUPS>
SIMT_INLINE void bulk_wait_group_read() {
    static_assert(NUM_GROUPS >= 0, "bulk_wait_group_read: groups that may still be reading, 0 or more");
    simt_bulk_wait_group(NUM_GROUPS, 1);
}
template <int NUM_GROUPS>
SIMT_INLINE void bulk_wait_group() {
    static_assert(NUM_GROUPS >= 0, "bulk_wait_group: groups that may stay in flight, 0 or more");
    simt_bulk_wait_group(NUM_GROUPS, 0);
}
