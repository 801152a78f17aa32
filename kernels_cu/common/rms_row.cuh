// rms_row — RMSNorm of a chunk of a row: its part of the sum of squares, and the row normalised
//
// Device code only, no host headers.
#pragma once
#include "common/row_kernel.cuh"  // RowChunk

// region: chunk
__device__ __forceinline__ float squares(const RowChunk& x) {
    float numbers[VEC], sum = 0.0f;
    as_floats(numbers, x);
#pragma unroll
    for (int j = 0; j < VEC; ++j) sum += numbers[j] * numbers[j];
    return sum;
}

__device__ __forceinline__ void normalise(RowChunk& x, const RowChunk& weight, float rstd) {
    float numbers[VEC], scale[VEC];
    as_floats(numbers, x);
    as_floats(scale, weight);
#pragma unroll
    for (int j = 0; j < VEC; ++j) numbers[j] *= rstd * scale[j];
    from_floats(x, numbers);
}
// endregion
