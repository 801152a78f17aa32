// 04_rms_norm_backward — the gradients of RMSNorm: of x at once, of the weight as one partial sum a block
//
// Idea      blocks walk over the rows and keep the weight's gradient of their columns in registers: no atomics, one order of sums
//           while a row is summed, the next ones are on their way to shared memory
// Builds on 01_rms_norm. Changed regions: a loop over rows; two sums; keep and store are new.
// Contract  d_out, x, dx (num_rows, num_cols) ELEMENT, rows contiguous, each with a stride of its own; dx may be d_out
//           d_residual like x with the stride of dx, or null: added to dx, as the gradient that passes by the norm
//           weight (num_cols,) ELEMENT · partial (blocks, num_cols) float; every one is written
//           g = d_out * weight, rstd as in 01: dx = rstd (g - x rstd^2 mean(g x)), d_weight = sum over rows of d_out x rstd
//           any num_rows, num_cols >= 1; VEC divides num_cols and all strides, every row starts at a multiple of VEC numbers
//           of what a row has beyond THREADS_PER_ROW * CHUNKS chunks, with ROWS_PER_BLOCK = 1, sums are kept in global memory
// Launch    grid any number of blocks, which share the rows in turns · block THREADS_PER_ROW * ROWS_PER_BLOCK
//           dynamic shared memory of NUM_STAGES * 2 * CHUNKS * block * VEC numbers of type ELEMENT · then 06_column_sums over the partial sums
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/norm_backward.py: rms_norm_backward_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=2 -DCHUNKS=2 -DNUM_STAGES=4
// gate: -DELEMENT=__half -DVEC=8 -DTHREADS_PER_ROW=512 -DROWS_PER_BLOCK=1 -DCHUNKS=4 -DNUM_STAGES=2
// gate: -DELEMENT=__nv_bfloat16 -DVEC=1 -DTHREADS_PER_ROW=512 -DROWS_PER_BLOCK=1 -DCHUNKS=4 -DNUM_STAGES=4
// gate: -DELEMENT=float -DVEC=4 -DTHREADS_PER_ROW=8 -DROWS_PER_BLOCK=64 -DCHUNKS=1 -DNUM_STAGES=4
// Source    B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", 2019, section 4, arXiv:1910.07467
#include "common/dependent_launch.cuh"
#include "common/row_ring.cuh"  // ELEMENT, VEC, THREADS_PER_ROW, ROWS_PER_BLOCK, CHUNKS, NUM_STAGES
static_assert(NUM_THREADS <= 512, "THREADS_PER_ROW: a thread needs up to 128 registers, so a block has at most 512");
#define MIN_BLOCKS (512 / NUM_THREADS)  // of a multiprocessor: 512 threads with 128 registers each

// region: chunk
// sums[0] += x^2, sums[1] += g x
__device__ __forceinline__ void add_sums(float (&sums)[2], const RowChunk& x, const RowChunk& d_out, const RowChunk& weight) {
    float numbers[VEC], gradients[VEC], scale[VEC];
    as_floats(numbers, x);
    as_floats(gradients, d_out);
    as_floats(scale, weight);
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
        sums[0] += numbers[j] * numbers[j];
        sums[1] += gradients[j] * scale[j] * numbers[j];
    }
}

