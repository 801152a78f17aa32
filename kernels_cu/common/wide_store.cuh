// wide_store — store_rows of common/attention_rows.cuh with 16 bytes a lane, through shared memory
//
// A lane holds pairs of neighbouring columns, 4 bytes, and eight lanes' rows lie HEAD_DIM * 2 bytes apart: stored from the
// registers, a warp's instruction touches eight rows, 16 bytes of each. Written to shared memory first, whole rows go out.
// All 32 lanes take part. Needs compute capability 8.0 · device code only, no host headers.
#pragma once
#include "common/attention_rows.cuh"
#include "common/swizzle.cuh"

// region: store_rows_wide
// As store_rows, m in units of log2; the warp's first row is row first_row of out and lse. out_smem (ROWS * 16, COLS * 8): scratch of this warp alone, in which no copy is under way.
template <typename T, int ROWS, int COLS>
__device__ __forceinline__ void store_rows_wide(T* out, float* lse, unsigned char* out_smem, const float (&acc)[ROWS][COLS][4],
                                                const float (&m)[ROWS][2], const float (&l)[ROWS][2], long long first_row,
                                                int num_rows, int row_stride, int lane) {
    unsigned char* lane_smem = out_smem + lane / 4 * (COLS * 16) + lane % 4 * 4;  // row g, columns 2 t and 2 t + 1
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float l_row = row_sum(l[i][half]);
            const float inv_l = l_row > 0.0f ? 1.0f / l_row : 0.0f;
            const int row = i * 16 + half * 8 + lane / 4;
            if (lane % 4 == 0 && row < num_rows) {
                lse[first_row + row * row_stride] = m[i][half] * LN_2 + logf(l_row);
            }
#pragma unroll
            for (int d = 0; d < COLS; ++d) {
                const int chunk = swizzle_chunk<COLS * 16>(lane / 4, d % 8) + d / 8 * 8;  // rows g and g + 8: the same
                *reinterpret_cast<unsigned*>(lane_smem + (i * 16 + half * 8) * (COLS * 16) + chunk * 16) =
                    pack_pair(acc[i][d][half * 2] * inv_l, acc[i][d][half * 2 + 1] * inv_l, T());
            }
        }
    }
    __syncwarp();  // separates the lanes' writes of out_smem from their reads
    // region: whole_rows
    for (int i = lane; i < min(ROWS * 16, num_rows) * COLS; i += WARP_SIZE) {
        const long long row = first_row + i / COLS * row_stride;
        *reinterpret_cast<uint4*>(out + row * (COLS * 8) + i % COLS * 8) =
            *reinterpret_cast<const uint4*>(out_smem + swizzle_offset<COLS * 16>(i / COLS, i % COLS));
    }
    // endregion
}
// endregion
