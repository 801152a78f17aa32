// 01_add_rms_norm — residual += x, then RMSNorm of the residual: a block has a row and reads each of its numbers once
//
// Idea      the rounded sum stays in shared memory between the two sweeps, so that global memory is read once
// Builds on softmax/02_fused_softmax
// Contract  x, residual, out (num_rows, num_cols) half, rows stride_x, stride_residual and stride_out numbers apart
//           weight (num_cols,) half · residual becomes residual + x, rounded · any num_cols >= 1
//           out = residual / sqrt(mean(residual^2) + eps) * weight, summed in float
// Launch    grid num_rows · block BLOCK · 2 * num_cols bytes of dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DBLOCK=128
#ifndef BLOCK
#error "BLOCK: threads of a block, a power of two from 32 on; pass -DBLOCK=128"
#endif
#include <cuda_fp16.h>
#include "common/block_reduce.cuh"  // block_sum(value, reduce_smem): all threads take part, and all get the sum

extern "C" __global__ void __launch_bounds__(BLOCK)
add_rms_norm_kernel(const __half* x, __half* residual, const __half* weight, __half* out, int num_cols,
                    long long stride_x, long long stride_residual, long long stride_out, float eps) {
    extern __shared__ __half row_smem[];  // (num_cols,) the rounded sums of this row
    __shared__ float reduce_smem[BLOCK];
    const long long row = blockIdx.x;
    x += row * stride_x;
    residual += row * stride_residual;
    out += row * stride_out;
    // BEGIN SOLUTION
    float squares = 0.0f;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        const __half sum = __float2half_rn(__half2float(residual[col]) + __half2float(x[col]));
        residual[col] = sum;
        row_smem[col] = sum;  // read again below, by this thread
        const float value = __half2float(sum);
        squares += value * value;
    }
    squares = block_sum(squares, reduce_smem);
    const float rstd = rsqrtf(squares / num_cols + eps);
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {
        const float value = __half2float(row_smem[col]);
        out[col] = __float2half_rn(value * rstd * __half2float(weight[col]));
    }
    // END SOLUTION
}
