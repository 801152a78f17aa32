// 02_layer_norm — LayerNorm of every row: mean, then the squares of the differences, from the same registers
//
// Idea      a second sum costs a second reduction but no second read: no E[x^2] - E[x]^2, which cancels where the mean is large
// Builds on 01_rms_norm. Changed regions: chunk, centre (new), square, write.
// Contract  x, out (num_rows, num_cols) ELEMENT, rows contiguous and stride_x, stride_out apart; out may be x
//           weight (num_cols,) ELEMENT · bias like weight, or null: no bias
//           out = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias, in float, rounded once
//           any num_rows, num_cols >= 1; VEC divides num_cols and all strides, every row starts at a multiple of VEC numbers
//           what a row has beyond THREADS_PER_ROW * CHUNKS chunks is read three times
// Launch    grid ceil(num_rows / ROWS_PER_BLOCK) · block THREADS_PER_ROW * ROWS_PER_BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/norm.py: layer_norm_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=128 -DROWS_PER_BLOCK=1 -DCHUNKS=4
// gate: -DELEMENT=__half -DVEC=8 -DTHREADS_PER_ROW=1024 -DROWS_PER_BLOCK=1 -DCHUNKS=4
// gate: -DELEMENT=__nv_bfloat16 -DVEC=1 -DTHREADS_PER_ROW=1024 -DROWS_PER_BLOCK=1 -DCHUNKS=8
// gate: -DELEMENT=float -DVEC=4 -DTHREADS_PER_ROW=8 -DROWS_PER_BLOCK=16 -DCHUNKS=1
// Source    J. L. Ba, J. R. Kiros, G. E. Hinton, "Layer Normalization", 2016, equation 4, arXiv:1607.06450
#include "common/row_kernel.cuh"  // ELEMENT, VEC, THREADS_PER_ROW, ROWS_PER_BLOCK, CHUNKS
#define RESIDENT_BLOCKS (1024 / NUM_THREADS)  // of a multiprocessor, by 64 registers a thread: one reads while another reduces

// region: chunk
__device__ __forceinline__ float total(const RowChunk& x) {
    float numbers[VEC], sum = 0.0f;
    as_floats(numbers, x);
#pragma unroll
    for (int j = 0; j < VEC; ++j) sum += numbers[j];
    return sum;
}

__device__ __forceinline__ float squares(const RowChunk& x, float mean) {
    float numbers[VEC], sum = 0.0f;
    as_floats(numbers, x);
#pragma unroll
    for (int j = 0; j < VEC; ++j) sum += (numbers[j] - mean) * (numbers[j] - mean);
    return sum;
}

__device__ __forceinline__ void normalise(RowChunk& x, const RowChunk& weight, const ELEMENT* bias, int chunk, float mean,
                                          float rstd) {
    float numbers[VEC], scale[VEC], offset[VEC] = {};
    if (bias != nullptr) {
        RowChunk bias_reg;
        read_chunk(bias_reg, bias, chunk);
        as_floats(offset, bias_reg);
    }
    as_floats(numbers, x);
    as_floats(scale, weight);
#pragma unroll
    for (int j = 0; j < VEC; ++j) numbers[j] = (numbers[j] - mean) * rstd * scale[j] + offset[j];
    from_floats(x, numbers);
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, RESIDENT_BLOCKS)
layer_norm_kernel(const ELEMENT* x, const ELEMENT* weight, const ELEMENT* bias, ELEMENT* out, int num_rows, int num_cols,
                  long long stride_x, long long stride_out, float eps) {
    __shared__ float mean_smem[NUM_THREADS / WARP_SIZE];    // (warps,)
    __shared__ float square_smem[NUM_THREADS / WARP_SIZE];  // (warps,): another one, so that no barrier is between the two sums
    const int first = threadIdx.x % THREADS_PER_ROW;  // this thread's first chunk
    const int row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / THREADS_PER_ROW;
    const int num_chunks = row < num_rows ? num_cols / VEC : 0;  // a row past the last has none, and joins the shuffles
    const ELEMENT* x_row = x + row * stride_x;
    ELEMENT* out_row = out + row * stride_out;

    // region: load
    RowChunk x_reg[CHUNKS], weight_reg[CHUNKS];
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {  // all reads are under way before the first number is used
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks) {
            read_chunk(x_reg[i], x_row, chunk);
            if (CHUNKS == 1) read_chunk(weight_reg[i], weight, chunk);  // few rows: latency counts, not registers
        }
    }
    // endregion

    // region: centre
    float sum[1] = {0.0f};
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        if (first + i * THREADS_PER_ROW < num_chunks) sum[0] += total(x_reg[i]);
    }
#pragma unroll 1
    for (int chunk = first + CHUNKS * THREADS_PER_ROW; chunk < num_chunks; chunk += THREADS_PER_ROW) {
        RowChunk rest;  // of a row longer than the registers
        read_chunk(rest, x_row, chunk);
        sum[0] += total(rest);
    }
    row_sums<THREADS_PER_ROW>(sum, mean_smem);
    const float mean = sum[0] / num_cols;
    // endregion

    // region: square
    float square[1] = {0.0f};
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        if (first + i * THREADS_PER_ROW < num_chunks) square[0] += squares(x_reg[i], mean);
    }
#pragma unroll 1
    for (int chunk = first + CHUNKS * THREADS_PER_ROW; chunk < num_chunks; chunk += THREADS_PER_ROW) {
        RowChunk rest;
        read_chunk(rest, x_row, chunk);
        square[0] += squares(rest, mean);
    }
    row_sums<THREADS_PER_ROW>(square, square_smem);
    const float rstd = rsqrtf(square[0] / num_cols + eps);
    // endregion

    // region: write
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks) {
            if (CHUNKS > 1) read_chunk(weight_reg[i], weight, chunk);
            normalise(x_reg[i], weight_reg[i], bias, chunk, mean, rstd);
            write_chunk(out_row, chunk, x_reg[i]);
        }
    }
#pragma unroll 1
    for (int chunk = first + CHUNKS * THREADS_PER_ROW; chunk < num_chunks; chunk += THREADS_PER_ROW) {
        RowChunk rest, rest_weight;
        read_chunk(rest, x_row, chunk);
        read_chunk(rest_weight, weight, chunk);
        normalise(rest, rest_weight, bias, chunk, mean, rstd);
        write_chunk(out_row, chunk, rest);
    }
    // endregion
}
