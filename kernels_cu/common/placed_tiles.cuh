// placed_tiles — tiles in shared memory whose layout is one function of the kernel, place(row, chunk)
//
// PLACE gives where a chunk of 16 bytes of a row is, in bytes from the start of a tile: plain rows in flash_attention_2/02_mma,
// swizzled ones from 03_swizzled on. Copies and fragments ask it for every address, so a step changes the layout in one line.
// Device code only, no host headers.
#pragma once
#include "common/attention_tiles.cuh"

// region: fragments
// The address that this lane passes to ldmatrix, for tile rows row to row + 15 and columns 16 d to 16 d + 15.
template <int (*PLACE)(int row, int chunk)>
struct PlacedFragments {
    int lane;
    __device__ __forceinline__ const unsigned char* rows(const unsigned char* tile_smem, int row, int d) const {
        return tile_smem + PLACE(row + lane % 16, 2 * d + lane / 16);
    }
    __device__ __forceinline__ const unsigned char* columns(const unsigned char* tile_smem, int row, int d) const {
        return tile_smem + PLACE(row + lane / 16 * 8 + lane % 8, 2 * d + lane / 8 % 2);
    }
};
// endregion

// region: load_tile
// Copies num_rows rows of `source` into a tile of tile_rows; the rest becomes 0, so that a masked weight multiplies no NaN.
template <int (*PLACE)(int row, int chunk)>
__device__ __forceinline__ void load_tile(unsigned char* tile_smem, const ELEMENT* source, int stride_row, int tile_rows,
                                          int num_rows) {
    const int chunk = threadIdx.x % CHUNKS;
#pragma unroll 4
    for (int row = threadIdx.x / CHUNKS; row < tile_rows; row += NUM_THREADS / CHUNKS) {
        uint4 part = make_uint4(0, 0, 0, 0);
        if (row < num_rows) part = *reinterpret_cast<const uint4*>(source + (long long)row * stride_row + chunk * CHUNK);
        *reinterpret_cast<uint4*>(tile_smem + PLACE(row, chunk)) = part;
    }
}
// endregion
