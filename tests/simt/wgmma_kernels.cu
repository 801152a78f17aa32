// Test kernels of common/wgmma.cuh: one product d = a b + d of 64 x BLOCK_N x K, K in steps of one instruction.
// -D BLOCK_N, PRODUCT (the function's name without its ending), TRANS ("<1, 0>" …), IN_REGISTERS 0 or 1 (of a)
#include "common/tma.cuh"
#include "common/wgmma.cuh"

#if IN_REGISTERS
#define MULTIPLY(d, a, a_desc, b_desc, scale) WGMMA_NAME(PRODUCT, _rs) TRANS(d, a, b_desc, scale)
#else
#define MULTIPLY(d, a, a_desc, b_desc, scale) WGMMA_NAME(PRODUCT, _ss) TRANS(d, a_desc, b_desc, scale)
#endif
#define WGMMA_NAME_(FIRST, SECOND) FIRST##SECOND
#define WGMMA_NAME(FIRST, SECOND) WGMMA_NAME_(FIRST, SECOND)

// One block of 128 threads. image: what shared memory holds, num_chunks of 16 bytes · a_regs (num_steps, 128, 4), read when a is in
// registers · steps (num_steps, 2): bytes from the start of shared memory to the step's a and b · layout: leading and stride bytes of a,
// of b, and the swizzle of both · out (64, BLOCK_N), in and out
extern "C" __global__ void __launch_bounds__(128)
product_kernel(const float4* image, const unsigned* a_regs, const int* steps, const int* layout, float* out, int num_chunks,
               int num_steps, int scale_d) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < num_chunks; i += 128) {
        reinterpret_cast<float4*>(smem)[i] = image[i];
    }
    fence_proxy_async();
    __syncthreads();
    float d[BLOCK_N / 2];
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i) {
        const int row = 16 * warp + lane / 4 + 8 * (i / 2 % 2), column = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
        d[i] = out[row * BLOCK_N + column];
    }
    wgmma_fence();
    for (int step = 0; step < num_steps; ++step) {
        unsigned a[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = a_regs[(step * 128 + threadIdx.x) * 4 + i];
        const unsigned long long a_desc = wgmma_descriptor(smem + steps[2 * step], layout[0], layout[1], layout[4]);
        const unsigned long long b_desc = wgmma_descriptor(smem + steps[2 * step + 1], layout[2], layout[3], layout[4]);
        wgmma_fence();
        MULTIPLY(d, a, a_desc, b_desc, step > 0 || scale_d);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        wgmma_keep_order(d);
    }
#pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i) {
        const int row = 16 * warp + lane / 4 + 8 * (i / 2 % 2), column = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
        out[row * BLOCK_N + column] = d[i];
    }
}
