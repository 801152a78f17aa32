// 03_global_vector — copy four floats a thread with one instruction
//
// Idea      a 16-byte access a lane: the same sectors as four scalar accesses, a quarter of the requests
// Builds on 01_global_stride. Changed regions: copy.
// Contract  x (n,) float4, 16-byte aligned · out like x · any n >= 1 (n counts float4)
// Launch    grid ceil(n / block) · any block · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Source    NVIDIA, CUDA C++ Programming Guide, "Size and Alignment Requirement"

extern "C" __global__ void global_vector_kernel(const float4* x, float4* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // lanes beyond the end take no part
    // region: copy
    out[i] = x[i];
    // endregion
}
