// activation — SiLU and the tanh form of GELU, and their slopes, on the fast exponential. Device code only, no host headers.
//
// Both are x * sigmoid(y): GELU's 0.5 * (1 + tanh(u)) is sigmoid(2 u). exp(-y) overflows to infinity for y below -88, where
// the sigmoid is 0 as it should be: no number from -100 to 100, and none beyond, gives a NaN.
// __expf and __fdividef keep about 21 bits: with expf and / such a kernel would be limited by instructions, not by memory.
#pragma once
#define GELU_SCALE 1.5957691216057308f  // 2 * sqrt(2 / pi)
#define GELU_CUBIC 0.044715f

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

// region: silu
__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }
__device__ __forceinline__ float silu_slope(float x) {
    const float s = sigmoid(x);
    return s * (1.0f + x * (1.0f - s));
}
// endregion

// region: gelu_tanh
__device__ __forceinline__ float gelu_sigmoid(float x) { return sigmoid(GELU_SCALE * x * (1.0f + GELU_CUBIC * x * x)); }
__device__ __forceinline__ float gelu_tanh(float x) { return x * gelu_sigmoid(x); }
__device__ __forceinline__ float gelu_tanh_slope(float x) {
    const float s = gelu_sigmoid(x);
    return s + s * (1.0f - s) * GELU_SCALE * x * (1.0f + 3.0f * GELU_CUBIC * x * x);
}
// endregion
