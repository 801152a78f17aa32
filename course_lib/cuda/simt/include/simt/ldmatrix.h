// ldmatrix on the SIMT machine: what common/ldmatrix.cuh includes when it is not compiled for a GPU. Not in kernels_cu, so
// that a finding names the kernel's line and not a line of this file.
//
// Each lane below 8 * SIMT_TILES reads one row of 16 bytes, one recorded access. Lane l then holds of every tile the pair of
// 16-bit numbers 2 (l % 4), 2 (l % 4) + 1 of row l / 4; with _trans, of column l / 4.
#pragma once
#include "simt/math.h"

extern "C" unsigned simt_lane() __attribute__((const));  // runtime: 0 … 31

struct SimtMatrixRow {  // the record of one lane in simt_warp_gather
    unsigned word[4];
    unsigned is_active;  // 1; the record of a lane that has returned is all ones
};

SIMT_HELPER bool simt_all_rows_active(const SimtMatrixRow* rows) {
    bool all = true;
    for (int lane = 0; lane < 32; ++lane) all &= rows[lane].is_active == 1;
    return all;
}
// The pair of 16-bit numbers that a lane holds of one tile.
SIMT_HELPER unsigned simt_tile_pair(const SimtMatrixRow* rows, int tile, int lane) {
    return rows[8 * tile + lane / 4].word[lane % 4];
}
SIMT_HELPER unsigned simt_tile_pair_trans(const SimtMatrixRow* rows, int tile, int lane) {
    const SimtMatrixRow* row = rows + 8 * tile + 2 * (lane % 4);
    int column = lane / 4, shift = 16 * (column % 2);
    return (row[0].word[column / 2] >> shift & 0xffffu) | (row[1].word[column / 2] >> shift & 0xffffu) << 16;
}

template <int SIMT_TILES>
SIMT_INLINE const SimtMatrixRow* simt_gather_rows(const void* row_smem) {
    SimtMatrixRow mine;
    for (int i = 0; i < 4; ++i) mine.word[i] = 0;
    mine.is_active = 1;
    if (simt_lane() < 8 * SIMT_TILES) simt_matrix_row(mine.word, row_smem);
    const void* all;
    simt_warp_gather(0xffffffffu, &mine, sizeof(mine), &all);
    const auto* rows = static_cast<const SimtMatrixRow*>(all);
    if (!simt_all_rows_active(rows)) simt_assert_fail("all 32 lanes of the warp take part in ldmatrix", "ldmatrix", __LINE__);
    return rows;
}

#define SIMT_LDMATRIX(SUFFIX, PAIR)                                                                       \
    SIMT_INLINE void ldmatrix_x1##SUFFIX(unsigned& r0, const void* row_smem) {                            \
        const SimtMatrixRow* rows = simt_gather_rows<1>(row_smem);                                        \
        r0 = PAIR(rows, 0, static_cast<int>(simt_lane()));                                                \
    }                                                                                                     \
    SIMT_INLINE void ldmatrix_x2##SUFFIX(unsigned& r0, unsigned& r1, const void* row_smem) {              \
        const SimtMatrixRow* rows = simt_gather_rows<2>(row_smem);                                        \
        r0 = PAIR(rows, 0, static_cast<int>(simt_lane()));                                                \
        r1 = PAIR(rows, 1, static_cast<int>(simt_lane()));                                                \
    }                                                                                                     \
    SIMT_INLINE void ldmatrix_x4##SUFFIX(unsigned& r0, unsigned& r1, unsigned& r2, unsigned& r3,          \
                                         const void* row_smem) {                                          \
        const SimtMatrixRow* rows = simt_gather_rows<4>(row_smem);                                        \
        r0 = PAIR(rows, 0, static_cast<int>(simt_lane()));                                                \
        r1 = PAIR(rows, 1, static_cast<int>(simt_lane()));                                                \
        r2 = PAIR(rows, 2, static_cast<int>(simt_lane()));                                                \
        r3 = PAIR(rows, 3, static_cast<int>(simt_lane()));                                                \
    }
SIMT_LDMATRIX(, simt_tile_pair)
SIMT_LDMATRIX(_trans, simt_tile_pair_trans)
#undef SIMT_LDMATRIX
