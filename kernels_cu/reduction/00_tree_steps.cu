// 00_tree_steps — the tree of 01_shared_tree on one row, and what shared memory holds after each step
//
// Idea      the same loop; after every step each thread copies its place of shared memory to global memory, to be drawn
// Contract  x (BLOCK,) float · steps (log2(BLOCK) + 1, BLOCK) float: row 0 before the first step
// Launch    grid 1 · block BLOCK · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DBLOCK=8
#ifndef BLOCK
#error "BLOCK: numbers of the row, one a thread; pass -DBLOCK=8"
#endif
static_assert(BLOCK >= 1 && (BLOCK & (BLOCK - 1)) == 0, "BLOCK: the tree halves it; use a power of two");

extern "C" __global__ void __launch_bounds__(BLOCK)
tree_steps_kernel(const float* x, float* steps) {
    __shared__ float sum_smem[BLOCK];  // (BLOCK,)
    sum_smem[threadIdx.x] = x[threadIdx.x];
    steps[threadIdx.x] = sum_smem[threadIdx.x];
    int step = 1;
    for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
        __syncthreads();  // separates the writes of the step before from the reads of this one
        if (threadIdx.x < stride) {
            sum_smem[threadIdx.x] += sum_smem[threadIdx.x + stride];
        }
        steps[step * BLOCK + threadIdx.x] = sum_smem[threadIdx.x];  // its own element: no other thread writes it
        ++step;
    }
}
