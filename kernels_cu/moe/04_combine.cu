// 04_combine — the sum of a token's rows, one of each of its experts, with the router's weights
//
// Idea      each token gathers its rows: no atomics, and one order of the sum
// Contract  y (num_tokens * top_k, num_cols) ELEMENT · places (num_tokens, top_k) int: the row of each pair
//           weights (num_tokens, top_k) float · out (num_tokens, num_cols) ELEMENT = sum of weight * y[place], in float
//           all contiguous; VEC divides num_cols, y and out start at multiples of VEC numbers · any sizes >= 1
// Launch    grid (ceil(num_cols / (VEC * 128)), num_tokens) · block 128 · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: a sum of gathered rows is the twin of embedding/01_lookup once more
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8
// gate: -DELEMENT=__half -DVEC=1
// Source    N. Shazeer and others, "Outrageously Large Neural Networks", 2017, equation 1, arXiv:1701.06538
#if !defined(ELEMENT) || !defined(VEC)
#error "pass -DELEMENT=__half -DVEC=8 (numbers of an access)"
#endif
#include "common/row_chunks.cuh"
#define THREADS 128

extern "C" __global__ void __launch_bounds__(THREADS)
combine_kernel(const ELEMENT* y, const int* places, const float* weights, ELEMENT* out, int num_cols, int top_k) {
    const int token = blockIdx.y, chunk = blockIdx.x * THREADS + threadIdx.x;
    if (chunk >= num_cols / VEC) return;
    // region: sum
    float sum[VEC] = {};
    for (int choice = 0; choice < top_k; ++choice) {
        Chunk<ELEMENT, VEC> row;
        float numbers[VEC];
        read_chunk(row, y + static_cast<size_t>(places[token * top_k + choice]) * num_cols, chunk);
        as_floats(numbers, row);
        const float weight = weights[token * top_k + choice];
#pragma unroll
        for (int j = 0; j < VEC; ++j) sum[j] += weight * numbers[j];
    }
    Chunk<ELEMENT, VEC> result;
    from_floats(result, sum);
    write_chunk(out + static_cast<size_t>(token) * num_cols, chunk, result);
    // endregion
}
