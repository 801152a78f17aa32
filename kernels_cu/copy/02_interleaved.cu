// 02_interleaved — copy n numbers, PER_THREAD for each thread, in as few sectors as hold them
//
// Idea      which of the block's numbers a thread takes is free; what the 32 lanes of a warp take together is not
// Builds on 01_runs. Changed regions: copy.
// Contract  x (n,) float · out like x, out[i] = x[i] · any n >= 1
// Launch    grid ceil(n / (block * PER_THREAD)) · any block · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: there the compiler decides which lane takes which number
// Source    NVIDIA, CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"
#define PER_THREAD 8  // numbers that a thread copies

extern "C" __global__ void copy_kernel(const float* x, float* out, int n) {
    const int first = blockIdx.x * blockDim.x * PER_THREAD;  // first number of this block
    // region: copy
    for (int k = 0; k < PER_THREAD; ++k) {
        // BEGIN SOLUTION
        // GIVEN: const int i = first + threadIdx.x * PER_THREAD + k;
        const int i = first + k * blockDim.x + threadIdx.x;
        // END SOLUTION
        if (i < n) out[i] = x[i];
    }
    // endregion
}
