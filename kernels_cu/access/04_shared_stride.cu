// 04_shared_stride — pass a number to the neighbouring lane through shared memory, lanes STRIDE floats apart
//
// Idea      32 banks of 4 bytes: lanes that meet in one bank at different addresses are served one after the other
// Contract  x (32 * grid,) float · out like x, out[i] = x of the next lane of its warp (the last lane: of the first)
// Launch    grid any · block 32 · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DSTRIDE=1
// gate: -DSTRIDE=33
// Source    NVIDIA, CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"
#ifndef STRIDE
#error "STRIDE: distance between the numbers of neighbouring lanes, in floats; pass -DSTRIDE=1"
#endif
#include "common/constants.cuh"
static_assert(STRIDE >= 1 && STRIDE * WARP_SIZE * 4 <= 48 * 1024, "STRIDE: the tile must fit into 48 KB");

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
shared_stride_kernel(const float* x, float* out) {
    __shared__ float tile_smem[WARP_SIZE * STRIDE];  // (WARP_SIZE, STRIDE), one number used in each row
    const int lane = threadIdx.x;
    const int i = blockIdx.x * WARP_SIZE + lane;
    // region: store
    tile_smem[lane * STRIDE] = x[i];
    // endregion
    __syncthreads();  // separates every lane's write from its neighbour's read
    // region: load
    out[i] = tile_smem[(lane + 1) % WARP_SIZE * STRIDE];
    // endregion
}
