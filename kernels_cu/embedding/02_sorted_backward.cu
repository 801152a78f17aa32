// 02_sorted_backward — the gradient of the table: sums of the rows of d_out that belong to one id, sorted by id
//
// Idea      sorted, the tokens of a row are neighbours: no atomics, one order of sums, one write a row; a row of many tokens is
//           cut at every multiple of PIECE places, so that no group of threads has more than PIECE tokens, and joined afterwards
// Builds on 01_lookup.
// Contract  sorted_ids (num_tokens,) int64, ascending · order (num_tokens,) int64: token of each place, ascending within an id
//           ends (num_tokens,) int64: for each place, where the places of its id end
//           d_out (num_tokens, num_cols) ELEMENT, rows stride_d_out apart · d_table (num_ids, num_cols), rows stride_d_table apart
//           partial (2 ceil(num_tokens / PIECE), num_cols) float: of each PIECE places, the sum of the tokens at its start that
//           continue an id, and of those at its end whose id goes on · rows that no id names keep their value · accumulate 1: added to what d_table holds, 0: written over it
//           a number that names no row is left out · any num_cols >= 1; VEC divides num_cols and all strides
// Launch    grid (ceil(num_tokens / ROWS_PER_BLOCK), ceil(num_cols / (VEC * THREADS_PER_ROW * CHUNKS)))
//           block THREADS_PER_ROW * ROWS_PER_BLOCK · no dynamic shared memory
//           then join_pieces_kernel, with ceil(num_tokens / PIECE) in place of num_tokens in the grid
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/embedding.py: sorted_backward_kernel, join_pieces_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=128 -DROWS_PER_BLOCK=1 -DCHUNKS=1
// gate: -DELEMENT=__half -DVEC=1 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=1
// gate: -DELEMENT=float -DVEC=4 -DTHREADS_PER_ROW=8 -DROWS_PER_BLOCK=32 -DCHUNKS=1
// Source    A. Vaswani and others, "Attention Is All You Need", 2017, section 3.4, arXiv:1706.03762
#include "common/row_kernel.cuh"  // ELEMENT, VEC, THREADS_PER_ROW, ROWS_PER_BLOCK, CHUNKS
static_assert(CHUNKS == 1, "CHUNKS: a thread sums one chunk of many tokens");
#define TOKENS 4  // whose rows are under way at once
#ifndef PIECE
#define PIECE 64  // places whose tokens one group of threads sums
#endif

// region: add
__device__ __forceinline__ void add(float (&sum)[VEC], const RowChunk& x) {
    float numbers[VEC];
    as_floats(numbers, x);
#pragma unroll
    for (int j = 0; j < VEC; ++j) sum[j] += numbers[j];
}

// sum, added to what the row holds if `accumulate`, as the row's chunk.
__device__ __forceinline__ void finish(ELEMENT* row, int chunk, float (&sum)[VEC], int accumulate) {
    RowChunk total;
    if (accumulate) {
        read_chunk(total, row, chunk);
        add(sum, total);
    }
    from_floats(total, sum);
    write_chunk(row, chunk, total);
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
sorted_backward_kernel(const long long* sorted_ids, const long long* order, const long long* ends, const ELEMENT* d_out,
                       ELEMENT* d_table, float* partial, int num_tokens, int num_cols, long long num_ids, long long stride_d_out,
                       long long stride_d_table, int accumulate) {
    const int place = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / THREADS_PER_ROW;
    const int chunk = blockIdx.y * THREADS_PER_ROW + threadIdx.x % THREADS_PER_ROW;
    if (place >= num_tokens || chunk >= num_cols / VEC) return;

    // region: first_of_a_piece
    const long long id = sorted_ids[place];
    const bool first = place == 0 || sorted_ids[place - 1] != id;
    if (id < 0 || id >= num_ids || (!first && place % PIECE != 0)) return;
    const int piece = place / PIECE, end = static_cast<int>(ends[place]), stop = min(end, (piece + 1) * PIECE);
    // endregion

    // region: sum
    float sum[VEC] = {};
    for (int start = place; start < stop; start += TOKENS) {
        RowChunk d_reg[TOKENS];
#pragma unroll
        for (int i = 0; i < TOKENS; ++i) {  // all reads are under way before the first number is used
            if (start + i < stop) read_chunk(d_reg[i], d_out + order[start + i] * stride_d_out, chunk);
        }
#pragma unroll
        for (int i = 0; i < TOKENS; ++i) {
            if (start + i < stop) add(sum, d_reg[i]);
        }
    }
    if (first && stop == end) {
        finish(d_table + id * stride_d_table, chunk, sum, accumulate);
    } else {
        write_floats(partial + (2LL * piece + first) * num_cols + chunk * VEC, sum);
    }
    // endregion
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
join_pieces_kernel(const long long* sorted_ids, const long long* ends, const float* partial, ELEMENT* d_table, int num_tokens,
                   int num_cols, long long num_ids, long long stride_d_table, int accumulate) {
    const int piece = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / THREADS_PER_ROW;
    const int chunk = blockIdx.y * THREADS_PER_ROW + threadIdx.x % THREADS_PER_ROW;
    const int last = piece * PIECE + PIECE - 1;  // place
    if (last >= num_tokens || chunk >= num_cols / VEC) return;

    // region: goes_on
    const long long id = sorted_ids[last];
    const int end = static_cast<int>(ends[last]);
    const bool begins_here = piece == 0 || sorted_ids[piece * PIECE - 1] != id;
    if (id < 0 || id >= num_ids || end == last + 1 || !begins_here) return;
    // endregion

    // region: join
    float sum[VEC], numbers[VEC];
    read_floats(sum, partial + (2LL * piece + 1) * num_cols + chunk * VEC);
    for (int next = piece + 1; next * PIECE < end; ++next) {
        read_floats(numbers, partial + 2LL * next * num_cols + chunk * VEC);
#pragma unroll
        for (int j = 0; j < VEC; ++j) sum[j] += numbers[j];
    }
    finish(d_table + id * stride_d_table, chunk, sum, accumulate);
    // endregion
}
