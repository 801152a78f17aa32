// 01_online — cross-entropy of every row of logits in one pass over the vocabulary: loss and log-sum-exp, no probabilities
//
// Idea      online softmax again: each thread keeps (m, l) of what it has seen, a row of 128,000 logits is read once
// Contract  logits (num_rows, num_cols) ELEMENT, rows contiguous and stride_logits apart; -inf is a masked logit
//           targets (num_rows,) int64: 0 .. num_cols - 1, or ignore_index; another number gives a loss of NaN
//           loss, lse (num_rows,) float: loss = (1 - smoothing) (lse - logit of the target) + smoothing (lse - mean of the logits)
//           lse natural log · an ignored row is not read: loss 0, lse 0
//           any num_rows, num_cols >= 1; VEC divides num_cols and the stride, every row starts at a multiple of VEC numbers
// Launch    grid ceil(num_rows / ROWS_PER_BLOCK) · block THREADS_PER_ROW * ROWS_PER_BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/cross_entropy.py: cross_entropy_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=4
// gate: -DELEMENT=__half -DVEC=1 -DTHREADS_PER_ROW=1024 -DROWS_PER_BLOCK=1 -DCHUNKS=16
// gate: -DELEMENT=float -DVEC=4 -DTHREADS_PER_ROW=8 -DROWS_PER_BLOCK=16 -DCHUNKS=1
// Source    M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3, arXiv:1805.02867
//           C. Szegedy and others, "Rethinking the Inception Architecture", 2015, section 7 (label smoothing), arXiv:1512.00567
#include "common/fast_exp2.cuh"
#include "common/row_kernel.cuh"  // ELEMENT, VEC, THREADS_PER_ROW, ROWS_PER_BLOCK, CHUNKS
#define LANES (THREADS_PER_ROW < WARP_SIZE ? THREADS_PER_ROW : WARP_SIZE)
#define WARPS (THREADS_PER_ROW / LANES)  // of a row

// State of a part of a row: maximum, sum of exp(x - m), sum of x.
struct State {
    float m, l, sum;
};

// region: merge
// The states of WIDTH neighbouring lanes as one, for all of them; all 32 lanes take part.
template <int WIDTH>
__device__ __forceinline__ void merge_lanes(State& state) {
    float m = state.m;
#pragma unroll
    for (int offset = WIDTH / 2; offset > 0; offset /= 2) m = fmaxf(m, __shfl_xor_sync(ALL_LANES, m, offset));
    const float shift = m == NEG_INF ? 0.0f : m;  // no logit yet: exp(-inf - 0) is 0, and -inf - -inf would be NaN
    state.l *= fast_exp2((state.m - shift) * LOG2_E);
    state.m = m;
#pragma unroll
    for (int offset = WIDTH / 2; offset > 0; offset /= 2) {
        state.l += __shfl_xor_sync(ALL_LANES, state.l, offset);
        state.sum += __shfl_xor_sync(ALL_LANES, state.sum, offset);
    }
}
// endregion

// region: update
// One maximum for all chunks of a step, so that l is rescaled once a step and not once a logit. The chunks stay packed, and
// are made floats twice: that costs fewer registers than the floats would.
__device__ __forceinline__ void update(State& state, const RowChunk (&chunks)[CHUNKS], int num_valid, bool smooth) {
    float m = state.m, x[VEC];
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        if (i < num_valid) {
            as_floats(x, chunks[i]);
#pragma unroll
            for (int j = 0; j < VEC; ++j) m = fmaxf(m, x[j]);
        }
    }
    const float shift_log2 = (m == NEG_INF ? 0.0f : m) * LOG2_E;
    state.l *= fast_exp2(state.m * LOG2_E - shift_log2);
    state.m = m;
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        if (i < num_valid) {
            as_floats(x, chunks[i]);
#pragma unroll
            for (int j = 0; j < VEC; ++j) {
                state.l += fast_exp2(x[j] * LOG2_E - shift_log2);
                if (smooth) state.sum += x[j];
            }
        }
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
cross_entropy_kernel(const ELEMENT* logits, const long long* targets, float* loss, float* lse, int num_rows, int num_cols,
                     long long stride_logits, long long ignore_index, float smoothing) {
    __shared__ float m_smem[NUM_THREADS / WARP_SIZE], l_smem[NUM_THREADS / WARP_SIZE], sum_smem[NUM_THREADS / WARP_SIZE];
    const int first = threadIdx.x % THREADS_PER_ROW;  // this thread's first chunk
    const int row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / THREADS_PER_ROW;
    const long long target = row < num_rows ? targets[row] : ignore_index;
    const int num_chunks = target == ignore_index ? 0 : num_cols / VEC;
    const ELEMENT* logits_row = logits + row * stride_logits;

    // region: read
    State state = {NEG_INF, 0.0f, 0.0f};
    for (int base = first; base < num_chunks; base += THREADS_PER_ROW * CHUNKS) {
        RowChunk chunks[CHUNKS];
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {  // all reads of a step are under way before the first is used
            if (base + i * THREADS_PER_ROW < num_chunks) read_chunk(chunks[i], logits_row, base + i * THREADS_PER_ROW);
        }
        const int num_valid = min(CHUNKS, CEIL_DIV(num_chunks - base, THREADS_PER_ROW));  // all but in the last step
        update(state, chunks, num_valid, smoothing > 0.0f);
    }
    // endregion

    // region: merge_row
    merge_lanes<LANES>(state);
    if (WARPS > 1) {
        const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE, first_warp = warp / WARPS * WARPS;
        if (lane == 0) m_smem[warp] = state.m, l_smem[warp] = state.l, sum_smem[warp] = state.sum;
        __syncthreads();  // separates the warps' writes of their states from the reads of all of them
        const bool mask = lane < WARPS;
        state.m = mask ? m_smem[first_warp + lane] : NEG_INF;
        state.l = mask ? l_smem[first_warp + lane] : 0.0f;
        state.sum = mask ? sum_smem[first_warp + lane] : 0.0f;
        merge_lanes<WARP_SIZE>(state);
    }
    // endregion

    // region: write
    if (first == 0 && row < num_rows) {
        float row_lse = 0.0f, row_loss = 0.0f;
        if (target != ignore_index) {
            row_lse = state.m + logf(state.l);
            float logit[1] = {__int_as_float(0x7fffffff)};  // NaN: no such class
            if (target >= 0 && target < num_cols) {
                Chunk<ELEMENT, 1> chunk;
                read_chunk(chunk, logits_row + target, 0);
                as_floats(logit, chunk);
            }
            row_loss = row_lse - logit[0];
            if (smoothing > 0.0f) row_loss = (1.0f - smoothing) * row_loss + smoothing * (row_lse - state.sum / num_cols);
        }
        loss[row] = row_loss;
        lse[row] = row_lse;
    }
    // endregion
}
