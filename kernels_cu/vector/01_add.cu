// 01_add — sum of two vectors, one thread an element
//
// Idea      a thread computes its own place in the array from the number of its block and its number in the block
// Contract  x, y, out (num_elements,) float, contiguous · num_elements = blocks * threads of a block, exactly
// Launch    grid num_elements / threads of a block · block any size · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/vector.py: add_kernel
// Source    CUDA C++ Programming Guide, section "Thread Hierarchy", https://docs.nvidia.com/cuda/cuda-c-programming-guide/

extern "C" __global__ void
add_kernel(const float* x, const float* y, float* out) {
    // region: place
    const int i = blockIdx.x * blockDim.x + threadIdx.x;  // threads before mine
    // endregion
    // region: work
    out[i] = x[i] + y[i];
    // endregion
}
