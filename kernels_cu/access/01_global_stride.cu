// 01_global_stride — copy every STRIDE-th number: how many sectors does one load of a warp touch?
//
// Idea      32 lanes read 32 floats; with a stride they lie in up to 32 different sectors of 32 bytes
// Contract  x (n * STRIDE,) float · out (n,) float, out[i] = x[i * STRIDE] · any n >= 1
// Launch    grid ceil(n / block) · any block · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DSTRIDE=1
// gate: -DSTRIDE=32
// Source    NVIDIA, CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"
#ifndef STRIDE
#error "STRIDE: distance between the numbers of neighbouring lanes, in floats; pass -DSTRIDE=1"
#endif
static_assert(STRIDE >= 1, "STRIDE: at least 1");

extern "C" __global__ void global_stride_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // lanes beyond the end take no part
    // region: copy
    out[i] = x[(size_t)i * STRIDE];  // loads with a stride, stores without
    // endregion
}
