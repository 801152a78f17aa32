// Test kernels of common/ldmatrix.cuh: one warp, one kernel for all six instructions. Also run on a GPU by tests/gpu.
#include "common/ldmatrix.cuh"

// tiles (4, 8, 8) of 16 bits, tile i in rows 8 i … · out (6, 32, 4): x1, x2, x4, then the same with _trans
extern "C" __global__ void ldmatrix_kernel(const unsigned short* tiles, unsigned* out) {
    __shared__ __align__(16) unsigned short rows_smem[32][8];
    const int lane = threadIdx.x;
    for (int col = 0; col < 8; ++col) {
        rows_smem[lane][col] = tiles[lane * 8 + col];
    }
    __syncwarp();
    unsigned r[6][4] = {};
    ldmatrix_x1(r[0][0], rows_smem[lane]);
    ldmatrix_x2(r[1][0], r[1][1], rows_smem[lane]);
    ldmatrix_x4(r[2][0], r[2][1], r[2][2], r[2][3], rows_smem[lane]);
    ldmatrix_x1_trans(r[3][0], rows_smem[lane]);
    ldmatrix_x2_trans(r[4][0], r[4][1], rows_smem[lane]);
    ldmatrix_x4_trans(r[5][0], r[5][1], r[5][2], r[5][3], rows_smem[lane]);
    for (int which = 0; which < 6; ++which) {
        for (int i = 0; i < 4; ++i) {
            out[(which * 32 + lane) * 4 + i] = r[which][i];
        }
    }
}
