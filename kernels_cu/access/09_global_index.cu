// 09_global_index — gather and scatter: every lane reads, then writes, the element that a table names
//
// Idea      sectors depend on which 32-byte pieces the lanes touch together, not on which lane touches which
// Builds on 01_global_stride. Changed regions: copy becomes gather and scatter.
// Contract  x (128,) ELEMENT · index (32,) int, 0 .. 127, all different for the scatter · out (128,) ELEMENT
//           out[index[i]] = x[index[i]] for the 32 lanes, nothing else is written
// Launch    grid 1 · block 32 · no shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DELEMENT=short
// gate: -DELEMENT=float4
// Source    NVIDIA, CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"
#ifndef ELEMENT
#error "ELEMENT: what one lane reads and writes; pass -DELEMENT=float, short, float2 or float4"
#endif
#include "common/constants.cuh"

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
global_index_kernel(const ELEMENT* x, const int* index, ELEMENT* out) {
    const int place = index[threadIdx.x];
    // region: gather_scatter
    out[place] = x[place];
    // endregion
}
