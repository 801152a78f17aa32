// 02_norm_linear — the norm of one to eight tokens, times a matrix of weights, and an activation, in one launch
//
// Idea      a row of a few thousand numbers is normalised faster by every block for itself than by a launch of its own
// Builds on 01_linear. Changed regions: share, addend, start, store.
// Contract  x, weight, bias, the order of the sums as in 01_linear · norm_weight (size_k,) ELEMENT; norm_bias like it
//           NORM 1: x / sqrt(mean(x^2) + eps) * norm_weight; NORM 2: (x - mean) / sqrt(variance + eps) * norm_weight + norm_bias;
//           statistics in float, the norm rounded to ELEMENT before the product
//           ACTIVATION 0: out (num_tokens, size_n) = norm weight^T + bias; 1: GELU by tanh of it
//           ACTIVATION 2: out (num_tokens, size_n / 2) = silu(g) * u, g and u the two halves of its columns; size_n even
//           launched as a dependent of the kernel before: that one must not write weight, bias, norm_weight or norm_bias
// Launch    as 01_linear, and 2 * NORM * size_k bytes more of dynamic shared memory
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton, as for 01_linear
// gate: -DELEMENT=__nv_bfloat16 -DNUM_WARPS=12 -DNUM_STAGES=8 -DNORM=1 -DACTIVATION=2
// gate: -DELEMENT=__half -DNUM_WARPS=12 -DNUM_STAGES=7 -DNORM=2 -DACTIVATION=1
// gate: -DELEMENT=__half -DNUM_WARPS=12 -DNUM_STAGES=7 -DNORM=1 -DACTIVATION=0
// gate: -DELEMENT=__half -DNUM_WARPS=8 -DNUM_STAGES=6 -DNORM=2 -DACTIVATION=1 -DTILES=3
// Source    common/weight_stream.cuh
#if !defined(ELEMENT) || !defined(NUM_WARPS) || !defined(NUM_STAGES) || !defined(NORM) || !defined(ACTIVATION)
#error "pass -DELEMENT=__half -DNUM_WARPS=12 -DNUM_STAGES=7 -DNORM=1 (RMSNorm; 2: LayerNorm) -DACTIVATION=2 (SwiGLU; 1: GELU, 0: none)"
#endif
#include "common/activation.cuh"
#include "common/dependent_launch.cuh"
#include "common/token_rows.cuh"     // load_norm, load_tokens
#include "common/weight_stream.cuh"  // WeightStream, pair_sum
static_assert(NORM == 1 || NORM == 2, "NORM: RMSNorm or LayerNorm");
static_assert(ACTIVATION >= 0 && ACTIVATION <= 2, "ACTIVATION: none, GELU or SwiGLU");
#define GATED (ACTIVATION == 2)  // a pair is a gate and its factor, else two neighbours

struct RowOf {
    int half;
    __device__ __forceinline__ int operator()(int pair, int part) const { return GATED ? pair + part * half : 2 * pair + part; }
};

extern "C" __global__ void __launch_bounds__(NUM_THREADS, BLOCKS_PER_SM)
norm_linear_kernel(const ELEMENT* x, const ELEMENT* norm_weight, const ELEMENT* norm_bias, const ELEMENT* weight,
                   const ELEMENT* bias, ELEMENT* out, int num_tokens, int size_n, int size_k, float eps) {
    extern __shared__ __align__(128) unsigned char smem[];
    __shared__ float part_smem[2 * NUM_WARPS];
    // region: share
    const int first_pair = first_of_block(blockIdx.x, CEIL_DIV(size_n, 2));
    const int num_pairs = first_of_block(blockIdx.x + 1, CEIL_DIV(size_n, 2)) - first_pair;
    unsigned char* x_smem = smem + NUM_WARPS * RING_BYTES;  // after the rings: (num_tokens, token_bytes(size_k))
    float* sum_smem = reinterpret_cast<float*>(x_smem + num_tokens * token_bytes(size_k));  // (tiles, NUM_WARPS, num_tokens, 8)
    ELEMENT* norm_smem = reinterpret_cast<ELEMENT*>(sum_smem + CEIL_DIV(num_pairs, PAIRS) * NUM_WARPS * num_tokens * 2 * PAIRS);
    // endregion

    // region: addend
    const int num_outputs = num_pairs * num_tokens;  // pairs of this block
    auto addend = [&](int i) {
        const int pair = first_pair + i - token_of(i, num_pairs, num_tokens) * num_pairs;
        const int n = GATED ? pair : 2 * pair, other = GATED ? pair + size_n / 2 : n + 1;
        if (!bias || i >= num_outputs) return make_float2(0.0f, 0.0f);
        return make_float2(static_cast<float>(bias[n]), other < size_n ? static_cast<float>(bias[other]) : 0.0f);
    };
    // endregion

    // region: start
    WeightStream<RowOf> stream = {weight, size_n, size_k, first_pair, num_pairs, RowOf{size_n / 2}, smem};
    griddepcontrol_launch_dependents();  // the next kernel may begin to ask for its weights as well
    stream.start();
    load_norm<NORM>(norm_smem, norm_weight, norm_bias, size_k);
    const float2 first_addend = addend(threadIdx.x);  // a bias is a weight as well
    griddepcontrol_wait();  // from here on the results of the kernel before are read, and memory is written
    load_tokens<NORM>(x_smem, x, norm_smem, eps, num_tokens, size_k, part_smem);
    // endregion

    stream.run(sum_smem, x_smem, num_tokens);
    __syncthreads();  // separates the warps' writes of their parts from the reads of all of them
    // region: store
    for (int i = threadIdx.x; i < num_outputs; i += NUM_THREADS) {
        const int token = token_of(i, num_pairs, num_tokens), local = i - token * num_pairs, pair = first_pair + local;
        float2 sum = pair_sum(sum_smem, local, token, num_tokens);
        const float2 add = i < NUM_THREADS ? first_addend : addend(i);
        sum = make_float2(sum.x + add.x, sum.y + add.y);
        if (ACTIVATION == 1) sum = make_float2(gelu_tanh(sum.x), gelu_tanh(sum.y));
        ELEMENT* row = out + static_cast<long long>(token) * (GATED ? size_n / 2 : size_n);
        if (GATED) {
            row[pair] = static_cast<ELEMENT>(silu(sum.x) * sum.y);
        } else {
            row[2 * pair] = static_cast<ELEMENT>(sum.x);
            if (2 * pair + 1 < size_n) row[2 * pair + 1] = static_cast<ELEMENT>(sum.y);
        }
    }
    // endregion
}
