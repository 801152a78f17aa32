// xor_tiles — asynchronous copies into swizzled tiles, each address computed once a thread
//
// A thread copies the same chunk of every COPY_ROWS-th row of a tile. Those rows are a multiple of 8 apart, so that their chunk has
// one offset in all of them (common/xor_fragments.cuh): the thread keeps one offset of its destination, and one pointer.
// Device code only, no host headers.
#pragma once
#include "common/async_copy.cuh"       // cp_async_16_zfill
#include "common/attention_tiles.cuh"  // the sizes
#include "common/xor_fragments.cuh"
static_assert(COPY_ROWS % 8 == 0, "the swizzle repeats every 8 rows, so a thread's chunk has one offset in every pass");

// region: load_tile
// Starts copying this thread's chunks of a tile. `source` and `dst_smem` are its chunk among the tile's first COPY_ROWS rows,
// num_rows counts the rows from there on; the rest becomes 0: a masked weight multiplies no NaN.
template <typename Stride>
__device__ __forceinline__ void load_tile(unsigned char* dst_smem, const ELEMENT* source, Stride stride_row, int tile_rows,
                                          int num_rows) {
#pragma unroll
    for (int row = 0; row < tile_rows; row += COPY_ROWS) {  // at 0 bytes nothing is read, wherever the address points
        cp_async_16_zfill(dst_smem + row * ROW_BYTES, source + (long long)row * stride_row, row < num_rows ? 16 : 0);
    }
}
// endregion

// region: load_paged_tile
// The same for a tile of K or V in pages. row_offsets (BLOCK_N) says where its rows begin, in elements.
__device__ __forceinline__ void load_tile(unsigned char* dst_smem, const ELEMENT* pages, const long long* row_offsets, int num_rows) {
#pragma unroll
    for (int row = 0; row < BLOCK_N; row += COPY_ROWS) {
        const long long offset = row_offsets[row + threadIdx.x / CHUNKS] + threadIdx.x % CHUNKS * CHUNK;
        cp_async_16_zfill(dst_smem + row * ROW_BYTES, pages + offset, row < num_rows ? 16 : 0);
    }
}
// endregion
