// 11_shared_read — every lane reads the number of shared memory that a table names
//
// Idea      when x[i] = i, what a lane has read says where it has read: a run records its own access
// Builds on 08_shared_index. Changed regions: more words, one element type.
// Contract  x (2048,) float · index (32,) int, 0 .. 2047 · out (32,) float, out[lane] = x[index[lane]]
// Launch    grid 1 · block 32 · static shared memory 8192 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Source    NVIDIA, CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"
#include "common/constants.cuh"
#define WORDS 2048

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
shared_read_places_kernel(const float* x, const int* index, float* out) {
    __shared__ float words_smem[WORDS];  // (WORDS,)
    for (int i = threadIdx.x; i < WORDS; i += WARP_SIZE) words_smem[i] = x[i];
    __syncthreads();  // separates every lane's writes from the other lanes' reads
    const int place = index[threadIdx.x];
    const float value = words_smem[place];  // recorded
    out[threadIdx.x] = value;
}
