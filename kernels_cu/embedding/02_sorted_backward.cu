// 02_sorted_backward — the gradient of the table: the rows of d_out that belong to one id, summed by one group of threads
//
// Idea      sorted by id, the tokens of a row are neighbours: no atomics, the sum in float32 has one order, one write a row
// Builds on 01_lookup.
// Contract  sorted_ids (num_tokens,) int64, ascending · order (num_tokens,) int64: token of each place, ascending within an id
//           ends (num_tokens,) int64: for each place, where the places of its id end
//           d_out (num_tokens, num_cols) ELEMENT, rows stride_d_out apart · d_table (num_ids, num_cols), rows stride_d_table apart
//           rows that no id names keep their value · accumulate 1: added to what d_table holds, 0: written over it
//           a number that names no row is left out · any num_cols >= 1; VEC divides num_cols and all strides
// Launch    grid (ceil(num_tokens / ROWS_PER_BLOCK), ceil(num_cols / (VEC * THREADS_PER_ROW * CHUNKS)))
//           block THREADS_PER_ROW * ROWS_PER_BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/embedding.py: sorted_backward_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=128 -DROWS_PER_BLOCK=1 -DCHUNKS=1
// gate: -DELEMENT=__half -DVEC=1 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=1
// gate: -DELEMENT=float -DVEC=4 -DTHREADS_PER_ROW=8 -DROWS_PER_BLOCK=32 -DCHUNKS=1
// Source    A. Vaswani and others, "Attention Is All You Need", 2017, section 3.4, arXiv:1706.03762
#if !defined(ELEMENT) || !defined(VEC) || !defined(THREADS_PER_ROW) || !defined(ROWS_PER_BLOCK) || !defined(CHUNKS)
#error "pass -DELEMENT=__half -DVEC=8 (numbers of an access) -DTHREADS_PER_ROW=128 -DROWS_PER_BLOCK=1 -DCHUNKS=4 (of a thread)"
#endif
#include "common/row_chunks.cuh"
CHECK_ROW_MACROS
static_assert(CHUNKS == 1, "CHUNKS: a thread sums one chunk of many tokens");
typedef Chunk<ELEMENT, VEC> RowChunk;
#define TOKENS 4  // whose rows are under way at once

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
sorted_backward_kernel(const long long* sorted_ids, const long long* order, const long long* ends, const ELEMENT* d_out,
                       ELEMENT* d_table, int num_tokens, int num_cols, long long num_ids, long long stride_d_out,
                       long long stride_d_table, int accumulate) {
    const int place = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / THREADS_PER_ROW;
    const int chunk = blockIdx.y * THREADS_PER_ROW + threadIdx.x % THREADS_PER_ROW;
    if (place >= num_tokens || chunk >= num_cols / VEC) return;

    // region: first_of_its_id
    const long long id = sorted_ids[place];
    if (id < 0 || id >= num_ids || (place > 0 && sorted_ids[place - 1] == id)) return;
    const int end = static_cast<int>(ends[place]);
    ELEMENT* d_table_row = d_table + id * stride_d_table;
    // endregion

    // region: sum
    float sum[VEC] = {}, numbers[VEC];
    RowChunk d_reg[TOKENS];
    if (accumulate) {
        read_chunk(d_reg[0], d_table_row, chunk);
        as_floats(sum, d_reg[0]);
    }
    for (int start = place; start < end; start += TOKENS) {
#pragma unroll
        for (int i = 0; i < TOKENS; ++i) {  // all reads are under way before the first number is used
            if (start + i < end) read_chunk(d_reg[i], d_out + order[start + i] * stride_d_out, chunk);
        }
#pragma unroll
        for (int i = 0; i < TOKENS; ++i) {
            if (start + i < end) {
                as_floats(numbers, d_reg[i]);
#pragma unroll
                for (int j = 0; j < VEC; ++j) sum[j] += numbers[j];
            }
        }
    }
    from_floats(d_reg[0], sum);
    write_chunk(d_table_row, chunk, d_reg[0]);
    // endregion
}
