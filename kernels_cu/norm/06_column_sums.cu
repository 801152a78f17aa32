// 06_column_sums — the sums of the columns of partial gradients, in one order: the second stage of 04 and 05
//
// Idea      a block has 32 columns and COLUMN_ROWS rows at once: each warp reads whole lines, and the rest is a small tree
// Contract  partial (num_sums, num_parts, num_cols) float, contiguous · sums (num_sums, num_cols) ELEMENT, contiguous
//           the order of additions depends on num_parts alone: the same bits in every run
//           launched as a dependent of the kernel before (common/dependent_launch.cuh): its blocks are in place when that one ends
// Launch    grid (ceil(num_cols / 32), num_sums) · block 32 * COLUMN_ROWS · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/norm_backward.py: column_sums_kernel
// gate: -DELEMENT=__nv_bfloat16 -DCOLUMN_ROWS=32
// gate: -DELEMENT=__half -DCOLUMN_ROWS=32
// gate: -DELEMENT=float -DCOLUMN_ROWS=8
// Source    J. Luitjens, "Faster Parallel Reductions on Kepler", 2014, NVIDIA developer blog
#ifndef ELEMENT
#error "ELEMENT: type of the sums; pass -DELEMENT=float, __half or __nv_bfloat16"
#endif
#ifndef COLUMN_ROWS
#define COLUMN_ROWS 32  // rows that a block reads at once
#endif
static_assert((COLUMN_ROWS & (COLUMN_ROWS - 1)) == 0 && COLUMN_ROWS <= 32, "COLUMN_ROWS: the tree halves it; at most 32 warps");
#include "common/dependent_launch.cuh"
#include "common/row_chunks.cuh"

extern "C" __global__ void __launch_bounds__(WARP_SIZE * COLUMN_ROWS)
column_sums_kernel(const float* partial, ELEMENT* sums, int num_parts, int num_cols) {
    __shared__ float sum_smem[COLUMN_ROWS][WARP_SIZE];  // (COLUMN_ROWS, columns)
    const int lane = threadIdx.x % WARP_SIZE, first = threadIdx.x / WARP_SIZE;
    const int col = blockIdx.x * WARP_SIZE + lane;
    partial += static_cast<long long>(blockIdx.y) * num_parts * num_cols;

    // region: read
    griddepcontrol_wait();  // the partial sums are of the kernel before
    float sum[1] = {0.0f};
    if (col < num_cols) {
#pragma unroll 4
        for (int part = first; part < num_parts; part += COLUMN_ROWS) {
            sum[0] += partial[static_cast<long long>(part) * num_cols + col];
        }
    }
    sum_smem[first][lane] = sum[0];
    // endregion

    // region: tree
    for (int stride = COLUMN_ROWS / 2; stride > 0; stride /= 2) {
        __syncthreads();  // separates the writes of the step before from the reads of this one
        if (first < stride) sum_smem[first][lane] += sum_smem[first + stride][lane];
    }
    if (first == 0 && col < num_cols) {  // this thread wrote what it reads
        sum[0] = sum_smem[0][lane];
        Chunk<ELEMENT, 1> rounded_sum;
        from_floats(rounded_sum, sum);
        write_chunk(sums + static_cast<long long>(blockIdx.y) * num_cols, col, rounded_sum);
    }
    // endregion
}
