// Kernels of test_groups.py: what a good CUDA programmer takes from cooperative groups, CUB and libcu++.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cub/block/block_reduce.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cuda/barrier>
#include <cuda/functional>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;
#ifndef WRONG
#define WRONG 0
#endif

// out (8, 96): what each thread of the block knows of its groups.
extern "C" __global__ void ranks_kernel(int* out) {
    const auto block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    const auto quad = cg::tiled_partition<4>(warp);
    const int values[8] = {(int)block.thread_rank(),    (int)block.num_threads(),      (int)warp.thread_rank(), (int)warp.meta_group_rank(),
                           (int)warp.meta_group_size(), (int)quad.thread_rank(), (int)quad.size(),         (int)cg::this_grid().thread_rank()};
    for (int i = 0; i < 8; ++i) out[i * 96 + block.thread_rank()] = values[i];
}

// x (96,) -> out (5, 96)
extern "C" __global__ void exchanges_kernel(const float* x, float* out) {
    const auto block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    const auto half = cg::tiled_partition<16>(warp);
    const float value = x[block.thread_rank()];
    const float results[5] = {cg::reduce(warp, value, cg::plus<float>()), cg::reduce(half, value, cg::greater<float>()),
                              cg::inclusive_scan(warp, value), half.shfl(value, 3), half.shfl_down(value, 1)};
    for (int i = 0; i < 5; ++i) out[i * 96 + block.thread_rank()] = results[i];
}

// Counts the positive numbers with one atomic a warp; slots (96,) gets each one's place.
extern "C" __global__ void coalesced_kernel(const float* x, int* count, int* slots) {
    const int i = threadIdx.x;
    slots[i] = -1;
    if (x[i] > 0.0f) {
        const auto together = cg::coalesced_threads();
        int first = 0;
        if (together.thread_rank() == 0) first = atomicAdd(count, (int)together.size());
        slots[i] = together.shfl(first, 0) + (int)together.thread_rank();
    }
}

// Sum and maximum of x (num,) by a block of 128; out (2,).
extern "C" __global__ void block_reduce_kernel(const float* x, float* out, int num) {
    using Reduce = cub::BlockReduce<float, 128>;
    __shared__ typename Reduce::TempStorage storage;
    float sum = 0.0f, largest = -INFINITY;
    for (int i = threadIdx.x; i < num; i += 128) {
        sum += x[i];
        largest = fmaxf(largest, x[i]);
    }
    sum = Reduce(storage).Sum(sum);
    if (WRONG != 1) __syncthreads();  // the storage is used again
    largest = Reduce(storage).Reduce(largest, cuda::maximum<>());
    if (threadIdx.x == 0) {
        out[0] = sum;
        out[1] = largest;
    }
}

extern "C" __global__ void warp_reduce_kernel(const float* x, float* out, int valid) {
    using Reduce = cub::WarpReduce<float>;
    __shared__ typename Reduce::TempStorage storage[2];
    const float sum = Reduce(storage[threadIdx.x / 32]).Sum(x[threadIdx.x], valid);
    if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = sum;
}

// Tiles of 128 floats, copied by the group, reversed; every way to wait.
extern "C" __global__ void copies_kernel(const float* x, float* out, int num_tiles) {
    __shared__ alignas(16) float tile_smem[128];
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    const auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&barrier, 128);
    block.sync();
    for (int tile = 0; tile < num_tiles; ++tile) {
        const float* from = x + 128 * tile;
        if (tile % 3 == 0) {
            cg::memcpy_async(block, tile_smem, from, sizeof(tile_smem));
            if (WRONG != 2) cg::wait(block);
        } else if (tile % 3 == 1) {
            cuda::memcpy_async(block, tile_smem, from, sizeof(tile_smem), barrier);
            if (WRONG != 3) barrier.arrive_and_wait();
        } else {
            auto pipe = cuda::make_pipeline();
            pipe.producer_acquire();
            cuda::memcpy_async(tile_smem + threadIdx.x, from + threadIdx.x, sizeof(float), pipe);
            pipe.producer_commit();
            if (WRONG != 4) pipe.consumer_wait();
            block.sync();
            pipe.consumer_release();
        }
        out[128 * tile + threadIdx.x] = tile_smem[127 - threadIdx.x];
        block.sync();  // separates the reads from the next tile's writes
    }
}

extern "C" __global__ void primitives_kernel(const float* x, float* out) {
    __shared__ float tile_smem[64];
    __pipeline_memcpy_async(tile_smem + threadIdx.x, x + threadIdx.x, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    __builtin_assume(threadIdx.x < 64);
    out[threadIdx.x] = tile_smem[63 - threadIdx.x];
}
