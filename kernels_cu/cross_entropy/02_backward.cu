// 02_backward — the gradient of the logits from the log-sum-exp, in place of the logits: one read and one write
//
// Idea      exp(x - lse) is the probability: with lse kept, no maximum and no sum is needed, and each logit is visited alone
// Builds on 01_online.
// Contract  logits, d_logits (num_rows, num_cols) ELEMENT, rows contiguous, each with a stride of its own; d_logits may be logits
//           targets (num_rows,) int64 · lse (num_rows,) float, natural log · d_loss float, stride_d_loss apart: 0 for one number
//           d_logits = (exp(x - lse) - smoothing / num_cols - (1 - smoothing) [col == target]) * d_loss, rounded once
//           an ignored row is not read: its gradient is 0
//           any num_rows, num_cols >= 1; VEC divides num_cols and all strides, every row starts at a multiple of VEC numbers
// Launch    grid (ceil(num_rows / ROWS_PER_BLOCK), ceil(num_cols / (VEC * THREADS_PER_ROW * CHUNKS)))
//           block THREADS_PER_ROW * ROWS_PER_BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/cross_entropy.py: cross_entropy_backward_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=4
// gate: -DELEMENT=__half -DVEC=1 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=16
// gate: -DELEMENT=float -DVEC=4 -DTHREADS_PER_ROW=8 -DROWS_PER_BLOCK=32 -DCHUNKS=1
// Source    C. Szegedy and others, "Rethinking the Inception Architecture", 2015, section 7, arXiv:1512.00567
#include "common/fast_exp2.cuh"
#include "common/row_kernel.cuh"  // ELEMENT, VEC, THREADS_PER_ROW, ROWS_PER_BLOCK, CHUNKS

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
cross_entropy_backward_kernel(const ELEMENT* logits, const long long* targets, const float* lse, const float* d_loss,
                              ELEMENT* d_logits, int num_rows, int num_cols, long long stride_logits, long long stride_d_loss,
                              long long stride_d_logits, long long ignore_index, float smoothing) {
    const int row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / THREADS_PER_ROW;
    const int first = blockIdx.y * (THREADS_PER_ROW * CHUNKS) + threadIdx.x % THREADS_PER_ROW;  // this thread's first chunk
    const int num_chunks = num_cols / VEC;
    if (row >= num_rows) return;
    const ELEMENT* logits_row = logits + row * stride_logits;
    ELEMENT* d_logits_row = d_logits + row * stride_d_logits;
    const long long target = targets[row];
    const bool ignored = target == ignore_index;

    // region: load
    RowChunk x_reg[CHUNKS];
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {  // all reads are under way before the first number is used
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks && !ignored) read_chunk(x_reg[i], logits_row, chunk);
    }
    const float lse_log2 = lse[row] * LOG2_E, scale = d_loss[row * stride_d_loss];
    const float every = smoothing / num_cols, one = 1.0f - smoothing;
    // endregion

    // region: gradient
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks) {
            float numbers[VEC] = {};
            if (!ignored) {
                as_floats(numbers, x_reg[i]);
#pragma unroll
                for (int j = 0; j < VEC; ++j) {
                    const float p = fast_exp2(numbers[j] * LOG2_E - lse_log2);
                    numbers[j] = (p - every - (chunk * VEC + j == target ? one : 0.0f)) * scale;
                }
            }
            from_floats(x_reg[i], numbers);
            write_chunk(d_logits_row, chunk, x_reg[i]);
        }
    }
    // endregion
}
