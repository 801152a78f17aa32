// 01_linear — one to eight tokens times a matrix of weights, and the residual added: every weight is read once, and early
//
// Idea      weights do not depend on the kernel before: ask for the first of them before it has ended, and keep them under way
// Contract  x (num_tokens, size_k), weight (size_n, size_k) ELEMENT (__half or __nv_bfloat16), contiguous · num_tokens 1 to 8
//           bias (size_n,) ELEMENT or null · residual (num_tokens, size_n) ELEMENT or null; out like residual, and may be it
//           out = x weight^T + bias + residual, products and sums in float, rounded once; the bits depend on the grid, not on the
//           other tokens
//           any size_n >= 1; 8 divides size_k; x and weight at multiples of 16 bytes
//           launched as a dependent of the kernel before (common/dependent_launch.cuh): that one must not write weight or bias
// Launch    grid 1 to ceil(size_n / 2) · block NUM_WARPS * 32 · dynamic shared memory, with the pairs of rows of a block,
//           pairs = ceil(ceil(size_n / 2) / grid):
//           NUM_WARPS * NUM_STAGES * 16 * PIECE + num_tokens * (2 * size_k rounded up to PIECE + 32 * NUM_WARPS * ceil(pairs / 4))
//           TILES 0, or at least ceil(pairs / 4) and NUM_STAGES = TILES * ceil(ceil(size_k / PIECE) / NUM_WARPS)
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: it has no launch that begins before the one in front of it has ended, nor a ring of each warp
// gate: -DELEMENT=__nv_bfloat16 -DNUM_WARPS=12 -DNUM_STAGES=8
// gate: -DELEMENT=__half -DNUM_WARPS=12 -DNUM_STAGES=7
// gate: -DELEMENT=__nv_bfloat16 -DNUM_WARPS=8 -DNUM_STAGES=8 -DTILES=2
// Source    common/weight_stream.cuh
#if !defined(ELEMENT) || !defined(NUM_WARPS) || !defined(NUM_STAGES)
#error "pass -DELEMENT=__half -DNUM_WARPS=12 (of a block) -DNUM_STAGES=7 (of a warp's ring)"
#endif
#include "common/dependent_launch.cuh"
#include "common/token_rows.cuh"     // load_tokens
#include "common/weight_stream.cuh"  // WeightStream, pair_sum

struct RowOf {
    __device__ __forceinline__ int operator()(int pair, int part) const { return 2 * pair + part; }
};

extern "C" __global__ void __launch_bounds__(NUM_THREADS, BLOCKS_PER_SM)
linear_kernel(const ELEMENT* x, const ELEMENT* weight, const ELEMENT* bias, const ELEMENT* residual, ELEMENT* out, int num_tokens,
              int size_n, int size_k) {
    extern __shared__ __align__(128) unsigned char smem[];
    // region: share
    const int first_pair = first_of_block(blockIdx.x, CEIL_DIV(size_n, 2));
    const int num_pairs = first_of_block(blockIdx.x + 1, CEIL_DIV(size_n, 2)) - first_pair;
    unsigned char* x_smem = smem + NUM_WARPS * RING_BYTES;  // after the rings: (num_tokens, token_bytes(size_k))
    float* sum_smem = reinterpret_cast<float*>(x_smem + num_tokens * token_bytes(size_k));  // (tiles, NUM_WARPS, num_tokens, 8)
    // endregion

    // region: addend
    const int num_outputs = 2 * num_pairs * num_tokens;  // of this block
    auto token_and_n = [&](int i) {                      // of output i; token -1: there is none
        const int token = token_of(i, 2 * num_pairs, num_tokens), n = 2 * first_pair + i - token * 2 * num_pairs;
        return make_int2(i < num_outputs && n < size_n ? token : -1, n);
    };
    const int2 first = token_and_n(threadIdx.x);  // this thread's first output
    const bool has_first = first.x >= 0;
    ELEMENT first_bias = static_cast<ELEMENT>(0.0f), first_residual = first_bias;
    // endregion

    // region: start
    WeightStream<RowOf> stream = {weight, size_n, size_k, first_pair, num_pairs, RowOf(), smem};
    griddepcontrol_launch_dependents();  // the next kernel may begin to ask for its weights as well
    if (bias && has_first) first_bias = bias[first.y];
    stream.start();
    griddepcontrol_wait();  // from here on the results of the kernel before are read, and memory is written
    // under way while the weights are multiplied: nothing looks at it before
    if (residual && has_first) first_residual = residual[static_cast<long long>(first.x) * size_n + first.y];
    load_tokens<0>(x_smem, x, nullptr, 0.0f, num_tokens, size_k, nullptr);
    // endregion

    stream.run(sum_smem, x_smem, num_tokens);
    __syncthreads();  // separates the warps' writes of their parts from the reads of all of them
    // region: store
    for (int i = threadIdx.x; i < num_outputs; i += NUM_THREADS) {
        const int token = token_and_n(i).x, n = token_and_n(i).y, local = n - 2 * first_pair;
        if (token < 0) continue;
        const long long place = static_cast<long long>(token) * size_n + n;
        ELEMENT add_bias = first_bias, add_residual = first_residual;
        if (bias && i >= NUM_THREADS) add_bias = bias[n];
        if (residual && i >= NUM_THREADS) add_residual = residual[place];
        const float2 sum = pair_sum(sum_smem, local / 2, token, num_tokens);
        out[place] = static_cast<ELEMENT>((local % 2 ? sum.y : sum.x) + (static_cast<float>(add_bias) + static_cast<float>(add_residual)));
    }
    // endregion
}
