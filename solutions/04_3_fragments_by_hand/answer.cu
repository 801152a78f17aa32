// 04.3 fragments — matrix product of halves, one warp a tile of 16 x 8: every lane loads its own numbers for mma
//
// Idea      the layout of mma.m16n8k16 is a table: which lane holds which numbers. Follow it, straight from global memory
// Builds on matmul/07_mma. Changed: no shared memory and no ldmatrix; registers are packed by hand.
// Contract  a (size_m, size_k) half · b (size_k, size_n) half · out (size_m, size_n) float = a b · all contiguous
//           size_m and size_k multiples of 16, size_n a multiple of 8
//           no Triton twin: Triton's compiler decides which lane holds what
// Launch    grid (size_n / 8, size_m / 16) · block 32 · no shared memory
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Source    PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"
#include <cuda_fp16.h>
#include "common/tensor_core.cuh"  // mma_m16n8k16_f32_f16(d, a, b, c)

// Two halves in one register, the first in its low 16 bits.
__device__ __forceinline__ unsigned pack(__half first, __half second) {
    return __half_as_ushort(first) | static_cast<unsigned>(__half_as_ushort(second)) << 16;
}

extern "C" __global__ void __launch_bounds__(32)
fragment_matmul_kernel(const __half* a, const __half* b, float* out, int size_n, int size_k) {
    a += (size_t)blockIdx.y * 16 * size_k;                        // (16, size_k), a row every size_k numbers
    b += blockIdx.x * 8;                                          // (size_k, 8), a row every size_n numbers
    out += (size_t)blockIdx.y * 16 * size_n + blockIdx.x * 8;     // (16, 8), a row every size_n numbers
    float acc[4] = {};
    // BEGIN SOLUTION
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (int k_start = 0; k_start < size_k; k_start += 16) {
        unsigned a_reg[4], b_reg[2];
        for (int i = 0; i < 4; ++i) {
            const int row = g + i % 2 * 8, k = k_start + 2 * t + i / 2 * 8;
            a_reg[i] = pack(a[row * size_k + k], a[row * size_k + k + 1]);
        }
        for (int i = 0; i < 2; ++i) {
            const int k = k_start + 2 * t + i * 8;
            b_reg[i] = pack(b[k * size_n + g], b[(k + 1) * size_n + g]);
        }
        mma_m16n8k16_f32_f16(acc, a_reg, b_reg, acc);
    }
    for (int i = 0; i < 4; ++i) {
        const int row = g + i / 2 * 8, col = 2 * t + i % 2;
        out[row * size_n + col] = acc[i];
    }
    // END SOLUTION
}
