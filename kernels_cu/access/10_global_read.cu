// 10_global_read — every lane reads the number of global memory that a table names
//
// Idea      when x[i] = i, what a lane has read says where it has read: a run records its own access
// Builds on 09_global_index. Changed regions: nothing is scattered.
// Contract  x (any,) float · index (32,) int, places in x · out (32,) float, out[lane] = x[index[lane]]
// Launch    grid 1 · block 32 · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Source    NVIDIA, CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"
#include "common/constants.cuh"

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
global_read_kernel(const float* x, const int* index, float* out) {
    const int place = index[threadIdx.x];
    const float value = x[place];  // recorded
    out[threadIdx.x] = value;
}
