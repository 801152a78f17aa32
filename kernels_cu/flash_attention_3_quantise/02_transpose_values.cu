// 02_transpose_values — V as e4m3, transposed and its keys permuted, with a scale for every block of keys
//
// Idea      8-bit operands of wgmma run along k, and k of P V is the keys: V is stored transposed. A lane's weights are in the order of
//           accumulator columns (2t, 2t+1, 8+2t, 9+2t), the left operand wants four neighbours 4t to 4t+3: with V's keys in that order
//           within each 16, the lane's registers are the operand as they are, for sums do not care about order
// Builds on paged/08_quantised_write. Changed regions: scale (of a block of keys), transpose (new).
// Contract  v (num_heads, seq_len, D) ELEMENT (__half or __nv_bfloat16), contiguous, finite, D = 64 or 128; num_heads is batch * KV heads
//           v_t (num_heads, D, stride) e4m3, stride = seq_len rounded up to a multiple of 16 · scales (num_heads, ceil(seq_len / KEYS)) float
//           v_t[., d, 16 i + 4 t + b] = v[., 16 i + 2 t + b % 2 + 8 (b / 2), d] (1 / scale); 0 for keys beyond seq_len
//           scale = max(largest |v| of the block / 448, MIN_SCALE)
// Launch    grid (ceil(seq_len / KEYS) * num_heads) · block KEYS * D / 32
// Needs     compute capability 8.9 · compiled by NVRTC: device code only, no host headers
// Twin      none: chapter 08 is about Hopper's own instructions
// gate: -DHEAD_DIM=64 -DELEMENT=__half -DKEYS=96
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16 -DKEYS=128
// Source    PTX ISA, "Register Fragments and Shared Memory Matrix Layouts" of wgmma
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of V; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#ifndef KEYS
#error "KEYS: keys that share a scale, a multiple of 32; pass -DKEYS=128"
#endif
#include "common/fp8_scale.cuh"
#include "common/half_chunk.cuh"  // load_chunk
#define WORDS (KEYS / 4)                     // of a column; a word is 4 keys
#define PITCH (WORDS + 1)                    // odd: neither the words of a column nor those of 8 columns share banks
#define NUM_THREADS (WORDS * HEAD_DIM / 8)   // a thread takes 4 keys of 8 columns
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "a warp takes 32 columns");
static_assert(KEYS % 32 == 0 && NUM_THREADS <= 1024, "KEYS: a warp takes 32, and a block has at most 1024 threads");

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
transpose_values_kernel(const ELEMENT* v, __nv_fp8_e4m3* v_t, float* scales, int seq_len, int stride) {
    __shared__ unsigned words_smem[HEAD_DIM * PITCH];  // (HEAD_DIM, WORDS)
    const int num_blocks = CEIL_DIV(seq_len, KEYS), head = blockIdx.x / num_blocks, kv_start = blockIdx.x % num_blocks * KEYS;
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    // region: load
    // A warp takes 32 keys of 32 columns: lane % 4 says which 8 columns, lane / 4 which word.
    const int col = warp % (HEAD_DIM / 32) * 32 + lane % 4 * 8, word = warp / (HEAD_DIM / 32) * 8 + lane / 4;
    float v_reg[4][8] = {};  // a key beyond the last is 0
    float largest = 0.0f;
#pragma unroll
    for (int b = 0; b < 4; ++b) {
        const int key = kv_start + word / 4 * 16 + word % 4 * 2 + b % 2 + b / 2 * 8;  // the permutation
        if (key < seq_len) load_chunk(v_reg[b], v + ((long long)head * seq_len + key) * HEAD_DIM + col);
    }
    // endregion

    // region: scale
#pragma unroll
    for (int i = 0; i < 32; ++i) largest = fmaxf(largest, fabsf(v_reg[i / 8][i % 8]));
    const float scale = block_scale<NUM_THREADS>(largest);
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
    const float factor = 1.0f / scale;
    // endregion

    // region: transpose
#pragma unroll
    for (int e = 0; e < 8; ++e) {
        words_smem[(col + e) * PITCH + word] =
            four_e4m3(v_reg[0][e] * factor, v_reg[1][e] * factor, v_reg[2][e] * factor, v_reg[3][e] * factor);
    }
    __syncthreads();  // separates the writes of columns from the reads of rows
    // endregion

    // region: store
    __nv_fp8_e4m3* tile = v_t + (long long)head * HEAD_DIM * stride + kv_start;
    for (int i = threadIdx.x; i < HEAD_DIM * WORDS; i += NUM_THREADS) {
        const int row = i / WORDS, place = i % WORDS * 4;
        if (kv_start + place < stride) {
            *reinterpret_cast<unsigned*>(tile + (long long)row * stride + place) = words_smem[row * PITCH + i % WORDS];
        }
    }
    // endregion
}
