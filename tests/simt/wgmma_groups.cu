// Test kernels: groups of wgmmas, operands that are written again, registers that are none, operands from TMA, large blocks.
// -D LARGE_THREADS of large_kernel
#include "common/tma.cuh"
#include "common/wgmma.cuh"

// a and b of the image become readable for wgmma: 64 x 64 halves each, k along the rows
#define LOAD_OPERANDS                                                             \
    extern __shared__ __align__(1024) unsigned char smem[];                       \
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) {                        \
        reinterpret_cast<float4*>(smem)[i] = image[i];                            \
    }                                                                             \
    fence_proxy_async();                                                          \
    __syncthreads();                                                              \
    const unsigned long long a = wgmma_descriptor(smem, 0, 1024);                 \
    const unsigned long long b = wgmma_descriptor(smem + 8192, 0, 1024)
#define STEP(d, k, scale) wgmma_m64k16_f32_f16_ss(d, a + 2 * (k), b + 2 * (k), scale)

extern "C" __global__ void __launch_bounds__(128) chain_kernel(const float4* image, float* out, int what) {
    LOAD_OPERANDS;
    float d[32], other[32];
    for (int i = 0; i < 32; ++i) d[i] = other[i] = 0.0f;
    wgmma_fence();
    STEP(d, 0, 1);  // the first group
    STEP(d, 1, 1);
    wgmma_commit_group();
    STEP(other, 3, 1);  // the second group
    STEP(d, 2, 1);  // the same accumulators in the next group
    STEP(d, 3, 1);  // its last
    wgmma_commit_group();
    wgmma_wait_group<1>();
    float early = 0.0f;
    if (what == 1) early = d[0];  // still in flight
    wgmma_wait_group<0>();
    wgmma_wait_group<0>();  // nothing is in flight: allowed
    for (int i = 0; i < 32; ++i) out[32 * threadIdx.x + i] = d[i] + early;
}

extern "C" __global__ void __launch_bounds__(128) order_kernel(const float4* image, float* out, int what) {
    LOAD_OPERANDS;
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = 0.0f;
    wgmma_fence();
    for (int k = 0; k < 4; ++k) {  // each in a group of its own, all in flight together
        STEP(d, k, k > 0 || what);
        wgmma_commit_group();
    }
    wgmma_wait_group<0>();
    for (int i = 0; i < 32; ++i) out[32 * threadIdx.x + i] = d[i];
}

#define ALL_ROWS 0    // every thread writes a again, for all
#define OWN_ROWS 1    // each warp the 16 rows of a that its part of the product reads
#define OTHER_ROWS 2  // each warp those of the next warp
extern "C" __global__ void __launch_bounds__(128) reuse_kernel(const float4* image, float* out, int what) {
    LOAD_OPERANDS;
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = 0.0f;
    for (int pass = 0; pass < 3; ++pass) {
        wgmma_fence();
        for (int k = 0; k < 4; ++k) STEP(d, k, 1);  // the products
        wgmma_commit_group();
        wgmma_wait_group<0>();
        const int t = threadIdx.x, warp = (t / 32 + (what == OTHER_ROWS)) % 4;
        if (what == ALL_ROWS) __syncthreads();
        for (int i = 0; i < 4; ++i) {
            const int chunk = what == ALL_ROWS ? i * 128 + t : warp * 128 + i * 32 + t % 32;
            reinterpret_cast<float4*>(smem)[chunk] = image[chunk];  // a again
        }
        fence_proxy_async();
        if (what == ALL_ROWS) __syncthreads();
        __syncwarp();
    }
    for (int i = 0; i < 32; ++i) out[32 * threadIdx.x + i] = d[i];
}

__device__ __noinline__ void issue_with_own_registers(unsigned long long a, unsigned long long b) {
    float own[32];
    wgmma_fence();
    STEP(own, 0, 0);  // own
    wgmma_commit_group();
}
extern "C" __global__ void __launch_bounds__(128) local_kernel(const float4* image, float* out, int what) {
    LOAD_OPERANDS;
    __shared__ float d_smem[128][8];
    float d[64];
    for (int i = 0; i < 64; ++i) d[i] = 0.0f;
    wgmma_fence();
    if (what == 1) issue_with_own_registers(a, b);
#ifndef __CUDA_ARCH__
    if (what == 2) wgmma_m64k16_f32_f16_ss(d_smem[threadIdx.x], a, b, 0);  // not registers
#endif
    if (what == 3) {
        wgmma_m64k16_f32_f16_ss(reinterpret_cast<float (&)[32]>(d[0]), a, b, 0);  // the first half
        wgmma_m64k16_f32_f16_ss(reinterpret_cast<float (&)[32]>(d[16]), a, b, 0);  // half of it again
        wgmma_commit_group();
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    out[threadIdx.x] = d[0];
}
#define WAIT 1      // for the bytes
#define ALL_WAIT 2  // every thread, not thread 0 alone
extern "C" __global__ void __launch_bounds__(128)
tma_kernel(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* out, int swizzle,
           int with) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, 16384);
        tma_load_2d(smem, &a_map, &full, 0, 0);
        tma_load_2d(smem + 8192, &b_map, &full, 0, 0);
    }
    if ((with & WAIT) && (threadIdx.x == 0 || (with & ALL_WAIT))) mbarrier_wait_parity(&full, 0);
    float d[32];
    wgmma_fence();
    for (int k = 0; k < 4; ++k) {
        const unsigned long long a = wgmma_descriptor(smem + 32 * k, 16, 1024);
        const unsigned long long b = wgmma_descriptor(smem + 8192 + 32 * k, 16, 1024, swizzle);
        wgmma_m64k16_f32_bf16_ss(d, a, b, k);
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    for (int i = 0; i < 32; ++i) out[32 * threadIdx.x + i] = d[i];
}

extern "C" __global__ void __launch_bounds__(LARGE_THREADS) large_kernel(const float4* image, float* out, int what) {
    extern __shared__ __align__(1024) unsigned char smem[];
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) {  // 256 rows of 128 bytes, twice
        reinterpret_cast<float4*>(smem)[i] = image[i % 1024];
    }
    fence_proxy_async();
    __syncthreads();
    const unsigned long long a = wgmma_descriptor(smem, 0, 1024);
    float acc[128], scores[64];
    unsigned probs[8][4];
    for (int i = 0; i < 128; ++i) acc[i] = 0.0f;
    for (int j = 0; j < 2; ++j) {
        wgmma_fence();
        wgmma_m64k16_f32_f16_ss(scores, a, a, 0);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        for (int i = 0; i < 32; ++i) probs[i / 4][i % 4] = scores[2 * i] > 0.0f ? 0x3c003c00 : 0;
        wgmma_fence();
        for (int k = 0; k < 8; ++k) wgmma_m64k16_f32_f16_rs(acc, probs[k], a, 1);
        wgmma_commit_group();
        wgmma_wait_group<0>();
    }
    float sum = 0.0f;
    for (int i = 0; i < 128; ++i) sum += acc[i];
    out[threadIdx.x] = sum;
}
