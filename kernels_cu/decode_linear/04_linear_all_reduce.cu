// 04_linear_all_reduce — 01_linear on several ranks: each has some columns of the weights, and all get the sum of their products
//
// Idea      a block has the same outputs on every rank: it sends its sums to its peers and adds theirs, so the all-reduce is no launch
// Builds on 01_linear, with the exchange of all_reduce/01_one_shot. Changed regions: addend, push, store.
// Contract  x (ranks_here, num_tokens, size_k), weight (ranks_here, size_n, size_k) ELEMENT (__half or __nv_bfloat16), contiguous ·
//           num_tokens 1 to 8 · bias (size_n,) ELEMENT or null · residual (ranks_here, num_tokens, size_n) ELEMENT or null; out like
//           residual, and may be it · bias and residual are the same on every rank
//           out = sum over all ranks of x weight^T, in the order of the ranks, + bias + residual, in float, rounded once: the same
//           bits on every rank where all have one grid
//           any size_n >= 1; 8 divides size_k; x and weight at multiples of 16 bytes
//           inbox, inbox_offsets, epochs, capacity, first_rank and blockIdx.y as in all_reduce/01_one_shot; the inbox is not that of
//           another grid; a packet is two sums in float: num_tokens * ceil(size_n / 2) <= capacity
//           launched as a dependent of the kernel before (common/dependent_launch.cuh): that one must not write weight or bias
// Launch    grid (any number of blocks that are all resident together, ranks_here) · block NUM_WARPS * 32 · dynamic shared memory as
//           01_linear
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: it has no access to a word of 64 bits that is whole for the cards of a host
// gate: -DELEMENT=__nv_bfloat16 -DNUM_WARPS=12 -DNUM_STAGES=8 -DNUM_RANKS=4
// gate: -DELEMENT=__half -DNUM_WARPS=12 -DNUM_STAGES=7 -DNUM_RANKS=8
// Source    common/weight_stream.cuh, common/rank_inbox.cuh
#if !defined(ELEMENT) || !defined(NUM_WARPS) || !defined(NUM_STAGES) || !defined(NUM_RANKS)
#error "pass -DELEMENT=__half -DNUM_WARPS=12 (of a block) -DNUM_STAGES=7 (of a warp's ring) -DNUM_RANKS=4"
#endif
#include "common/dependent_launch.cuh"
#include "common/rank_inbox.cuh"     // RankInbox
#include "common/token_rows.cuh"     // load_tokens
#include "common/weight_stream.cuh"  // WeightStream, pair_sum

struct RowOf {
    __device__ __forceinline__ int operator()(int pair, int part) const { return 2 * pair + part; }
};

extern "C" __global__ void __launch_bounds__(NUM_THREADS, BLOCKS_PER_SM)
linear_all_reduce_kernel(const ELEMENT* x, const ELEMENT* weight, const ELEMENT* bias, const ELEMENT* residual,
                         const long long* inbox_offsets, ELEMENT* out, unsigned long long* inbox, unsigned* epochs, int num_tokens,
                         int size_n, int size_k, int capacity, int first_rank) {
    extern __shared__ __align__(128) unsigned char smem[];
    // region: share
    const int all_pairs = CEIL_DIV(size_n, 2), first_pair = first_of_block(blockIdx.x, all_pairs);
    const int num_pairs = first_of_block(blockIdx.x + 1, all_pairs) - first_pair;
    unsigned char* x_smem = smem + NUM_WARPS * RING_BYTES;  // after the rings: (num_tokens, token_bytes(size_k))
    float* sum_smem = reinterpret_cast<float*>(x_smem + num_tokens * token_bytes(size_k));  // (tiles, NUM_WARPS, num_tokens, 8)
    x += static_cast<long long>(blockIdx.y) * num_tokens * size_k;
    weight += static_cast<long long>(blockIdx.y) * size_n * size_k;
    out += static_cast<long long>(blockIdx.y) * num_tokens * size_n;
    if (residual) residual += static_cast<long long>(blockIdx.y) * num_tokens * size_n;
    // endregion

    // region: start
    WeightStream<RowOf> stream = {weight, size_n, size_k, first_pair, num_pairs, RowOf(), smem};
    griddepcontrol_launch_dependents();  // the next kernel may begin to ask for its weights as well
    stream.start();
    unsigned* calls = calls_of_block(epochs);
    RankInbox ranks = open_inbox(inbox, inbox_offsets, first_rank + blockIdx.y, capacity);
    griddepcontrol_wait();  // from here on the results of the kernel before are read, and memory is written
    ranks.epoch = *calls + 1;
    load_tokens<0>(x_smem, x, nullptr, 0.0f, num_tokens, size_k, nullptr);
    // endregion

    // region: addend
    const int num_packets = num_pairs * num_tokens;  // of this block: the two numbers of a pair
    auto addend = [&](int n, int token) {
        if (n >= size_n) return 0.0f;
        const float add = bias ? static_cast<float>(bias[n]) : 0.0f;
        return residual ? add + static_cast<float>(residual[static_cast<long long>(token) * size_n + n]) : add;
    };
    // endregion

    stream.run(sum_smem, x_smem, num_tokens);
    __syncthreads();  // separates the warps' writes of their parts from the reads of all of them
    // region: push
    for (int i = threadIdx.x; i < num_packets; i += NUM_THREADS) {
        const int token = token_of(i, num_pairs, num_tokens), pair = i - token * num_pairs;
        const float2 sum = pair_sum(sum_smem, pair, token, num_tokens);
        ranks.push(token * all_pairs + first_pair + pair, make_uint2(__float_as_uint(sum.x), __float_as_uint(sum.y)));
    }
    // endregion
    // region: store
    for (int i = threadIdx.x; i < num_packets; i += NUM_THREADS) {
        const int token = token_of(i, num_pairs, num_tokens), pair = i - token * num_pairs, n = 2 * (first_pair + pair);
        const float2 own = pair_sum(sum_smem, pair, token, num_tokens), add = make_float2(addend(n, token), addend(n + 1, token));
        uint2 parts[NUM_RANKS];
        ranks.collect(parts, token * all_pairs + first_pair + pair, make_uint2(__float_as_uint(own.x), __float_as_uint(own.y)));
        float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int r = 0; r < NUM_RANKS; ++r) sum.x += __uint_as_float(parts[r].x), sum.y += __uint_as_float(parts[r].y);
        ELEMENT* target = out + static_cast<long long>(token) * size_n + n;
        target[0] = static_cast<ELEMENT>(sum.x + add.x);
        if (n + 1 < size_n) target[1] = static_cast<ELEMENT>(sum.y + add.y);
    }
    count_call(calls, ranks.epoch);
    // endregion
}
