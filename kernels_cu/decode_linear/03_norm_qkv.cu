// 03_norm_qkv — the norm of one to eight tokens, their queries, keys and values, turned by RoPE, and put into the cache
//
// Idea      a thread that has the two numbers of a pair can turn them, and knows where its key belongs: no launch for either
// Builds on 02_norm_linear. Changed regions: addend, place, angle, store.
// Contract  x, norm_weight, norm_bias, NORM, the order of the sums as in 02_norm_linear
//           weight ((num_heads + 2 * num_kv_heads) * HEAD_DIM, size_k) ELEMENT, rows of q, then k, then v · bias one a row, or null
//           cos_sin (max_positions, HEAD_DIM) float, cosines, then sines, or null: nothing is turned · positions (num_tokens,) int,
//           rows of cos_sin · pairs: numbers i and i + HEAD_DIM / 2 of each head of q and k
//           slots (num_tokens,) int64, rows of the caches; a negative one is left out · two tokens never share a slot
//           q (num_tokens, num_heads, HEAD_DIM) · k_cache, v_cache (num_slots, num_kv_heads, HEAD_DIM): other rows keep their values
//           HEAD_DIM even
//           launched as a dependent of the kernel before: that one must not write weights or bias
// Launch    as 02_norm_linear
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton, as for 01_linear
// gate: -DELEMENT=__nv_bfloat16 -DNUM_WARPS=12 -DNUM_STAGES=8 -DNORM=1 -DHEAD_DIM=64
// gate: -DELEMENT=__half -DNUM_WARPS=12 -DNUM_STAGES=7 -DNORM=2 -DHEAD_DIM=128
// gate: -DELEMENT=__nv_bfloat16 -DNUM_WARPS=8 -DNUM_STAGES=12 -DNORM=1 -DHEAD_DIM=64 -DTILES=3
// Source    common/weight_stream.cuh · RoPE as in rope/01_rope
#if !defined(ELEMENT) || !defined(NUM_WARPS) || !defined(NUM_STAGES) || !defined(NORM) || !defined(HEAD_DIM)
#error "pass -DELEMENT=__half -DNUM_WARPS=12 -DNUM_STAGES=7 -DNORM=1 (RMSNorm; 2: LayerNorm) -DHEAD_DIM=64"
#endif
#include "common/dependent_launch.cuh"
#include "common/token_rows.cuh"     // load_norm, load_tokens
#include "common/weight_stream.cuh"  // WeightStream, pair_sum
static_assert(NORM == 1 || NORM == 2, "NORM: RMSNorm or LayerNorm");
static_assert(HEAD_DIM % 2 == 0, "HEAD_DIM: a head is turned in pairs");
#define HALF_DIM (HEAD_DIM / 2)

