// 07_divergent_rows — every lane sums a row of its own length: what is a request when lanes leave a loop early?
//
// Idea      a warp's request is the set of lanes that execute the load together; a lane that is done takes no part
// Contract  x (32 * grid, num_cols) float · out (32 * grid,) float, out[i] = sum of x[i, 0 .. i % 32] · num_cols >= 32
// Launch    grid any · block 32 · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Source    NVIDIA, CUDA C++ Programming Guide, "SIMT Architecture"
#include "common/constants.cuh"

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
divergent_rows_kernel(const float* x, float* out, int num_cols) {
    const int lane = threadIdx.x;
    const size_t row = blockIdx.x * WARP_SIZE + lane;
    float sum = 0.0f;
    // region: loop
#pragma unroll 1
    for (int col = 0; col <= lane; ++col) {  // lane 0 once, lane 31 thirty-two times
        sum += x[row * num_cols + col];
    }
    // endregion
    out[row] = sum;
}
