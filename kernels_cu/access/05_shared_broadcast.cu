// 05_shared_broadcast — all lanes read the same number from shared memory
//
// Idea      one address in one bank is no conflict: the bank is read once and every lane gets the number
// Builds on 04_shared_stride. Changed regions: load.
// Contract  x (32 * grid,) float · out like x, every out of a block is x[32 * block + block % 32]
// Launch    grid any · block 32 · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Source    NVIDIA, CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"
#include "common/constants.cuh"

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
shared_broadcast_kernel(const float* x, float* out) {
    __shared__ float tile_smem[WARP_SIZE];  // (WARP_SIZE,)
    const int lane = threadIdx.x;
    const int i = blockIdx.x * WARP_SIZE + lane;
    tile_smem[lane] = x[i];
    __syncthreads();  // separates the lanes' writes from their reads
    // region: load
    out[i] = tile_smem[blockIdx.x % WARP_SIZE];  // the same address in all 32 lanes
    // endregion
}
