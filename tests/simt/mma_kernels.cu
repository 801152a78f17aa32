// Test kernels of common/tensor_core.cuh, one warp each. Also run on a GPU by tests/gpu.
#include "common/tensor_core.cuh"

// Registers in, registers out. a (32, 4), b (32, 2), c (32, 4) float, c_half (32, 2) ·
// d (2, 32, 4) float: of f16, of bf16 (from a and b read as bf16) · d_half (32, 2)
extern "C" __global__ void mma_kernel(const unsigned* a, const unsigned* b, const float* c, const unsigned* c_half,
                                      float* d, unsigned* d_half) {
    const int lane = threadIdx.x;
    unsigned a_reg[4], b_reg[2], c_half_reg[2], d_half_reg[2];
    float c_reg[4], f16_reg[4], bf16_reg[4];
    for (int i = 0; i < 4; ++i) {
        a_reg[i] = a[lane * 4 + i];
        c_reg[i] = c[lane * 4 + i];
    }
    for (int i = 0; i < 2; ++i) {
        b_reg[i] = b[lane * 2 + i];
        c_half_reg[i] = c_half[lane * 2 + i];
    }
    mma_m16n8k16_f32_f16(f16_reg, a_reg, b_reg, c_reg);
    mma_m16n8k16_f32_bf16(bf16_reg, a_reg, b_reg, c_reg);
    mma_m16n8k16_f16_f16(d_half_reg, a_reg, b_reg, c_half_reg);
    for (int i = 0; i < 4; ++i) {
        d[lane * 4 + i] = f16_reg[i];
        d[128 + lane * 4 + i] = bf16_reg[i];
    }
    for (int i = 0; i < 2; ++i) {
        d_half[lane * 2 + i] = d_half_reg[i];
    }
}

// out = a b, from memory to memory. a (16, 16) row-major, b (16, 8) row-major, of half · out (16, 8) float
extern "C" __global__ void product_kernel(const unsigned short* a, const unsigned short* b, float* out) {
    __shared__ __align__(16) unsigned short a_smem[16][16];
    __shared__ __align__(16) unsigned short b_smem[16][8];
    const int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) {
        a_smem[i / 16][i % 16] = a[i];
    }
    for (int i = lane; i < 128; i += 32) {
        b_smem[i / 8][i % 8] = b[i];
    }
    __syncwarp();
    unsigned a_reg[4], b_reg[2];
    float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    ldmatrix_x4(a_reg[0], a_reg[1], a_reg[2], a_reg[3], &a_smem[lane % 16][lane / 16 * 8]);
    ldmatrix_x2_trans(b_reg[0], b_reg[1], b_smem[lane % 16]);
    mma_m16n8k16_f32_f16(acc, a_reg, b_reg, acc);
    for (int i = 0; i < 4; ++i) {
        out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = acc[i];
    }
}
