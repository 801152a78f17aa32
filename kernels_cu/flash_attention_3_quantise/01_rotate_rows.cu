// 01_rotate_rows — rows of Q or K, rotated and rounded to e4m3, with a scale for every block of rows
//
// Idea      an outlier decides the scale of its block, and all other numbers lose bits. A rotation of the row spreads the outlier over
//           HEAD_DIM numbers, and (q R)(k R)^T = q k^T: R = diag(signs) H / sqrt(HEAD_DIM), H the Hadamard matrix of +1 and -1,
//           takes log2(HEAD_DIM) sums a number. Random signs keep a constant row from becoming an outlier itself
// Builds on paged/08_quantised_write. Changed regions: scale (of a block of rows), rotate (new).
// Contract  x (num_heads, seq_len, D) ELEMENT (__half or __nv_bfloat16), contiguous, finite, D = 64 or 128; num_heads is batch * heads
//           sign_bits (D / 32) unsigned: bit d % 32 of word d / 32 is 1 where column d changes its sign; the same for Q and K
//           small (num_heads, seq_len, D) e4m3 · scales (num_heads, ceil(seq_len / ROWS)) float:
//           scale = max(largest |x R| of the block / 448, MIN_SCALE), small = x R (1 / scale), to the nearest, ties to even
//           HADAMARD=0: R is the identity
// Launch    grid (ceil(seq_len / ROWS) * num_heads) · block 4 * ROWS
// Needs     compute capability 8.9 · compiled by NVRTC: device code only, no host headers
// Twin      none: chapter 08 is about Hopper's own instructions
// gate: -DHEAD_DIM=64 -DELEMENT=__half -DROWS=64
// gate: -DHEAD_DIM=64 -DELEMENT=__nv_bfloat16 -DROWS=96
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16 -DROWS=64
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16 -DROWS=128
// Source    Shah and others, "FlashAttention-3", 2024, section 3.3, arXiv:2407.08608; Ashkboos and others, "QuaRot", 2024, arXiv:2404.00456
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of the rows; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#ifndef ROWS
#error "ROWS: rows that share a scale; pass -DROWS=64"
#endif
#ifndef HADAMARD
#define HADAMARD 1
#endif
#include "common/fp8_scale.cuh"
#include "common/half_chunk.cuh"  // load_chunk
#define LANES 4                        // lanes that share a row
#define CHUNKS (HEAD_DIM / 8 / LANES)  // of 8 numbers, that a lane holds of its row
#define UNIT (HADAMARD ? (HEAD_DIM == 128 ? 0.08838834764831845f : 0.125f) : 1.0f)  // 1 / sqrt(HEAD_DIM)
#define NUM_THREADS (ROWS * LANES)
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "a lane holds 2 or 4 chunks of a row");
static_assert(ROWS % 8 == 0 && NUM_THREADS <= 1024, "ROWS: whole warps, and no more threads than a block may have");

// region: rotate
// One step of the fast transform: a pair becomes its sum and its difference.
__device__ __forceinline__ void butterfly(float& a, float& b) {
    const float sum = a + b;
    b = a - b;
    a = sum;
}

// x H for the row that four lanes share: column d = 32 chunk + 8 lane + e. Without the factor 1 / sqrt(HEAD_DIM).
__device__ __forceinline__ void hadamard_row(float (&x)[CHUNKS][8], int lane) {
#pragma unroll
    for (int step = 1; step < 8; step *= 2) {
#pragma unroll
        for (int i = 0; i < CHUNKS * 8; ++i) {
            if ((i & step) == 0) butterfly(x[i / 8][i % 8], x[i / 8][i % 8 + step]);
        }
    }
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) {
        const float sign = lane & step ? -1.0f : 1.0f;
#pragma unroll
        for (int i = 0; i < CHUNKS * 8; ++i) {
            const float other = __shfl_xor_sync(ALL_LANES, x[i / 8][i % 8], step);
            x[i / 8][i % 8] = fmaf(sign, x[i / 8][i % 8], other);
        }
    }
#pragma unroll
    for (int step = 1; step < CHUNKS; step *= 2) {
#pragma unroll
        for (int i = 0; i < CHUNKS * 8; ++i) {
            if ((i / 8 & step) == 0) butterfly(x[i / 8][i % 8], x[i / 8 + step][i % 8]);
        }
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
rotate_rows_kernel(const ELEMENT* x, const unsigned* sign_bits, __nv_fp8_e4m3* small, float* scales, int seq_len) {
    const int num_blocks = CEIL_DIV(seq_len, ROWS), head = blockIdx.x / num_blocks, lane = threadIdx.x % LANES;
    const int row = blockIdx.x % num_blocks * ROWS + threadIdx.x / LANES;
    const long long start = ((long long)head * seq_len + row) * HEAD_DIM + lane * 8;
    // region: load
    float x_reg[CHUNKS][8] = {};  // a row beyond the last is 0
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
        if (row < seq_len) load_chunk(x_reg[c], x + start + c * 32);
    }
    // endregion

#if HADAMARD
    // region: signs
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
        const unsigned bits = sign_bits[c] >> (8 * lane);
#pragma unroll
        for (int e = 0; e < 8; ++e) x_reg[c][e] = bits >> e & 1 ? -x_reg[c][e] : x_reg[c][e];
    }
    hadamard_row(x_reg, lane);
    // endregion
#endif

    // region: scale
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < CHUNKS * 8; ++i) largest = fmaxf(largest, fabsf(x_reg[i / 8][i % 8]));
    const float scale = block_scale<NUM_THREADS>(largest * UNIT);
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
    const float factor = UNIT / scale;
    // endregion

    // region: round
    if (row >= seq_len) return;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
        const float(&n)[8] = x_reg[c];
        *reinterpret_cast<uint2*>(small + start + c * 32) =
            make_uint2(four_e4m3(n[0] * factor, n[1] * factor, n[2] * factor, n[3] * factor),
                       four_e4m3(n[4] * factor, n[5] * factor, n[6] * factor, n[7] * factor));
    }
    // endregion
}
