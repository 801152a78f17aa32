// swizzle — the offset of a 16-byte chunk of a tile in shared memory, so that neither rows nor columns of chunks share banks
//
// 128 bytes are all 32 banks: eight chunks. With plain rows of 128 bytes the chunks of one column all lie in the same four
// banks, and ldmatrix, which takes eight rows of one column, needs eight passes. Exchanging chunk c of row r with chunk
// c XOR (r % 8) spreads a column over all banks and leaves each row in its own 128 bytes. No byte is lost, unlike padding.
//     row 0   0 1 2 3 4 5 6 7        rows of 64 bytes: two rows make 128 bytes, so r / 2 % 4 takes the place of r % 8
//     row 1   1 0 3 2 5 4 7 6        rows of 256, 384, ...: only the lowest three bits of the chunk change
//     row 2   2 3 0 1 6 7 4 5
// The tile starts at a multiple of 128 bytes, as in  __shared__ __align__(128) …
// Device code only, no host headers.
#pragma once

// Which chunk of its row holds what belongs to chunk `chunk` of row `row`. Its own inverse.
template <int SWIZZLE_ROW_BYTES>
__device__ __forceinline__ int swizzle_chunk(int row, int chunk) {
    static_assert(SWIZZLE_ROW_BYTES == 64 || (SWIZZLE_ROW_BYTES > 0 && SWIZZLE_ROW_BYTES % 128 == 0),
                  "swizzle: a row has 64 bytes or a multiple of 128");
    return SWIZZLE_ROW_BYTES == 64 ? chunk ^ (row / 2 % 4) : chunk ^ (row % 8);
}

// The same as bytes from the start of the tile.
template <int SWIZZLE_ROW_BYTES>
__device__ __forceinline__ int swizzle_offset(int row, int chunk) {
    return row * SWIZZLE_ROW_BYTES + swizzle_chunk<SWIZZLE_ROW_BYTES>(row, chunk) * 16;
}
