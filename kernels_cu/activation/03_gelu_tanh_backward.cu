// 03_gelu_tanh_backward — the gradient of 01_gelu_tanh, from its input
//
// Idea      the slope is made again from x: the forward pass keeps nothing but what it was given
// Builds on 01_gelu_tanh. Changed regions: load has two tensors, apply the slope.
// Contract  d_out, x, dx (num_rows, num_cols) ELEMENT, rows contiguous, each with a stride of its own; dx may be d_out or x
//           dx = d_out * slope of gelu_tanh at x, in float, rounded once
//           any num_rows, num_cols >= 1; VEC divides num_cols and all strides, every row starts at a multiple of VEC numbers
// Launch    grid (ceil(num_rows / ROWS_PER_BLOCK), ceil(num_cols / (VEC * THREADS_PER_ROW * CHUNKS)))
//           block THREADS_PER_ROW * ROWS_PER_BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/activation.py: gelu_tanh_backward_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=2
// gate: -DELEMENT=__half -DVEC=1 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=8
// gate: -DELEMENT=float -DVEC=4 -DTHREADS_PER_ROW=8 -DROWS_PER_BLOCK=32 -DCHUNKS=1
// Source    D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units (GELUs)", 2016, section 2, arXiv:1606.08415
#include "common/activation.cuh"
#include "common/row_kernel.cuh"  // ELEMENT, VEC, THREADS_PER_ROW, ROWS_PER_BLOCK, CHUNKS

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
gelu_tanh_backward_kernel(const ELEMENT* d_out, const ELEMENT* x, ELEMENT* dx, int num_rows, int num_cols,
                          long long stride_d_out, long long stride_x, long long stride_dx) {
    const int row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / THREADS_PER_ROW;
    const int first = blockIdx.y * (THREADS_PER_ROW * CHUNKS) + threadIdx.x % THREADS_PER_ROW;  // this thread's first chunk
    const int num_chunks = num_cols / VEC;
    if (row >= num_rows) return;
    const ELEMENT* d_out_row = d_out + row * stride_d_out;
    const ELEMENT* x_row = x + row * stride_x;
    ELEMENT* dx_row = dx + row * stride_dx;

    // region: load
    RowChunk d_reg[CHUNKS], x_reg[CHUNKS];
    read_rows(d_reg, x_reg, d_out_row, x_row, first, num_chunks);  // all reads are under way before the first number is used
    // endregion

    // region: apply
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks) {
            float gradients[VEC], numbers[VEC];
            as_floats(gradients, d_reg[i]);
            as_floats(numbers, x_reg[i]);
#pragma unroll
            for (int j = 0; j < VEC; ++j) gradients[j] *= gelu_tanh_slope(numbers[j]);
            from_floats(d_reg[i], gradients);
            write_chunk(dx_row, chunk, d_reg[i]);
        }
    }
    // endregion
}
