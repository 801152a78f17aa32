// row_ring — rows of two tensors on their way through shared memory; a thread reads what it copied itself, so no barrier is needed
//
// NUM_STAGES pairs of rows are under way or in use. start() begins the copies of a pair; wait() returns when the oldest pair that
// this thread has started has landed. Its chunks may be read until the same stage is started again:
//     for (s < NUM_STAGES - 1) ring.start(s, …);  for (row …) { ring.start(the row NUM_STAGES - 1 further, …); ring.wait(); … }
// Below compute capability 8.0, and where a chunk has two bytes, a copy goes through a register and has landed at once.
// Device code only, no host headers.
#pragma once
#include "common/row_kernel.cuh"  // ELEMENT, VEC, THREADS_PER_ROW, ROWS_PER_BLOCK, CHUNKS
#ifndef NUM_STAGES
#error "pass -DNUM_STAGES=3 (pairs of rows of a thread, one of them in use)"
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#include "common/async_copy.cuh"
#endif
static_assert(NUM_STAGES >= 1, "NUM_STAGES: with one, a row is copied and then used");
#define PAIR_CHUNKS (2 * CHUNKS * NUM_THREADS)  // of a stage: (x and y, CHUNKS, NUM_THREADS)

// region: copy
// A chunk of a row, to shared memory.
__device__ __forceinline__ void copy_chunk(RowChunk* dst_smem, const ELEMENT* row, int chunk) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    const RowChunk* src = reinterpret_cast<const RowChunk*>(row) + chunk;
    if (sizeof(RowChunk) == 16) return cp_async_16(dst_smem, src);
    if (sizeof(RowChunk) == 8) return cp_async_8(dst_smem, src);
    if (sizeof(RowChunk) == 4) return cp_async_4(dst_smem, src);
#endif
    read_chunk(*dst_smem, row, chunk);
}

struct RowRing {
    RowChunk* own_smem;  // this thread's first

    __device__ __forceinline__ RowChunk& x(int stage, int i) const { return own_smem[stage * PAIR_CHUNKS + i * NUM_THREADS]; }
    __device__ __forceinline__ RowChunk& y(int stage, int i) const { return x(stage, CHUNKS + i); }

    // This thread's chunks of a pair of rows; nothing past num_chunks.
    __device__ __forceinline__ void start(int stage, const ELEMENT* x_row, const ELEMENT* y_row, int first, int num_chunks) const {
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            const int chunk = first + i * THREADS_PER_ROW;
            if (chunk < num_chunks) {
                copy_chunk(&x(stage, i), x_row, chunk);
                copy_chunk(&y(stage, i), y_row, chunk);
            }
        }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
        cp_async_commit_group();
#endif
    }

    __device__ __forceinline__ void wait() const {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
        cp_async_wait_group<NUM_STAGES - 1>();
#endif
    }
};
// endregion

// region: store_sums
// The sums that are kept in global memory, of what a row has beyond CHUNKS chunks of a thread, begin with zeros.
__device__ __forceinline__ void clear_rest(float* partial_row, int first, int num_cols) {
    const float zeros[VEC] = {};
#pragma unroll 1
    for (int chunk = first + CHUNKS * THREADS_PER_ROW; chunk < num_cols / VEC; chunk += THREADS_PER_ROW) {
        write_floats(partial_row + chunk * VEC, zeros);
    }
}

// What the block's threads have summed for their chunks becomes one row of partial sums, groups added in their order. All threads
// take part; sum_smem (ROWS_PER_BLOCK, num_cols) is used where the block has several groups, which then hold whole rows.
__device__ __forceinline__ void store_sums(float* partial_row, const float (&sums)[CHUNKS][VEC], float* sum_smem, int first, int group,
                                           int num_cols) {
    float* target = ROWS_PER_BLOCK == 1 ? partial_row : sum_smem + group * num_cols;
    if (ROWS_PER_BLOCK > 1) __syncthreads();  // separates all reads of what sum_smem held from these writes
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_cols / VEC) write_floats(target + chunk * VEC, sums[i]);
    }
    if (ROWS_PER_BLOCK == 1) return;
    __syncthreads();  // separates the groups' writes from the reads of all of them
    for (int col = threadIdx.x; col < num_cols; col += NUM_THREADS) {
        float sum = sum_smem[col];
        for (int other = 1; other < ROWS_PER_BLOCK; ++other) sum += sum_smem[other * num_cols + col];
        partial_row[col] = sum;
    }
}
// endregion
