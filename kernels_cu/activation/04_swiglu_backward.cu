// 04_swiglu_backward — the gradients of gate and up, from both inputs: three reads and two writes
//
// Idea      one visit gives both gradients, since each needs the other input
// Builds on 02_swiglu, 03_gelu_tanh_backward. Changed regions: load has three tensors, apply both gradients.
// Contract  d_out, gate, up, d_gate, d_up (num_rows, num_cols) ELEMENT, rows contiguous, each with a stride of its own
//           d_gate may be gate, d_up may be up · d_gate = d_out * up * slope of GATE at gate, d_up = d_out * GATE(gate)
//           any num_rows, num_cols >= 1; VEC divides num_cols and all strides, every row starts at a multiple of VEC numbers
// Launch    grid (ceil(num_rows / ROWS_PER_BLOCK), ceil(num_cols / (VEC * THREADS_PER_ROW * CHUNKS)))
//           block THREADS_PER_ROW * ROWS_PER_BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/activation.py: swiglu_backward_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=2 -DGATE=silu
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=2 -DGATE=gelu_tanh
// gate: -DELEMENT=__half -DVEC=1 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=8 -DGATE=silu
// gate: -DELEMENT=float -DVEC=4 -DTHREADS_PER_ROW=8 -DROWS_PER_BLOCK=32 -DCHUNKS=1 -DGATE=silu
// Source    N. Shazeer, "GLU Variants Improve Transformer", 2020, equation 5, arXiv:2002.05202
#ifndef GATE
#error "GATE: the function of the gate, -DGATE=silu or -DGATE=gelu_tanh"
#endif
#define JOINED(a, b) a##b
#define NAMED(a, b) JOINED(a, b)
#define GATE_SLOPE NAMED(GATE, _slope)  // silu_slope or gelu_tanh_slope
#include "common/activation.cuh"
#include "common/row_kernel.cuh"  // ELEMENT, VEC, THREADS_PER_ROW, ROWS_PER_BLOCK, CHUNKS

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
swiglu_backward_kernel(const ELEMENT* d_out, const ELEMENT* gate, const ELEMENT* up, ELEMENT* d_gate, ELEMENT* d_up,
                       int num_rows, int num_cols, long long stride_d_out, long long stride_gate, long long stride_up,
                       long long stride_d_gate, long long stride_d_up) {
    const int row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / THREADS_PER_ROW;
    const int first = blockIdx.y * (THREADS_PER_ROW * CHUNKS) + threadIdx.x % THREADS_PER_ROW;  // this thread's first chunk
    const int num_chunks = num_cols / VEC;
    if (row >= num_rows) return;
    const ELEMENT* d_out_row = d_out + row * stride_d_out;
    const ELEMENT* gate_row = gate + row * stride_gate;
    const ELEMENT* up_row = up + row * stride_up;
    ELEMENT* d_gate_row = d_gate + row * stride_d_gate;
    ELEMENT* d_up_row = d_up + row * stride_d_up;

    // region: load
    RowChunk d_reg[CHUNKS], gate_reg[CHUNKS], up_reg[CHUNKS];
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {  // all reads are under way before the first number is used
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks) {
            read_chunk(d_reg[i], d_out_row, chunk);
            read_chunk(gate_reg[i], gate_row, chunk);
            read_chunk(up_reg[i], up_row, chunk);
        }
    }
    // endregion

    // region: apply
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks) {
            float gradients[VEC], numbers[VEC], factors[VEC];
            as_floats(gradients, d_reg[i]);
            as_floats(numbers, gate_reg[i]);
            as_floats(factors, up_reg[i]);
#pragma unroll
            for (int j = 0; j < VEC; ++j) {
                factors[j] *= gradients[j] * GATE_SLOPE(numbers[j]);
                gradients[j] *= GATE(numbers[j]);
            }
            from_floats(gate_reg[i], factors);
            from_floats(up_reg[i], gradients);
            write_chunk(d_gate_row, chunk, gate_reg[i]);
            write_chunk(d_up_row, chunk, up_reg[i]);
        }
    }
    // endregion
}