// d_out becomes dx, and its share of the weight's gradient is added to d_weight; slope = rstd^3 mean(g x).
__device__ __forceinline__ void gradient(RowChunk& d_out, float (&d_weight)[VEC], const RowChunk& x, const RowChunk& weight,
                                         const ELEMENT* d_residual_row, int chunk, float rstd, float slope) {
    float numbers[VEC], gradients[VEC], scale[VEC], added[VEC] = {};
    as_floats(numbers, x);
    as_floats(gradients, d_out);
    as_floats(scale, weight);
    if (d_residual_row != nullptr) {
        RowChunk d_residual;
        read_chunk(d_residual, d_residual_row, chunk);
        as_floats(added, d_residual);
    }
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
        d_weight[j] += gradients[j] * numbers[j] * rstd;
        gradients[j] = gradients[j] * scale[j] * rstd - numbers[j] * slope + added[j];
    }
    from_floats(d_out, gradients);
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, MIN_BLOCKS)
rms_norm_backward_kernel(const ELEMENT* d_out, const ELEMENT* x, const ELEMENT* weight, const ELEMENT* d_residual, ELEMENT* dx,
                         float* partial, int num_rows, int num_cols, long long stride_d_out, long long stride_x,
                         long long stride_d_residual, long long stride_dx, float eps) {
    griddepcontrol_launch_dependents();  // 06_column_sums takes its place where there is room, and waits for the partial sums
    extern __shared__ __align__(16) unsigned char smem[];  // (NUM_STAGES, x and d_out, CHUNKS, NUM_THREADS) chunks, then sums
    __shared__ float reduce_smem[2][2 * NUM_THREADS / WARP_SIZE];  // (rounds, sums * warps): two rounds, so one barrier a round
    const int first = threadIdx.x % THREADS_PER_ROW, group = threadIdx.x / THREADS_PER_ROW, row_chunks = num_cols / VEC;
    const RowRing ring = {reinterpret_cast<RowChunk*>(smem) + threadIdx.x};
    float* partial_row = partial + static_cast<long long>(blockIdx.x) * num_cols;
    const int step = gridDim.x * ROWS_PER_BLOCK;
    float d_weight[CHUNKS][VEC] = {};
    RowChunk weight_reg[CHUNKS];
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        if (first + i * THREADS_PER_ROW < row_chunks) read_chunk(weight_reg[i], weight, first + i * THREADS_PER_ROW);
    }
    clear_rest(partial_row, first, num_cols);
    long long ahead = static_cast<long long>(blockIdx.x) * ROWS_PER_BLOCK + group;  // the row whose copies start next
    for (int s = 0; s < NUM_STAGES - 1; ++s, ahead += step) {
        ring.start(s, x + ahead * stride_x, d_out + ahead * stride_d_out, first, ahead < num_rows ? row_chunks : 0);
    }

    for (int base = blockIdx.x * ROWS_PER_BLOCK, round = 0; base < num_rows; base += step, ++round, ahead += step) {
        const long long row = base + group;
        const int num_chunks = row < num_rows ? row_chunks : 0;  // a row past the last has none, and joins the shuffles
        const int stage = round % NUM_STAGES;
        const ELEMENT* x_row = x + row * stride_x;
        const ELEMENT* d_out_row = d_out + row * stride_d_out;
        const ELEMENT* d_residual_row = d_residual == nullptr ? nullptr : d_residual + row * stride_d_residual;
        ELEMENT* dx_row = dx + row * stride_dx;
        RowChunk rest, rest_d, rest_weight;  // beyond what the threads keep

        // region: load
        ring.start((round + NUM_STAGES - 1) % NUM_STAGES, x + ahead * stride_x, d_out + ahead * stride_d_out, first,
                   ahead < num_rows ? row_chunks : 0);
        ring.wait();
        // endregion

        // region: sums
        float sums[2] = {0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            if (first + i * THREADS_PER_ROW < num_chunks) add_sums(sums, ring.x(stage, i), ring.y(stage, i), weight_reg[i]);
        }
#pragma unroll 1
        for (int chunk = first + CHUNKS * THREADS_PER_ROW; chunk < num_chunks; chunk += THREADS_PER_ROW) {
            read_chunk(rest, x_row, chunk);
            read_chunk(rest_d, d_out_row, chunk);
            read_chunk(rest_weight, weight, chunk);
            add_sums(sums, rest, rest_d, rest_weight);
        }
        row_sums<THREADS_PER_ROW>(sums, reduce_smem[round % 2]);
        const float rstd = rsqrtf(sums[0] / num_cols + eps), slope = rstd * rstd * rstd * sums[1] / num_cols;
        // endregion

        // region: keep
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            const int chunk = first + i * THREADS_PER_ROW;
            if (chunk < num_chunks) {
                RowChunk d_reg = ring.y(stage, i);
                gradient(d_reg, d_weight[i], ring.x(stage, i), weight_reg[i], d_residual_row, chunk, rstd, slope);
                write_chunk(dx_row, chunk, d_reg);
            }
        }
#pragma unroll 1
        for (int chunk = first + CHUNKS * THREADS_PER_ROW; chunk < num_chunks; chunk += THREADS_PER_ROW) {
            float sum[VEC];
            read_floats(sum, partial_row + chunk * VEC);  // this thread's own
            read_chunk(rest, x_row, chunk);
            read_chunk(rest_d, d_out_row, chunk);
            read_chunk(rest_weight, weight, chunk);
            gradient(rest_d, sum, rest, rest_weight, d_residual_row, chunk, rstd, slope);
            write_chunk(dx_row, chunk, rest_d);
            write_floats(partial_row + chunk * VEC, sum);
        }
        // endregion
    }

    // region: store
    store_sums(partial_row, d_weight, reinterpret_cast<float*>(smem), first, group, num_cols);
    // endregion
}
