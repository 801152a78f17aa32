// 12_fragments — which lane holds which number of a product on tensor cores: ldmatrix and mma record it themselves
//
// Idea      when every number of a and b is its own place, what a lane has in a register says where it comes from; and a
//           product that gives out[i][j] = 8 i + j says where each number of the result is
// Builds on 11_shared_read. Changed regions: the loads are ldmatrix, and a product follows.
// Contract  a (16, 16), b (16, 8) half, each holding its places row by row · left (16, 16), right (16, 8) half, whose product
//           holds its places · a_out (32, 4, 2), b_out (32, 2, 2), c_out (32, 4) float: lane, register, half
// Launch    grid 1 · block 32 · static shared memory of 1536 bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Source    PTX ISA, "Warp-level matrix load instruction: ldmatrix", "Matrix Fragments for mma.m16n8k16"
#include <cuda_fp16.h>
#include "common/constants.cuh"    // WARP_SIZE
#include "common/tensor_core.cuh"  // ldmatrix_x4, ldmatrix_x2_trans, mma_m16n8k16_f32_f16

// region: fetch
// Fragments of a and b, from tiles in shared memory: lane 8 i + r gives the address of row r of the 8 x 8 tile i.
__device__ __forceinline__ void fetch(unsigned (&a_reg)[4], unsigned (&b_reg)[2], const __half* a_smem, const __half* b_smem) {
    const int lane = threadIdx.x % WARP_SIZE;
    ldmatrix_x4(a_reg[0], a_reg[1], a_reg[2], a_reg[3], a_smem + lane % 16 * 16 + lane / 16 * 8);
    ldmatrix_x2_trans(b_reg[0], b_reg[1], b_smem + lane % 16 * 8);
}
// endregion

__device__ __forceinline__ void write_halves(float* out, unsigned reg) {
    out[0] = __half2float(__ushort_as_half(reg & 0xffff));
    out[1] = __half2float(__ushort_as_half(reg >> 16));
}

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
fragment_places_kernel(const __half* a, const __half* b, const __half* left, const __half* right, float* a_out, float* b_out,
                       float* c_out) {
    __shared__ __align__(16) __half a_smem[2][16 * 16];  // (row, k): a, then left
    __shared__ __align__(16) __half b_smem[2][16 * 8];   // (k, col): b, then right
    for (int i = threadIdx.x; i < 16 * 16; i += WARP_SIZE) {
        a_smem[0][i] = a[i];
        a_smem[1][i] = left[i];
    }
    for (int i = threadIdx.x; i < 16 * 8; i += WARP_SIZE) {
        b_smem[0][i] = b[i];
        b_smem[1][i] = right[i];
    }
    __syncthreads();  // separates every lane's writes from the other lanes' reads
    unsigned a_reg[4], b_reg[2];
    fetch(a_reg, b_reg, a_smem[0], b_smem[0]);
    for (int i = 0; i < 4; ++i) write_halves(a_out + threadIdx.x * 8 + i * 2, a_reg[i]);
    for (int i = 0; i < 2; ++i) write_halves(b_out + threadIdx.x * 4 + i * 2, b_reg[i]);
    float acc[4] = {};
    fetch(a_reg, b_reg, a_smem[1], b_smem[1]);
    mma_m16n8k16_f32_f16(acc, a_reg, b_reg, acc);
    for (int i = 0; i < 4; ++i) c_out[threadIdx.x * 4 + i] = acc[i];
}
