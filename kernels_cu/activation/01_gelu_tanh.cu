// 01_gelu_tanh — the tanh form of GELU, element by element
//
// Idea      0.5 x (1 + tanh(u)) is x * sigmoid(2 u): one exponential and one division, and no overflow that is not a limit
// Contract  x, out (num_rows, num_cols) ELEMENT, rows contiguous and stride_x, stride_out apart; out may be x
//           out = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), in float, rounded once
//           any num_rows, num_cols >= 1; VEC divides num_cols and all strides, every row starts at a multiple of VEC numbers
// Launch    grid (ceil(num_rows / ROWS_PER_BLOCK), ceil(num_cols / (VEC * THREADS_PER_ROW * CHUNKS)))
//           block THREADS_PER_ROW * ROWS_PER_BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/activation.py: gelu_tanh_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=4
// gate: -DELEMENT=__half -DVEC=1 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=16
// gate: -DELEMENT=float -DVEC=4 -DTHREADS_PER_ROW=8 -DROWS_PER_BLOCK=32 -DCHUNKS=1
// Source    D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units (GELUs)", 2016, section 2, arXiv:1606.08415
#include "common/activation.cuh"
#include "common/row_kernel.cuh"  // ELEMENT, VEC, THREADS_PER_ROW, ROWS_PER_BLOCK, CHUNKS

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
gelu_tanh_kernel(const ELEMENT* x, ELEMENT* out, int num_rows, int num_cols, long long stride_x, long long stride_out) {
    const int row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / THREADS_PER_ROW;
    const int first = blockIdx.y * (THREADS_PER_ROW * CHUNKS) + threadIdx.x % THREADS_PER_ROW;  // this thread's first chunk
    const int num_chunks = num_cols / VEC;
    if (row >= num_rows) return;
    const ELEMENT* x_row = x + row * stride_x;
    ELEMENT* out_row = out + row * stride_out;

    // region: load
    RowChunk x_reg[CHUNKS];
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {  // all reads are under way before the first number is used
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks) {
            read_chunk(x_reg[i], x_row, chunk);
        }
    }
    // endregion

    // region: apply
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks) {
            float numbers[VEC];
            as_floats(numbers, x_reg[i]);
#pragma unroll
            for (int j = 0; j < VEC; ++j) numbers[j] = gelu_tanh(numbers[j]);
            from_floats(x_reg[i], numbers);
            write_chunk(out_row, chunk, x_reg[i]);
        }
    }
    // endregion
}
