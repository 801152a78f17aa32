// 05_layer_norm_backward — the gradients of LayerNorm: of x at once, of weight and bias as partial sums of each block
//
// Idea      the mean is taken out first, then three sums in one reduction; the rest is as in 04
// Builds on 04_rms_norm_backward. Changed regions: chunk, sums (two reductions), keep (two kept sums).
// Contract  d_out, x, dx (num_rows, num_cols) ELEMENT, rows contiguous, each with a stride of its own; dx may be d_out
//           weight (num_cols,) ELEMENT · partial (2, blocks, num_cols) float: of the weight, then of the bias
//           g = d_out * weight, c = x - mean, rstd as in 02: dx = rstd (g - mean(g) - c rstd^2 mean(g c))
//           d_weight = sum over rows of d_out c rstd, d_bias = sum over rows of d_out
//           any num_rows, num_cols >= 1; VEC divides num_cols and all strides, every row starts at a multiple of VEC numbers
//           of what a row has beyond THREADS_PER_ROW * CHUNKS chunks, with ROWS_PER_BLOCK = 1, sums are kept in global memory
// Launch    grid any number of blocks, which share the rows in turns · block THREADS_PER_ROW * ROWS_PER_BLOCK
//           dynamic shared memory of NUM_STAGES * 2 * CHUNKS * block * VEC numbers of type ELEMENT · then 06_column_sums over the partial sums
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/norm_backward.py: layer_norm_backward_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=2 -DCHUNKS=2 -DNUM_STAGES=4
// gate: -DELEMENT=__half -DVEC=8 -DTHREADS_PER_ROW=512 -DROWS_PER_BLOCK=1 -DCHUNKS=3 -DNUM_STAGES=2
// gate: -DELEMENT=__nv_bfloat16 -DVEC=1 -DTHREADS_PER_ROW=512 -DROWS_PER_BLOCK=1 -DCHUNKS=4 -DNUM_STAGES=4
// gate: -DELEMENT=float -DVEC=4 -DTHREADS_PER_ROW=8 -DROWS_PER_BLOCK=64 -DCHUNKS=1 -DNUM_STAGES=4
// Source    J. L. Ba, J. R. Kiros, G. E. Hinton, "Layer Normalization", 2016, equation 4, arXiv:1607.06450
#include "common/dependent_launch.cuh"
#include "common/row_ring.cuh"  // ELEMENT, VEC, THREADS_PER_ROW, ROWS_PER_BLOCK, CHUNKS, NUM_STAGES
static_assert(NUM_THREADS <= 512, "THREADS_PER_ROW: a thread needs up to 128 registers, so a block has at most 512");
#define MIN_BLOCKS (512 / NUM_THREADS)  // of a multiprocessor: 512 threads with 128 registers each

// region: chunk
__device__ __forceinline__ float total(const RowChunk& x) {
    float numbers[VEC], sum = 0.0f;
    as_floats(numbers, x);
#pragma unroll
    for (int j = 0; j < VEC; ++j) sum += numbers[j];
    return sum;
}

__device__ __forceinline__ float total(const RowRing& ring, int stage, const ELEMENT* x_row, int first, int num_chunks) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        if (first + i * THREADS_PER_ROW < num_chunks) sum += total(ring.x(stage, i));
    }
#pragma unroll 1
    for (int chunk = first + CHUNKS * THREADS_PER_ROW; chunk < num_chunks; chunk += THREADS_PER_ROW) {
        RowChunk rest;  // of a row longer than the registers
        read_chunk(rest, x_row, chunk);
        sum += total(rest);
    }
    return sum;
}

// sums[0] += c^2, sums[1] += g, sums[2] += g c
__device__ __forceinline__ void add_sums(float (&sums)[3], const RowChunk& x, const RowChunk& d_out, const RowChunk& weight,
                                         float mean) {
    float numbers[VEC], gradients[VEC], scale[VEC];
    as_floats(numbers, x);
    as_floats(gradients, d_out);
    as_floats(scale, weight);
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
        const float centred = numbers[j] - mean, g = gradients[j] * scale[j];
        sums[0] += centred * centred;
        sums[1] += g;
        sums[2] += g * centred;
    }
}

