// 06_shared_vector — two or four floats a lane through shared memory
//
// Idea      the banks deliver 128 bytes at a time: 64-bit accesses go in half-warps, 128-bit accesses in quarter-warps
// Builds on 04_shared_stride. Changed regions: store, load.
// Contract  x (32 * grid,) float2 or float4 · out like x, out[i] = x of the next lane of its warp (the last: of the first)
// Launch    grid any · block 32 · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Source    NVIDIA, CUDA C++ Programming Guide, "Compute Capability 5.x, Shared Memory" (later ones refer to it)
#include "common/constants.cuh"

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
shared_float2_kernel(const float2* x, float2* out) {
    __shared__ float2 tile_smem[WARP_SIZE];  // (WARP_SIZE,)
    const int lane = threadIdx.x;
    const int i = blockIdx.x * WARP_SIZE + lane;
    tile_smem[lane] = x[i];
    __syncthreads();  // separates every lane's write from its neighbour's read
    out[i] = tile_smem[(lane + 1) % WARP_SIZE];
}

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
shared_float4_kernel(const float4* x, float4* out) {
    __shared__ float4 tile_smem[WARP_SIZE];  // (WARP_SIZE,)
    const int lane = threadIdx.x;
    const int i = blockIdx.x * WARP_SIZE + lane;
    // region: store
    tile_smem[lane] = x[i];
    // endregion
    __syncthreads();  // separates every lane's write from its neighbour's read
    // region: load
    out[i] = tile_smem[(lane + 1) % WARP_SIZE];
    // endregion
}
