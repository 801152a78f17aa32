// 01_rms_norm — RMSNorm of every row: read once, kept in registers, written once
//
// Idea      a group of threads shares a row, each keeps CHUNKS chunks of 16 bytes of it: after the sum nothing is read again
// Contract  x, out (num_rows, num_cols) ELEMENT, rows contiguous and stride_x, stride_out apart; out may be x
//           weight (num_cols,) ELEMENT · out = x / sqrt(mean(x^2) + eps) * weight, in float, rounded once
//           any num_rows, num_cols >= 1; VEC divides num_cols and all strides, every row starts at a multiple of VEC numbers
//           what a row has beyond THREADS_PER_ROW * CHUNKS chunks is read twice
// Launch    grid ceil(num_rows / ROWS_PER_BLOCK) · block THREADS_PER_ROW * ROWS_PER_BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/norm.py: rms_norm_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=128 -DROWS_PER_BLOCK=1 -DCHUNKS=4
// gate: -DELEMENT=__half -DVEC=8 -DTHREADS_PER_ROW=1024 -DROWS_PER_BLOCK=1 -DCHUNKS=4
// gate: -DELEMENT=__nv_bfloat16 -DVEC=1 -DTHREADS_PER_ROW=1024 -DROWS_PER_BLOCK=1 -DCHUNKS=8
// gate: -DELEMENT=float -DVEC=4 -DTHREADS_PER_ROW=8 -DROWS_PER_BLOCK=16 -DCHUNKS=1
// Source    B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", 2019, equation 4, arXiv:1910.07467
#include "common/rms_row.cuh"     // squares, normalise
#include "common/row_kernel.cuh"  // ELEMENT, VEC, THREADS_PER_ROW, ROWS_PER_BLOCK, CHUNKS

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
rms_norm_kernel(const ELEMENT* x, const ELEMENT* weight, ELEMENT* out, int num_rows, int num_cols, long long stride_x,
                long long stride_out, float eps) {
    __shared__ float reduce_smem[NUM_THREADS / WARP_SIZE];  // (warps,)
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

    // region: square
    float sum[1] = {0.0f};
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        if (first + i * THREADS_PER_ROW < num_chunks) sum[0] += squares(x_reg[i]);
    }
#pragma unroll 1
    for (int chunk = first + CHUNKS * THREADS_PER_ROW; chunk < num_chunks; chunk += THREADS_PER_ROW) {
        RowChunk rest;  // of a row longer than the registers
        read_chunk(rest, x_row, chunk);
        sum[0] += squares(rest);
    }
    row_sums<THREADS_PER_ROW>(sum, reduce_smem);
    const float rstd = rsqrtf(sum[0] / num_cols + eps);
    // endregion

    // region: write
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks) {
            if (CHUNKS > 1) read_chunk(weight_reg[i], weight, chunk);
            normalise(x_reg[i], weight_reg[i], rstd);
            write_chunk(out_row, chunk, x_reg[i]);
        }
    }
#pragma unroll 1
    for (int chunk = first + CHUNKS * THREADS_PER_ROW; chunk < num_chunks; chunk += THREADS_PER_ROW) {
        RowChunk rest, rest_weight;
        read_chunk(rest, x_row, chunk);
        read_chunk(rest_weight, weight, chunk);
        normalise(rest, rest_weight, rstd);
        write_chunk(out_row, chunk, rest);
    }
    // endregion
}
