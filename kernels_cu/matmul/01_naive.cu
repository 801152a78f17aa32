// 01_naive — matrix product, one thread a number of the result
//
// Idea      each thread walks along a row of a and down a column of b
// Contract  a (size_m, size_k) float · b (size_k, size_n) float · out (size_m, size_n) float = a b · all contiguous, any sizes >= 1
// Launch    grid (ceil(size_m / 32), ceil(size_n / 8)) · block (32, 8) · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
#include "common/constants.cuh"  // WARP_SIZE, 32

extern "C" __global__ void __launch_bounds__(WARP_SIZE * 8)
matmul_kernel(const float* a, const float* b, float* out, int size_m, int size_n, int size_k) {
    // region: place
    const int row = blockIdx.x * WARP_SIZE + threadIdx.x;  // neighbouring lanes: neighbouring rows
    const int col = blockIdx.y * 8 + threadIdx.y;
    // endregion
    if (row >= size_m || col >= size_n) return;
    float acc = 0.0f;
    for (int k = 0; k < size_k; ++k) {
        acc += a[(size_t)row * size_k + k] * b[(size_t)k * size_n + col];
    }
    out[(size_t)row * size_n + col] = acc;
}
