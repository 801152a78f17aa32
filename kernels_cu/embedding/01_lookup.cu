// 01_lookup — the rows of a table that a list of numbers names, and the rows of a second table added to them
//
// Idea      a copy whose source row is read from memory: one read and one write of each number, positions cost one read more
// Contract  ids (num_tokens,) ID (int or long) · table (num_ids, num_cols) ELEMENT, rows contiguous and stride_table apart
//           positions (num_tokens,) ID and position_table (num_positions, num_cols), contiguous; or both null: nothing is added
//           out (num_tokens, num_cols), rows stride_out apart: table[ids] + position_table[positions], in float, rounded once
//           a number that names no row adds 0, and nothing is read for it: -1 marks padding
//           any num_cols >= 1; VEC divides num_cols and all strides, every row starts at a multiple of VEC numbers
// Launch    grid (ceil(num_tokens / ROWS_PER_BLOCK), ceil(num_cols / (VEC * THREADS_PER_ROW * CHUNKS)))
//           block THREADS_PER_ROW * ROWS_PER_BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/embedding.py: lookup_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=2 -DID=long
// gate: -DELEMENT=__half -DVEC=1 -DTHREADS_PER_ROW=256 -DROWS_PER_BLOCK=1 -DCHUNKS=8 -DID=int
// gate: -DELEMENT=float -DVEC=4 -DTHREADS_PER_ROW=8 -DROWS_PER_BLOCK=32 -DCHUNKS=1 -DID=long
// Source    A. Vaswani and others, "Attention Is All You Need", 2017, sections 3.4 and 3.5, arXiv:1706.03762
#ifndef ID
#error "ID: type of ids and positions; pass -DID=int or -DID=long"
#endif
#include "common/dependent_launch.cuh"
#include "common/row_kernel.cuh"  // ELEMENT, VEC, THREADS_PER_ROW, ROWS_PER_BLOCK, CHUNKS

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
lookup_kernel(const ID* ids, const ELEMENT* table, const ID* positions, const ELEMENT* position_table, ELEMENT* out,
              int num_tokens, int num_cols, long long num_ids, long long num_positions, long long stride_table,
              long long stride_out) {
    const int token = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / THREADS_PER_ROW;
    const int first = blockIdx.y * (THREADS_PER_ROW * CHUNKS) + threadIdx.x % THREADS_PER_ROW;  // this thread's first chunk
    const int num_chunks = num_cols / VEC;
    griddepcontrol_launch_dependents();  // a small launch: the next kernel may begin to ask for its weights
    if (token >= num_tokens) return;

    // region: rows
    const long long id = ids[token], position = positions == nullptr ? -1 : positions[token];
    const bool known = id >= 0 && id < num_ids, placed = position >= 0 && position < num_positions;
    const ELEMENT* row = table + (known ? id * stride_table : 0);
    const ELEMENT* position_row = position_table + (placed ? position * num_cols : 0);
    ELEMENT* out_row = out + token * stride_out;
    // endregion

    // region: load
    RowChunk row_reg[CHUNKS], position_reg[CHUNKS];
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {  // all reads are under way before the first number is used
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks && known) read_chunk(row_reg[i], row, chunk);
        if (chunk < num_chunks && placed) read_chunk(position_reg[i], position_row, chunk);
    }
    // endregion

    // region: add
#pragma unroll
    for (int i = 0; i < CHUNKS; ++i) {
        const int chunk = first + i * THREADS_PER_ROW;
        if (chunk < num_chunks) {
            if (placed || !known) {
                float numbers[VEC] = {}, others[VEC] = {};
                if (known) as_floats(numbers, row_reg[i]);
                if (placed) as_floats(others, position_reg[i]);
#pragma unroll
                for (int j = 0; j < VEC; ++j) numbers[j] += others[j];
                from_floats(row_reg[i], numbers);
            }
            write_chunk(out_row, chunk, row_reg[i]);
        }
    }
    // endregion
}
