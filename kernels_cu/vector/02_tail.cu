// 02_tail — sum of two vectors of any length
//
// Idea      the grid is rounded up, and a thread whose index is past the end does nothing
// Builds on 01_add. Changed: a guard round the work.
// Contract  x, y, out (num_elements,) float, contiguous · any num_elements >= 1
// Launch    grid at least ceil(num_elements / threads of a block) · block any size · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/vector.py: add_tail_kernel
// Source    CUDA C++ Programming Guide, section "Thread Hierarchy", https://docs.nvidia.com/cuda/cuda-c-programming-guide/

extern "C" __global__ void
add_tail_kernel(const float* x, const float* y, float* out, int num_elements) {
    // BEGIN SOLUTION
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num_elements) {  // threads of the last block may have no element
        out[i] = x[i] + y[i];
    }
    // END SOLUTION
}
