// 08_shared_index — every lane reads the element of shared memory that a table names: any pattern of addresses
//
// Idea      which lanes are served together is seen by trying: equal addresses, neighbours, the same bank, at 4, 8, 16 bytes
// Builds on 04_shared_stride. Changed regions: store, load.
// Contract  x (128,) ELEMENT · index (32,) int, 0 .. 127 · out (32,) ELEMENT, out[i] = x[index[i]]
// Launch    grid 1 · block 32 · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DELEMENT=short
// gate: -DELEMENT=float
// gate: -DELEMENT=float2
// gate: -DELEMENT=float4
// Source    NVIDIA, CUDA C++ Programming Guide, "Compute Capability 5.x, Shared Memory" (later ones refer to it)
#ifndef ELEMENT
#error "ELEMENT: what one lane reads; pass -DELEMENT=float, short, float2 or float4"
#endif
#include "common/constants.cuh"
#define NUM_ELEMENTS (4 * WARP_SIZE)

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
shared_index_kernel(const ELEMENT* x, const int* index, ELEMENT* out) {
    __shared__ ELEMENT tile_smem[NUM_ELEMENTS];  // (NUM_ELEMENTS,)
    const int lane = threadIdx.x;
    // region: store
    for (int i = lane; i < NUM_ELEMENTS; i += WARP_SIZE) {
        tile_smem[i] = x[i];
    }
    // endregion
    __syncthreads();  // separates every lane's writes from the other lanes' reads
    // region: load
    out[lane] = tile_smem[index[lane]];
    // endregion
}
