// softmax_state — the one exponential that every softmax of the course uses. Device code only, no host headers.
#pragma once
#include "common/constants.cuh"

// region: exp_shifted
// exp(score - m) for m >= score, and 0 for a score of -inf.
// The second half matters while no finite score has been seen: then m is -inf too, and -inf - -inf is NaN.
__device__ __forceinline__ float exp_shifted(float score, float m) {
    return score == NEG_INF ? 0.0f : expf(score - m);
}
// endregion