// d_out becomes dx, and its shares are added to d_weight and d_bias; shift = rstd mean(g), slope = rstd^3 mean(g c).
__device__ __forceinline__ void gradient(RowChunk& d_out, float (&d_weight)[VEC], float (&d_bias)[VEC], const RowChunk& x,
                                         const RowChunk& weight, float mean, float rstd, float shift, float slope) {
    float numbers[VEC], gradients[VEC], scale[VEC];
    as_floats(numbers, x);
    as_floats(gradients, d_out);
    as_floats(scale, weight);
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
        const float centred = numbers[j] - mean;
        d_weight[j] += gradients[j] * centred * rstd;
        d_bias[j] += gradients[j];
        gradients[j] = gradients[j] * scale[j] * rstd - shift - centred * slope;
    }
    from_floats(d_out, gradients);
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, MIN_BLOCKS)
layer_norm_backward_kernel(const ELEMENT* d_out, const ELEMENT* x, const ELEMENT* weight, ELEMENT* dx, float* partial,
                           int num_rows, int num_cols, long long stride_d_out, long long stride_x, long long stride_dx,
                           float eps) {
    griddepcontrol_launch_dependents();  // 06_column_sums takes its place where there is room, and waits for the partial sums
    extern __shared__ __align__(16) unsigned char smem[];  // (NUM_STAGES, x and d_out, CHUNKS, NUM_THREADS) chunks, then sums
    __shared__ float mean_smem[NUM_THREADS / WARP_SIZE];        // (warps,)
    __shared__ float reduce_smem[3 * NUM_THREADS / WARP_SIZE];  // (sums * warps): the barrier of one guards the other's next round
    const int first = threadIdx.x % THREADS_PER_ROW, group = threadIdx.x / THREADS_PER_ROW, row_chunks = num_cols / VEC;
    const RowRing ring = {reinterpret_cast<RowChunk*>(smem) + threadIdx.x};
    float* partial_row = partial + static_cast<long long>(blockIdx.x) * num_cols;
    float* partial_bias_row = partial_row + static_cast<long long>(gridDim.x) * num_cols;
    const int step = gridDim.x * ROWS_PER_BLOCK;
    float d_weight[CHUNKS][VEC] = {}, d_bias[CHUNKS][VEC] = {};
    clear_rest(partial_row, first, num_cols);
    clear_rest(partial_bias_row, first, num_cols);
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
        ELEMENT* dx_row = dx + row * stride_dx;
        RowChunk weight_chunk;  // read twice a row: the registers hold the sums
        RowChunk rest, rest_d;  // beyond what the threads keep

        // region: load
        ring.start((round + NUM_STAGES - 1) % NUM_STAGES, x + ahead * stride_x, d_out + ahead * stride_d_out, first,
                   ahead < num_rows ? row_chunks : 0);
        ring.wait();
        // endregion

        // region: sums
        float mean_sum[1] = {total(ring, stage, x_row, first, num_chunks)}, sums[3] = {0.0f, 0.0f, 0.0f};
        row_sums<THREADS_PER_ROW>(mean_sum, mean_smem);
        const float mean = mean_sum[0] / num_cols;
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            const int chunk = first + i * THREADS_PER_ROW;
            if (chunk < num_chunks) {
                read_chunk(weight_chunk, weight, chunk);
                add_sums(sums, ring.x(stage, i), ring.y(stage, i), weight_chunk, mean);
            }
        }
#pragma unroll 1
        for (int chunk = first + CHUNKS * THREADS_PER_ROW; chunk < num_chunks; chunk += THREADS_PER_ROW) {
            read_chunk(rest, x_row, chunk);
            read_chunk(rest_d, d_out_row, chunk);
            read_chunk(weight_chunk, weight, chunk);
            add_sums(sums, rest, rest_d, weight_chunk, mean);
        }
        row_sums<THREADS_PER_ROW>(sums, reduce_smem);
        const float rstd = rsqrtf(sums[0] / num_cols + eps), shift = rstd * sums[1] / num_cols;
        const float slope = rstd * rstd * rstd * sums[2] / num_cols;
        // endregion

        // region: keep
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            const int chunk = first + i * THREADS_PER_ROW;
            if (chunk < num_chunks) {
                RowChunk d_reg = ring.y(stage, i);
                read_chunk(weight_chunk, weight, chunk);
                gradient(d_reg, d_weight[i], d_bias[i], ring.x(stage, i), weight_chunk, mean, rstd, shift, slope);
                write_chunk(dx_row, chunk, d_reg);
            }
        }
#pragma unroll 1
        for (int chunk = first + CHUNKS * THREADS_PER_ROW; chunk < num_chunks; chunk += THREADS_PER_ROW) {
            float sum[VEC], bias_sum[VEC];
            read_floats(sum, partial_row + chunk * VEC);  // this thread's own
            read_floats(bias_sum, partial_bias_row + chunk * VEC);
            read_chunk(rest, x_row, chunk);
            read_chunk(rest_d, d_out_row, chunk);
            read_chunk(weight_chunk, weight, chunk);
            gradient(rest_d, sum, bias_sum, rest, weight_chunk, mean, rstd, shift, slope);
            write_chunk(dx_row, chunk, rest_d);
            write_floats(partial_row + chunk * VEC, sum);
            write_floats(partial_bias_row + chunk * VEC, bias_sum);
        }
        // endregion
    }

    // region: store
    store_sums(partial_row, d_weight, reinterpret_cast<float*>(smem), first, group, num_cols);
    store_sums(partial_bias_row, d_bias, reinterpret_cast<float*>(smem), first, group, num_cols);
    // endregion
}
