// 02_global_offset — copy from an address that is not aligned to the warp: what do a few bytes cost?
//
// Idea      128 consecutive bytes are 4 sectors when they start at a multiple of 32 bytes, and 5 when they do not
// Builds on 01_global_stride. Changed regions: copy.
// Contract  x (n + OFFSET,) float · out (n,) float, out[i] = x[i + OFFSET] · any n >= 1
// Launch    grid ceil(n / block) · any block · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DOFFSET=1
// Source    NVIDIA, CUDA C++ Best Practices Guide, "A Sequential but Misaligned Access Pattern"
#ifndef OFFSET
#error "OFFSET: floats between the start of x and the first one read; pass -DOFFSET=1"
#endif
static_assert(OFFSET >= 0, "OFFSET: 0 or more");

extern "C" __global__ void global_offset_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;  // lanes beyond the end take no part
    // region: copy
    out[i] = x[i + OFFSET];
    // endregion
}
