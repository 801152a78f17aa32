// xor_fragments — addresses of a swizzled tile for ldmatrix, computed once a lane
//
// A swizzled address (common/swizzle.cuh) is the same for every tile except for a constant: 16 columns further is three bits of the
// offset XOR a constant, 8 rows further a constant added. So a lane computes its two offsets once, before the walk over the tiles.
// Rows have a multiple of 128 bytes. Device code only, no host headers.
#pragma once
#include "common/swizzle.cuh"

// region: fragments
// The address that this lane passes to ldmatrix, for tile rows row to row + 15 and columns 16 d to 16 d + 15.
template <int TILE_ROW_BYTES>
struct XorFragments {
    int rows_lane, columns_lane;  // offsets for row 0 and d = 0; chunk 2 d further is an XOR with 32 d in bits 5 and 6
    __device__ __forceinline__ explicit XorFragments(int lane)
        : rows_lane(swizzle_offset<TILE_ROW_BYTES>(lane % 16, lane / 16)),
          columns_lane(swizzle_offset<TILE_ROW_BYTES>(lane / 16 * 8 + lane % 8, lane / 8 % 2)) {}
    __device__ __forceinline__ const unsigned char* rows(const unsigned char* tile_smem, int row, int d) const {
        return tile_smem + (rows_lane ^ (d % 4 * 32)) + (d / 4 * 128 + row * TILE_ROW_BYTES);
    }
    __device__ __forceinline__ const unsigned char* columns(const unsigned char* tile_smem, int row, int d) const {
        return tile_smem + (columns_lane ^ (d % 4 * 32)) + (d / 4 * 128 + row * TILE_ROW_BYTES);
    }
};
// endregion
