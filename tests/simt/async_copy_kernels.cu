// Test kernels of common/async_copy.cuh. Also run on a GPU by tests/gpu.
#include "common/async_copy.cuh"

// One block of 32 threads. x (32, 32) bytes, row t of thread t · out (6, 32, 16) bytes: 4, 8, 16 bytes copied, then the same
// with only the first src_bytes[t] (at most the size) and zeros after them. What is not copied stays 0xee.
extern "C" __global__ void sizes_kernel(const unsigned char* x, const int* src_bytes, unsigned char* out) {
    __shared__ __align__(16) unsigned char copy_smem[6][32][16];
    const int t = threadIdx.x;
    const unsigned char* row = x + t * 32;
    for (int which = 0; which < 6; ++which) {
        for (int i = 0; i < 16; ++i) {
            copy_smem[which][t][i] = 0xee;
        }
    }
    const int bytes = src_bytes[t];
    cp_async_4(copy_smem[0][t], row + 16);
    cp_async_8(copy_smem[1][t], row + 16);
    cp_async_16(copy_smem[2][t], row + 16);
    cp_async_4_zfill(copy_smem[3][t], row, bytes < 4 ? bytes : 4);
    cp_async_8_zfill(copy_smem[4][t], row, bytes < 8 ? bytes : 8);
    cp_async_16_zfill(copy_smem[5][t], row, bytes);
    cp_async_wait_all();
    for (int which = 0; which < 6; ++which) {
        for (int i = 0; i < 16; ++i) {
            out[(which * 32 + t) * 16 + i] = copy_smem[which][t][i];
        }
    }
}

// What a double buffer needs, one bit each; without a bit, the kernel is wrong.
#define WAIT 1       // for the tile that is read
#define BARRIER 2    // between the wait and the reads of all threads
#define TRAILING 4   // between the reads of all threads and the copies into the same buffer
#define TWO 8        // two buffers, not one
#define ALL 15

// One block of 64 threads. x (num_tiles, 64) · out (64,): sum over the tiles of every seventh number from t on
extern "C" __global__ void double_buffer_kernel(const float* x, float* out, int num_tiles, int with) {
    __shared__ float tile_smem[2][64];
    const int t = threadIdx.x;
    const int other = with & TWO ? 1 : 0;
    float sum = 0.0f;
    cp_async_4(&tile_smem[0][t], &x[t]);
    cp_async_commit_group();
    for (int tile = 0; tile < num_tiles; ++tile) {
        if (tile + 1 < num_tiles) {
            cp_async_4(&tile_smem[(tile + 1) & other][t], &x[(tile + 1) * 64 + t]);
        }
        cp_async_commit_group();
        if (with & WAIT) cp_async_wait_group<1>();
        if (with & BARRIER) __syncthreads();
        for (int k = 0; k < 64; k += 7) {
            sum += tile_smem[tile & other][(t + k) % 64];
        }
        if (with & TRAILING) __syncthreads();
    }
    out[t] = sum;
}

// One block of 64 threads. Copies x to shared memory and overwrites x too early, each who in its own way; 0: after the wait.
extern "C" __global__ void overwritten_source_kernel(float* x, float* out, int who) {
    __shared__ float copy_smem[64];
    const int t = threadIdx.x;
    cp_async_4(&copy_smem[t], &x[t]);  // the source
    cp_async_commit_group();
    if (who == 1) x[t] = 5.0f;                     // its own thread
    if (who == 2) x[63 - t] = 5.0f;                // another thread
    if (who == 3) {
        __syncthreads();
        x[63 - t] = 5.0f;                          // another thread, after a barrier
        __syncthreads();
    }
    if (who == 4) reinterpret_cast<short*>(x)[2 * t] = 5;  // a half
    cp_async_wait_group<0>();
    __syncthreads();
    if (who == 0) x[t] = 5.0f;
    out[t] = copy_smem[63 - t];
}
