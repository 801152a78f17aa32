// 01_shared_read — read shared memory again and again: what rate do the 32 banks give, and what do conflicts cost?
//
// Idea      every lane reads a word STRIDE words from its neighbour's, REPEATS times, and adds what it reads
// Builds on access/04_shared_stride. Changed regions: load is repeated.
// Contract  x (WORDS,) float · out (grid * block,) float, sum over k < REPEATS of x[(lane * STRIDE + k) % WORDS]
// Launch    grid any · block any multiple of 32 · static shared memory 4 * WORDS bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DSTRIDE=1 -DREPEATS=256
// gate: -DSTRIDE=32 -DREPEATS=256
// Twin      none in Triton: shared memory is the compiler's there
// Source    NVIDIA, CUDA C++ Programming Guide, "Shared Memory" (32 banks, 32 bits per clock cycle each)
#ifndef STRIDE
#error "STRIDE: distance between the words of neighbouring lanes; pass -DSTRIDE=1"
#endif
#ifndef REPEATS
#error "REPEATS: reads of one thread; pass -DREPEATS=256"
#endif
#include "common/constants.cuh"
#define WORDS 1024  // a power of two: the remainder is one instruction
static_assert(STRIDE >= 1 && STRIDE <= WARP_SIZE, "STRIDE: the words of a warp must fit into WORDS");

extern "C" __global__ void shared_read_kernel(const float* x, float* out) {
    __shared__ float words_smem[WORDS];  // (WORDS,)
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x) words_smem[i] = x[i];
    __syncthreads();  // separates the writes of all threads from the reads of each
    const int lane = threadIdx.x % WARP_SIZE;
    float sum = 0.0f;
    // region: read
    for (int k = 0; k < REPEATS; ++k) {
        sum += words_smem[(lane * STRIDE + k) % WORDS];
    }
    // endregion
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
