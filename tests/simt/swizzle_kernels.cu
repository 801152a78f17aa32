// Test kernel of common/swizzle.cuh: a tile goes into shared memory and comes out by ldmatrix. Also run on a GPU.
#include "common/async_copy.cuh"
#include "common/ldmatrix.cuh"
#include "common/swizzle.cuh"
#ifndef ROW_BYTES
#error "ROW_BYTES: bytes of a row of the tile; pass -DROW_BYTES=128"
#endif
#define NUM_ROWS 32
#define NUM_CHUNKS (ROW_BYTES / 16)

__device__ __forceinline__ int offset_of(int row, int chunk) {
#ifdef PLAIN
    return row * ROW_BYTES + chunk * 16;
#else
    return swizzle_offset<ROW_BYTES>(row, chunk);
#endif
}

// One warp. x (NUM_ROWS, ROW_BYTES / 2) of 16 bits · out (NUM_CHUNKS, 32, 4): x4 of each column of chunks, 32 rows each
extern "C" __global__ void swizzle_kernel(const unsigned short* x, unsigned* out) {
    __shared__ __align__(128) unsigned char tile_smem[NUM_ROWS * ROW_BYTES];
    const int lane = threadIdx.x;
    for (int i = lane; i < NUM_ROWS * NUM_CHUNKS; i += 32) {  // neighbours in a row, as a coalesced copy has it
        cp_async_16(tile_smem + offset_of(i / NUM_CHUNKS, i % NUM_CHUNKS), x + i * 8);
    }
    cp_async_wait_all();
    __syncwarp();
    for (int chunk = 0; chunk < NUM_CHUNKS; ++chunk) {
        unsigned r[4];
        ldmatrix_x4(r[0], r[1], r[2], r[3], tile_smem + offset_of(lane, chunk));
        for (int i = 0; i < 4; ++i) {
            out[(chunk * 32 + lane) * 4 + i] = r[i];
        }
    }
}
