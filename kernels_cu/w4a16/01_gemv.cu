// 01_gemv — up to eight rows of activations times weights of four bits: the weights are read once, packed
//
// Idea      a GEMV is as fast as its weights are read; as operands of mma, eight activations a column, they cost no float each
// Contract  x (num_tokens, size_k) ELEMENT, rows stride_x apart, 1 to 8 of them · out (num_tokens, size_n) ELEMENT, contiguous
//           packed (size_n, words of a row) 32-bit words; scales (num_groups, size_n) ELEMENT; zeros (num_groups, size_n) bytes 0..15
//           out = x w^T with w[n, k] = (q[n, k] - zeros[k / GROUP, n]) * scales[k / GROUP, n], sums in float, rounded once
//           a row of packed has ceil(size_k / 128) stretches of 128 numbers; word 4 t + i of a stretch holds numbers
//           32 i + 8 t to 32 i + 8 t + 7, in the order 0 2 4 6 1 3 5 7 from its lowest four bits on; what size_k lacks is any number
//           any size_n >= 1; GROUP divides size_k; x, packed at multiples of 16 bytes, 8 divides stride_x
// Launch    grid ceil(size_n / 16) · block NUM_WARPS * 32 · no dynamic shared memory
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: there the compiler decides which lane takes which number
// gate: -DELEMENT=__half -DGROUP=128 -DNUM_WARPS=16
// gate: -DELEMENT=__nv_bfloat16 -DGROUP=64 -DNUM_WARPS=16
// gate: -DELEMENT=__nv_bfloat16 -DGROUP=32 -DNUM_WARPS=4
// Source    common/four_bits.cuh
#if !defined(ELEMENT) || !defined(GROUP) || !defined(NUM_WARPS)
#error "pass -DELEMENT=__half -DGROUP=128 (weights of a scale) -DNUM_WARPS=16 (of a block, which share size_k)"
#endif
#include "common/constants.cuh"
#include "common/four_bits.cuh"  // pair_of
#include "common/half_types.cuh"
#define ROWS 16        // rows of the weights that a block has: those of an mma
#define TOKENS 8       // columns of an mma
#define STRETCH 128    // numbers of a row that four lanes read at once, 16 bytes each
#define WORD 8         // numbers of a word
#define UNROLL 2       // stretches that are under way
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)
static_assert(GROUP == 32 || GROUP == 64 || GROUP == 128, "GROUP: word i of four lanes is 32 numbers of one group");
static_assert(NUM_WARPS >= 1 && NUM_WARPS <= 32, "NUM_WARPS: a block has up to 1024 threads");

// region: multiply
// acc += scale * (q - zero) x over one stretch. Lane 4 g + t has rows g and g + 8 of the weights, token g, and of every 32
// numbers the eight from 8 t on.
__device__ __forceinline__ void multiply(float (&acc)[4], const uint4 (&words)[2], const ELEMENT* x_row, bool has_token,
                                         const ELEMENT* scales, const unsigned char* zeros, int k_start, int size_n, int size_k,
                                         const int (&rows)[2]) {
    float sum[4], scale[2];
    unsigned zero[2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int first = k_start + 32 * i, k = first + WORD * (threadIdx.x % 4);
        if (first >= size_k) break;
        if (first % GROUP == 0) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {  // a row that there is not counts nothing
                const size_t place = static_cast<size_t>(first / GROUP) * size_n + rows[half];
                scale[half] = rows[half] < size_n ? as_float(scales[place]) : 0.0f;
                zero[half] = rows[half] < size_n ? zeros[place] : 0;
            }
#pragma unroll
            for (int e = 0; e < 4; ++e) sum[e] = 0.0f;
        }
        const uint4 x_reg = has_token ? *reinterpret_cast<const uint4*>(x_row + k) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int p = 0; p < 4; p += 2) {
            unsigned a[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) a[e] = pair_of(word_of(words[e % 2], i), p + e / 2, zero[e % 2], ELEMENT());
            const unsigned b[2] = {word_of(x_reg, p), word_of(x_reg, p + 1)};
            mma_m16n8k16(sum, a, b, ELEMENT());
        }
        if ((first + 32) % GROUP == 0) {
#pragma unroll
            for (int e = 0; e < 4; ++e) acc[e] += scale[e / 2] * sum[e];
        }
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
gemv_kernel(const ELEMENT* x, const uint4* packed, const ELEMENT* scales, const unsigned char* zeros, ELEMENT* out,
            int num_tokens, int size_n, int size_k, long long stride_x) {
    __shared__ float sum_smem[NUM_WARPS * ROWS * TOKENS];  // (warp, row, token)
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE, group = lane / 4;
    const int first_row = blockIdx.x * ROWS, num_stretches = CEIL_DIV(size_k, STRETCH);
    const int rows[2] = {first_row + group, first_row + group + 8};
    const ELEMENT* x_row = x + group * stride_x;
    float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    // region: read
    for (int base = warp; base < num_stretches; base += NUM_WARPS * UNROLL) {
        uint4 words[UNROLL][2];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {  // all reads of weights are under way before the first is used
            const int stretch = base + u * NUM_WARPS;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const bool exists = stretch < num_stretches && rows[half] < size_n;
                const size_t place = (static_cast<size_t>(rows[half]) * num_stretches + stretch) * 4 + lane % 4;
                words[u][half] = exists ? packed[place] : make_uint4(0, 0, 0, 0);
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int stretch = base + u * NUM_WARPS;
            if (stretch >= num_stretches) break;
            multiply(acc, words[u], x_row, group < num_tokens, scales, zeros, stretch * STRETCH, size_n, size_k, rows);
        }
    }
    // endregion

    // region: sum
#pragma unroll
    for (int e = 0; e < 4; ++e) {  // row g or g + 8, tokens 2 t and 2 t + 1
        sum_smem[(warp * ROWS + group + e / 2 * 8) * TOKENS + lane % 4 * 2 + e % 2] = acc[e];
    }
    __syncthreads();  // separates the warps' writes of their sums from the reads of all of them
    for (int i = threadIdx.x; i < ROWS * TOKENS; i += NUM_THREADS) {
        const int token = i / ROWS, row = i % ROWS;
        if (token >= num_tokens || first_row + row >= size_n) continue;
        float sum = 0.0f;
        for (int w = 0; w < NUM_WARPS; ++w) sum += sum_smem[(w * ROWS + row) * TOKENS + token];  // one order: the same bits
        out[static_cast<size_t>(token) * size_n + first_row + row] = static_cast<ELEMENT>(sum);
    }
    // endregion
}
