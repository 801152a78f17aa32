// 07_quantise — new rows rounded to one byte a number, with one scale a row, on their way into the pages
//
// Idea      a warp has one head of one token: the largest of its 32 numbers becomes 127, and the scale is the value of 1
// Builds on 02_slot_mapping. New: the largest number of the warp, the rounding, and a pool of scales beside the pool of rows.
// Contract  x (num_tokens, num_kv_heads, 32) float · pages (num_pages, page_size, num_kv_heads, 32) signed char, contiguous
//           scales (num_pages, page_size, num_kv_heads) float, contiguous: pages * scale is x, off by half a scale at most
//           scale = largest magnitude of the row / 127; a row of zeros is stored as zeros, with any finite scale
//           slot_mapping (num_tokens,) 64-bit; a negative one is not stored · everything else keeps its value
//           no Triton twin: the pages are read by one, in triton_kernels/paged_exercises.py
// Launch    grid (num_kv_heads, num_tokens) · block 32
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
#include "common/warp_reduce.cuh"  // WARP_SIZE; warp_max(value): all 32 lanes take part, and all get the largest
#define HEAD_DIM 32                // a lane a column

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
quantise_kernel(const float* x, signed char* pages, float* scales, const long long* slot_mapping) {
    const int kv_head = blockIdx.x, num_kv_heads = gridDim.x, token = blockIdx.y, lane = threadIdx.x;
    // BEGIN SOLUTION
    const long long slot = slot_mapping[token];
    if (slot < 0) return;
    const long long row = slot * num_kv_heads + kv_head;  // pages lie end to end, so page_size is not needed
    const float value = x[((long long)token * num_kv_heads + kv_head) * HEAD_DIM + lane];
    const float largest = warp_max(fabsf(value));
    const float scale = largest / 127.0f;
    const float small = largest > 0.0f ? rintf(value / scale) : 0.0f;  // -127 to 127
    pages[row * HEAD_DIM + lane] = (signed char)small;
    if (lane == 0) scales[row] = scale;
    // END SOLUTION
}
