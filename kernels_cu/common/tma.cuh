// tma — copies of whole tiles between a tensor and shared memory, started by one thread (cp.async.bulk.tensor)
//
// A TensorMap describes a tensor and a box of it; Python makes it with cuda.tensor_map(tensor, box=…, swizzle=…), and a kernel takes
// it as `const __grid_constant__ TensorMap`. c0, c1, … are the coordinates of the box's first element, innermost first.
//     tma_load_2d(tile_smem, &map, &full, c0, c1);   the box arrives in shared memory; its bytes complete on the mbarrier `full`
//     tma_store_2d(&map, tile_smem, c0, c1);         the box leaves; wait for the thread's bulk group before the tile is used again
// Elements outside the tensor arrive as zeros, and count as bytes; a store leaves them out, and may not begin before the tensor.
// A box begins at a multiple of 16 bytes of a row: c0 is a multiple of 8 for 16-bit numbers. Elsewhere the instruction is illegal.
// dst_smem and src_smem are aligned to 128 bytes; to 1,024 with the swizzle of 128 bytes, which moves 16-byte chunk c of row r
// (of 128 bytes) to chunk c ^ (r % 8).
// What threads have written to shared memory themselves (the generic proxy) is seen by a store, and by wgmma, only after the writing
// thread's fence_proxy_async() and a barrier.
// Needs     compute capability 9.0 · device code only, no host headers
// Source    PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk", "Async proxy"
#pragma once
#include "common/mbarrier.cuh"

struct alignas(64) TensorMap {
    unsigned long long words[16];  // 128 bytes, opaque: the driver's CUtensorMap, or the SIMT machine's own
};

#ifndef __CUDA_ARCH__
#include <simt/tma.h>  // the same functions on the SIMT machine, where a copy lands late or early, as the schedule says
#elif __CUDA_ARCH__ < 900
#error "common/tma.cuh: cp.async.bulk.tensor needs compute capability 9.0 (sm_90) or newer"
#else

// Orders this thread's own writes to shared memory before later accesses of the async proxy: TMA stores, wgmma.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }

// Fetches the 128 bytes of the map itself, ahead of the first copy.
__device__ __forceinline__ void prefetch_tensormap(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];\n" ::"l"(map) : "memory");
}

__device__ __forceinline__ void tma_load_2d(void* dst_smem, const TensorMap* map, mbarrier_t* barrier, int c0, int c1) {
    const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(dst_smem));
    const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];\n"
                 ::"r"(dst), "l"(map), "r"(bar), "r"(c0), "r"(c1)
                 : "memory");
}

__device__ __forceinline__ void tma_load_3d(void* dst_smem, const TensorMap* map, mbarrier_t* barrier, int c0, int c1, int c2) {
    const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(dst_smem));
    const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];\n"
                 ::"r"(dst), "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2)
                 : "memory");
}

__device__ __forceinline__ void tma_load_4d(void* dst_smem, const TensorMap* map, mbarrier_t* barrier, int c0, int c1, int c2, int c3) {
    const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(dst_smem));
    const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];\n"
                 ::"r"(dst), "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}

__device__ __forceinline__ void tma_store_2d(const TensorMap* map, const void* src_smem, int c0, int c1) {
    const unsigned src = static_cast<unsigned>(__cvta_generic_to_shared(src_smem));
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];\n"
                 ::"l"(map), "r"(src), "r"(c0), "r"(c1)
                 : "memory");
}

__device__ __forceinline__ void tma_store_3d(const TensorMap* map, const void* src_smem, int c0, int c1, int c2) {
    const unsigned src = static_cast<unsigned>(__cvta_generic_to_shared(src_smem));
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];\n"
                 ::"l"(map), "r"(src), "r"(c0), "r"(c1), "r"(c2)
                 : "memory");
}

__device__ __forceinline__ void tma_store_4d(const TensorMap* map, const void* src_smem, int c0, int c1, int c2, int c3) {
    const unsigned src = static_cast<unsigned>(__cvta_generic_to_shared(src_smem));
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];\n"
                 ::"l"(map), "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}

// `num_bytes` (a multiple of 16) from global to shared memory in one piece, without a map; they complete on `barrier`.
__device__ __forceinline__ void bulk_load(void* dst_smem, const void* src_gmem, unsigned num_bytes, mbarrier_t* barrier) {
    const unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(dst_smem));
    const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(barrier));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n"
                 ::"r"(dst), "l"(src_gmem), "r"(num_bytes), "r"(bar)
                 : "memory");
}

// Adds floats in shared memory to floats in global memory, each sum atomic; `num_bytes` is a multiple of 16.
__device__ __forceinline__ void bulk_reduce_add_f32(float* dst_gmem, const float* src_smem, unsigned num_bytes) {
    const unsigned src = static_cast<unsigned>(__cvta_generic_to_shared(src_smem));
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
                 ::"l"(dst_gmem), "r"(src), "r"(num_bytes)
                 : "memory");
}

// The stores and reductions that this thread has started since its last commit become one bulk group.
__device__ __forceinline__ void bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;\n" ::: "memory"); }

// Waits until at most the NUM_GROUPS newest bulk groups of this thread have yet to read shared memory: older tiles may be reused.
template <int NUM_GROUPS>
__device__ __forceinline__ void bulk_wait_group_read() {
    static_assert(NUM_GROUPS >= 0, "bulk_wait_group_read: groups that may still be reading, 0 or more");
    asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(NUM_GROUPS) : "memory");
}

// Waits until at most the NUM_GROUPS newest bulk groups of this thread are in flight: older ones are written.
template <int NUM_GROUPS>
__device__ __forceinline__ void bulk_wait_group() {
    static_assert(NUM_GROUPS >= 0, "bulk_wait_group: groups that may stay in flight, 0 or more");
    asm volatile("cp.async.bulk.wait_group %0;\n" ::"n"(NUM_GROUPS) : "memory");
}

#endif
