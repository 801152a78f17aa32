// 00_who — every thread writes down who it is
//
// Idea      the smallest kernel that shows grid, block and thread: nothing is computed but the thread's own numbers
// Contract  block_of, thread_of, lane_of (num_elements,) int · num_elements = blocks * threads of a block, exactly
// Launch    grid num_elements / threads of a block · block any size · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
#include "common/constants.cuh"  // WARP_SIZE

extern "C" __global__ void
who_kernel(int* block_of, int* thread_of, int* lane_of) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    block_of[i] = blockIdx.x;
    thread_of[i] = threadIdx.x;
    lane_of[i] = threadIdx.x % WARP_SIZE;
}
