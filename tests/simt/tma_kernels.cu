// Test kernels of TMA copies: boxes of 2 to 4 dimensions loaded and stored, a tile that is computed and stored, a reduction.
// Also run on a GPU by tests/gpu/test_async_gpu.py.
#include "common/tma.cuh"

#define NO_PROXY_FENCE 1
#define NO_BARRIER 2
#define NO_READ_WAIT 3
#define NO_COMMIT 4
#define NO_EXIT_WAIT 5
#define LATE_PROXY_FENCE 6
#define READ_BEFORE_WAIT 7
#define SHORT_READ_WAIT 8
#ifndef WRONG
#define WRONG 0
#endif

// One block of 32 threads. The box at (c0, c1, …) of the map goes to shared memory and from there, as it lies, to out
// (BOX_BYTES,): 2, 3 or 4 dimensions as RANK says.
extern "C" __global__ void load_kernel(const __grid_constant__ TensorMap map, unsigned char* out, int c0, int c1, int c2, int c3) {
    extern __shared__ __align__(1024) unsigned char tile_smem[];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        prefetch_tensormap(&map);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, BOX_BYTES);
#if RANK == 2
        tma_load_2d(tile_smem, &map, &full, c0, c1);
#elif RANK == 3
        tma_load_3d(tile_smem, &map, &full, c0, c1, c2);
#else
        tma_load_4d(tile_smem, &map, &full, c0, c1, c2, c3);
#endif
    }
    mbarrier_wait_parity(&full, 0);
    for (int i = threadIdx.x; i < BOX_BYTES; i += 32) {
        out[i] = tile_smem[i];
    }
}

// The other way: in (BOX_BYTES,) goes to shared memory as it lies and from there to the box at (c0, c1, …).
extern "C" __global__ void store_kernel(const __grid_constant__ TensorMap map, const unsigned char* in, int c0, int c1, int c2, int c3) {
    extern __shared__ __align__(1024) unsigned char tile_smem[];
    for (int i = threadIdx.x; i < BOX_BYTES; i += 32) {
        tile_smem[i] = in[i];
    }
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
#if RANK == 2
        tma_store_2d(&map, tile_smem, c0, c1);
#elif RANK == 3
        tma_store_3d(&map, tile_smem, c0, c1, c2);
#else
        tma_store_4d(&map, tile_smem, c0, c1, c2, c3);
#endif
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}

// One block of 64 threads. out (num_tiles, 64) = 2 x, tile after tile, through two buffers of shared memory.
extern "C" __global__ void scale_kernel(const float* x, const __grid_constant__ TensorMap map, int num_tiles) {
    __shared__ __align__(128) float tile_smem[2][64];
    const int t = threadIdx.x;
    for (int tile = 0; tile < num_tiles; ++tile) {
        if (t == 0 && WRONG == SHORT_READ_WAIT) bulk_wait_group_read<2>();  // one group too few
        else if (t == 0 && WRONG != NO_READ_WAIT) bulk_wait_group_read<1>();  // the buffer is free
        __syncthreads();                                                     // separates the wait from the writes
        tile_smem[tile % 2][t] = 2.0f * x[tile * 64 + t];  // the write
        if (WRONG != NO_PROXY_FENCE && WRONG != LATE_PROXY_FENCE) fence_proxy_async();
        if (WRONG != NO_BARRIER) __syncthreads();  // separates the writes from the store
        if (WRONG == LATE_PROXY_FENCE) fence_proxy_async();
        if (t == 0) {
            tma_store_2d(&map, tile_smem[tile % 2], 0, tile);  // the store
            if (WRONG != NO_COMMIT) bulk_commit_group();
        }
    }
    if (t == 0 && WRONG != NO_EXIT_WAIT) bulk_wait_group_read<0>();
}

// One block of 32 threads. out (32,) = 2 x (32,), read back by the thread that stored it.
extern "C" __global__ void read_back_kernel(const float* x, float* copy, const __grid_constant__ TensorMap map, float* out) {
    __shared__ __align__(128) float tile_smem[32];
    const int t = threadIdx.x;
    tile_smem[t] = 2.0f * x[t];
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        tma_store_2d(&map, tile_smem, 0, 0);  // the store
        bulk_commit_group();
        if (WRONG == READ_BEFORE_WAIT) bulk_wait_group_read<0>();
        else bulk_wait_group<0>();
        for (int i = 0; i < 32; ++i) out[i] = copy[i];  // the read
    }
}

// Blocks of 32 threads, each adds its row of x (num_blocks, 32) to sum (32,).
extern "C" __global__ void reduce_kernel(const float* x, float* sum) {
    __shared__ __align__(16) float row_smem[32];
    row_smem[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        bulk_reduce_add_f32(sum, row_smem, 128);  // the reduction
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