// region: pair
struct RowOf {  // a pair is two numbers of a head that RoPE turns together
    __device__ __forceinline__ int operator()(int pair, int part) const {
        return pair / HALF_DIM * HEAD_DIM + pair % HALF_DIM + part * HALF_DIM;
    }
};
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, BLOCKS_PER_SM)
norm_qkv_kernel(const ELEMENT* x, const ELEMENT* norm_weight, const ELEMENT* norm_bias, const ELEMENT* weight, const ELEMENT* bias,
                const float* cos_sin, const int* positions, const long long* slots, ELEMENT* q, ELEMENT* k_cache, ELEMENT* v_cache,
                int num_tokens, int num_heads, int num_kv_heads, int size_k, float eps) {
    extern __shared__ __align__(128) unsigned char smem[];
    __shared__ float part_smem[2 * NUM_WARPS];
    // region: share
    const int size_n = (num_heads + 2 * num_kv_heads) * HEAD_DIM;
    const int first_pair = first_of_block(blockIdx.x, size_n / 2);
    const int num_pairs = first_of_block(blockIdx.x + 1, size_n / 2) - first_pair;
    unsigned char* x_smem = smem + NUM_WARPS * RING_BYTES;  // after the rings: (num_tokens, token_bytes(size_k))
    float* sum_smem = reinterpret_cast<float*>(x_smem + num_tokens * token_bytes(size_k));  // (tiles, NUM_WARPS, num_tokens, 8)
    ELEMENT* norm_smem = reinterpret_cast<ELEMENT*>(sum_smem + CEIL_DIV(num_pairs, PAIRS) * NUM_WARPS * num_tokens * 2 * PAIRS);
    // endregion

    // region: addend
    const int num_outputs = num_pairs * num_tokens;  // pairs of this block
    auto addend = [&](int i) {
        if (!bias || i >= num_outputs) return make_float2(0.0f, 0.0f);
        const int n = RowOf()(first_pair + i - token_of(i, num_pairs, num_tokens) * num_pairs, 0);
        return make_float2(static_cast<float>(bias[n]), static_cast<float>(bias[n + HALF_DIM]));
    };
    // endregion

    // region: start
    WeightStream<RowOf> stream = {weight, size_n, size_k, first_pair, num_pairs, RowOf(), smem};
    griddepcontrol_launch_dependents();  // the next kernel may begin to ask for its weights as well
    stream.start();
    load_norm<NORM>(norm_smem, norm_weight, norm_bias, size_k);
    const float2 first_addend = addend(threadIdx.x);  // a bias is a weight as well
    griddepcontrol_wait();  // from here on the results of the kernel before are read, and memory is written
    // endregion

    // region: place
    const int first_token = min(token_of(threadIdx.x, num_pairs, num_tokens), num_tokens - 1);  // of this thread's first output
    const int first_position = cos_sin ? positions[first_token] : 0;
    const long long first_slot = slots[first_token];
    load_tokens<NORM>(x_smem, x, norm_smem, eps, num_tokens, size_k, part_smem);
    // endregion

    // region: angle
    auto angle = [&](int i, int position) {  // (cosine, sine)
        const int pair = first_pair + i - token_of(i, num_pairs, num_tokens) * num_pairs;
        if (!cos_sin || i >= num_outputs || pair / HALF_DIM >= num_heads + num_kv_heads) return make_float2(1.0f, 0.0f);
        const float* angles = cos_sin + static_cast<long long>(position) * HEAD_DIM + pair % HALF_DIM;
        return make_float2(angles[0], angles[HALF_DIM]);
    };
    const float2 first_angle = angle(threadIdx.x, first_position);  // on its way while the weights are multiplied
    // endregion

    stream.run(sum_smem, x_smem, num_tokens);
    __syncthreads();  // separates the warps' writes of their parts from the reads of all of them
    // region: store
    for (int i = threadIdx.x; i < num_outputs; i += NUM_THREADS) {
        const bool is_first = i < NUM_THREADS;
        const int token = token_of(i, num_pairs, num_tokens), local = i - token * num_pairs;
        const int pair = first_pair + local, head = pair / HALF_DIM, d = pair % HALF_DIM;
        float2 sum = pair_sum(sum_smem, local, token, num_tokens);
        const float2 add = is_first ? first_addend : addend(i), turn = is_first || !cos_sin ? first_angle : angle(i, positions[token]);
        sum = make_float2(sum.x + add.x, sum.y + add.y);
        sum = make_float2(sum.x * turn.x - sum.y * turn.y, sum.y * turn.x + sum.x * turn.y);
        ELEMENT* dst = q + (static_cast<long long>(token) * num_heads + head) * HEAD_DIM + d;
        if (head >= num_heads) {
            const int other = head - num_heads;
            const long long slot = is_first ? first_slot : slots[token];
            if (slot < 0) continue;
            dst = (other < num_kv_heads ? k_cache : v_cache) + (slot * num_kv_heads + other % num_kv_heads) * HEAD_DIM + d;
        }
        dst[0] = static_cast<ELEMENT>(sum.x);
        dst[HALF_DIM] = static_cast<ELEMENT>(sum.y);
    }
    // endregion
}
