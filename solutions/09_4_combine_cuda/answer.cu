// 02_combine — the partial results of the splits of a row, combined: one block a row
//
// Idea      the first warp turns the log-sum-exps of the splits into weights that add up to 1 and leaves them in shared memory;
//           after one barrier every thread sums its columns with them
// Builds on 01_split, whose outputs it reads.
// Contract  partial_out (num_splits, num_rows, 128), partial_lse (num_splits, num_rows) float, contiguous, natural log
//           out (num_rows, 128), lse (num_rows,) float, natural log · num_splits >= 1
//           an empty split: partial_lse -inf, its partial_out undefined, NaN included · a row of empty splits: out 0, lse -inf
//           no Triton twin: in Triton the weights of all splits are one vector, without an explicit barrier
// Launch    grid num_rows · block 64 · dynamic shared memory = num_splits * 4 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Source    T. Dao, D. Haziza, F. Massa, G. Sizov, "Flash-Decoding for long-context inference", 2023,
//           pytorch.org/blog/flash-decoding
#include "common/softmax_state.cuh"  // NEG_INF, WARP_SIZE, exp_shifted(score, m)
#include "common/warp_reduce.cuh"    // warp_max, warp_sum
#define HEAD_DIM 128
#define NUM_THREADS 64  // two warps; a thread has two columns

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
combine_kernel(const float* partial_out, const float* partial_lse, float* out, float* lse, int num_splits, int num_rows) {
    extern __shared__ float weight_smem[];  // (num_splits,)
    const size_t row = blockIdx.x;
    // BEGIN SOLUTION
    if (threadIdx.x < WARP_SIZE) {  // the first warp, all of it
        float m = NEG_INF, l = 0.0f;
        for (int s = threadIdx.x; s < num_splits; s += WARP_SIZE) m = fmaxf(m, partial_lse[s * (size_t)num_rows + row]);
        m = warp_max(m);
        for (int s = threadIdx.x; s < num_splits; s += WARP_SIZE) {
            const float weight = exp_shifted(partial_lse[s * (size_t)num_rows + row], m);
            weight_smem[s] = weight;
            l += weight;
        }
        l = warp_sum(l);
        for (int s = threadIdx.x; s < num_splits; s += WARP_SIZE) weight_smem[s] /= l > 0.0f ? l : 1.0f;
        if (threadIdx.x == 0) lse[row] = m + logf(l);  // without a key: -inf
    }
    __syncthreads();  // separates the first warp's writes of the weights from all reads
    for (int d = threadIdx.x; d < HEAD_DIM; d += NUM_THREADS) {
        float acc = 0.0f;
        for (int s = 0; s < num_splits; ++s) {
            const float weight = weight_smem[s];
            if (weight > 0.0f) acc += weight * partial_out[(s * (size_t)num_rows + row) * HEAD_DIM + d];  // 0 * NaN is NaN
        }
        out[row * HEAD_DIM + d] = acc;
    }
    // END SOLUTION
}
