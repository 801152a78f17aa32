// 01_runs — copy n numbers, each thread a run of neighbouring ones, as one would share work among CPU cores
//
// Idea      thread t copies the numbers PER_THREAD * t, PER_THREAD * t + 1, …: neighbouring lanes are a run apart
// Contract  x (n,) float · out like x, out[i] = x[i] · any n >= 1
// Launch    grid ceil(n / (block * PER_THREAD)) · any block · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: there the compiler decides which lane takes which number
// Source    NVIDIA, CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"
#define PER_THREAD 8

extern "C" __global__ void copy_runs_kernel(const float* x, float* out, int n) {
    const int first = blockIdx.x * blockDim.x * PER_THREAD;  // first number of this block
    // region: copy
    for (int k = 0; k < PER_THREAD; ++k) {
        const int i = first + threadIdx.x * PER_THREAD + k;
        if (i < n) out[i] = x[i];
    }
    // endregion
}
