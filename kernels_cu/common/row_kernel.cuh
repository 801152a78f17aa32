// row_kernel — a kernel with a group of threads for each row: its macros, and a thread's chunks of a row
//
// ROWS_PER_BLOCK rows a block, THREADS_PER_ROW threads a row. A thread has chunks `first`, first + THREADS_PER_ROW, … of its row,
// each VEC numbers of type ELEMENT, and keeps CHUNKS of them in registers. Device code only, no host headers.
#pragma once
#if !defined(ELEMENT) || !defined(VEC) || !defined(THREADS_PER_ROW) || !defined(ROWS_PER_BLOCK) || !defined(CHUNKS)
#error "pass -DELEMENT=__half -DVEC=8 (numbers of an access) -DTHREADS_PER_ROW=128 -DROWS_PER_BLOCK=1 -DCHUNKS=4 (of a thread)"
#endif
#include "common/row_chunks.cuh"
#define NUM_THREADS (THREADS_PER_ROW * ROWS_PER_BLOCK)
static_assert(VEC == 1 || VEC == 2 || VEC == 4 || VEC == 8, "VEC: an access is 2, 4, 8 or 16 bytes");
static_assert(VEC * sizeof(ELEMENT) <= 16, "VEC: no access is wider than 16 bytes");
static_assert(THREADS_PER_ROW % 32 == 0 || 32 % THREADS_PER_ROW == 0, "THREADS_PER_ROW: whole warps, or an even part");
static_assert(THREADS_PER_ROW * ROWS_PER_BLOCK % 32 == 0, "ROWS_PER_BLOCK: the shuffles want whole warps");
static_assert(CHUNKS >= 1, "CHUNKS: a thread keeps at least one chunk");
typedef Chunk<ELEMENT, VEC> RowChunk;

// region: read_rows
// This thread's chunks of a row of x and of y, all under way before the first is used; nothing past num_chunks.
__device__ __forceinline__ void read_rows(RowChunk (&x_reg)[CHUNKS], RowChunk (&y_reg)[CHUNKS], const ELEMENT* x_row,
                                          const ELEMENT* y_row, int first, int num_chunks) {
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks) {
            read_chunk(x_reg[i], x_row, chunk);
            read_chunk(y_reg[i], y_row, chunk);
        }
    }
}
// endregion
