// 02_swiglu — gate and up to silu(gate) * up in one launch: two reads and one write
//
// Idea      the product is taken while silu(gate) is in registers; alone it would be written and read again
// Builds on 01_gelu_tanh. Changed regions: load has two tensors, apply the product.
// Contract  gate, up, out (num_rows, num_cols) ELEMENT, rows contiguous, each with a stride of its own: gate and up may be the
//           halves of one tensor, out may be either · out = GATE(gate) * up, in float, rounded once
//           any num_rows, num_cols >= 1; VEC divides num_cols and all strides, every row starts at a multiple of VEC numbers
// Launch    grid (ceil(num_rows / ROWS_PER_BLOCK), ceil(num_cols / (VEC * THREADS_PER_ROW * CHUNKS)))
//           block THREADS_PER_ROW * ROWS_PER_BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/activation.py: swiglu_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=2 -DGATE=silu
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=2 -DGATE=gelu_tanh
// gate: -DELEMENT=__half -DVEC=1 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=8 -DGATE=silu
// gate: -DELEMENT=float -DVEC=4 -DTHREADS_PER_ROW=8 -DROWS_PER_BLOCK=32 -DCHUNKS=1 -DGATE=silu
// Source    N. Shazeer, "GLU Variants Improve Transformer", 2020, equation 5, arXiv:2002.05202
#ifndef GATE
#error "GATE: the function of the gate, -DGATE=silu or -DGATE=gelu_tanh"
#endif
#include "common/activation.cuh"
#include "common/row_kernel.cuh"  // ELEMENT, VEC, THREADS_PER_ROW, ROWS_PER_BLOCK, CHUNKS

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
swiglu_kernel(const ELEMENT* gate, const ELEMENT* up, ELEMENT* out, int num_rows, int num_cols, long long stride_gate,
              long long stride_up, long long stride_out) {
    const int row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / THREADS_PER_ROW;
    const int first = blockIdx.y * (THREADS_PER_ROW * CHUNKS) + threadIdx.x % THREADS_PER_ROW;  // this thread's first chunk
    const int num_chunks = num_cols / VEC;
    if (row >= num_rows) return;
    const ELEMENT* gate_row = gate + row * stride_gate;
    const ELEMENT* up_row = up + row * stride_up;
    ELEMENT* out_row = out + row * stride_out;

    // region: load
    RowChunk gate_reg[CHUNKS], up_reg[CHUNKS];
    read_rows(gate_reg, up_reg, gate_row, up_row, first, num_chunks);  // all reads are under way before the first number is used
    // endregion

    // region: apply
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks) {
            float numbers[VEC], factors[VEC];
            as_floats(numbers, gate_reg[i]);
            as_floats(factors, up_reg[i]);
#pragma unroll
            for (int j = 0; j < VEC; ++j) numbers[j] = GATE(numbers[j]) * factors[j];
            from_floats(gate_reg[i], numbers);
            write_chunk(out_row, chunk, gate_reg[i]);
        }
    }
    // endregion
}
