// 01_route — the experts of every token: softmax of the router's logits and the TOP_K largest, a warp a token
//
// Idea      a token's logits are a few a lane: the best is found TOP_K times by shuffles, and nothing leaves the registers
// Contract  logits (num_tokens, NUM_EXPERTS) ELEMENT, contiguous, finite · experts (num_tokens, TOP_K) int, the largest first, the
//           lower number first among equals · weights (num_tokens, TOP_K) float: the probabilities over all experts, or, where
//           renormalise is not 0, over the chosen ones · any num_tokens >= 1
// Launch    grid ceil(num_tokens / 4) · block 128 · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: a row of it would be a program, which is never part of a warp's work
// gate: -DELEMENT=__nv_bfloat16 -DNUM_EXPERTS=128 -DTOP_K=8
// gate: -DELEMENT=float -DNUM_EXPERTS=8 -DTOP_K=2
// Source    N. Shazeer and others, "Outrageously Large Neural Networks", 2017, section 2.1, arXiv:1701.06538;
//           A. Q. Jiang and others, "Mixtral of Experts", 2024, section 2.1 (renormalised over the chosen), arXiv:2401.04088
#if !defined(ELEMENT) || !defined(NUM_EXPERTS) || !defined(TOP_K)
#error "pass -DELEMENT=__nv_bfloat16 -DNUM_EXPERTS=128 -DTOP_K=8 (experts of a token)"
#endif
#include "common/row_chunks.cuh"
#include "common/warp_reduce.cuh"
#define WARPS 4
#define PER_LANE CEIL_DIV(NUM_EXPERTS, WARP_SIZE)
static_assert(TOP_K >= 1 && TOP_K <= NUM_EXPERTS, "TOP_K: a token has from one expert to all of them");
static_assert(TOP_K <= WARP_SIZE, "TOP_K: lane i keeps the weight of choice i");

extern "C" __global__ void __launch_bounds__(WARPS * WARP_SIZE)
route_kernel(const ELEMENT* logits, int* experts, float* weights, int num_tokens, int renormalise) {
    const int lane = threadIdx.x % WARP_SIZE, token = blockIdx.x * WARPS + threadIdx.x / WARP_SIZE;
    if (token >= num_tokens) return;  // a whole warp

    // region: softmax
    float probs[PER_LANE];  // of experts lane, lane + 32, …; below 0 for what is none
    float m = NEG_INF, l = 0.0f;
#pragma unroll
    for (int i = 0; i < PER_LANE; ++i) {
        const int expert = lane + i * WARP_SIZE;
        float logit[1] = {NEG_INF};
        if (expert < NUM_EXPERTS) {
            Chunk<ELEMENT, 1> chunk;
            read_chunk(chunk, logits + static_cast<size_t>(token) * NUM_EXPERTS, expert);
            as_floats(logit, chunk);
        }
        probs[i] = logit[0];
        m = fmaxf(m, logit[0]);
    }
    m = warp_max(m);
#pragma unroll
    for (int i = 0; i < PER_LANE; ++i) {
        const bool exists = lane + i * WARP_SIZE < NUM_EXPERTS;
        probs[i] = exists ? expf(probs[i] - m) : -1.0f;
        l += exists ? probs[i] : 0.0f;
    }
    l = warp_sum(l);
    // endregion

    // region: choose
    float weight = 0.0f, chosen = 0.0f;
    int expert_of_lane = 0;
#pragma unroll
    for (int choice = 0; choice < TOP_K; ++choice) {
        float best = -1.0f;
        int expert = NUM_EXPERTS;
#pragma unroll
        for (int i = 0; i < PER_LANE; ++i) {
            if (probs[i] > best) best = probs[i], expert = lane + i * WARP_SIZE;
        }
#pragma unroll
        for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {  // all 32 lanes take part
            const float other = __shfl_xor_sync(ALL_LANES, best, offset);
            const int other_expert = __shfl_xor_sync(ALL_LANES, expert, offset);
            if (other > best || (other == best && other_expert < expert)) best = other, expert = other_expert;
        }
#pragma unroll
        for (int i = 0; i < PER_LANE; ++i) {
            if (lane + i * WARP_SIZE == expert) probs[i] = -1.0f;  // taken
        }
        if (lane == choice) weight = best, expert_of_lane = expert;
        chosen += best;
    }
    if (lane < TOP_K) {
        experts[token * TOP_K + lane] = expert_of_lane;
        weights[token * TOP_K + lane] = weight / (renormalise ? chosen : l);
    }
    // endregion
}
