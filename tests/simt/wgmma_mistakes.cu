// Each way to get the order of wgmma wrong: two tiles of attention without a softmax, one thing changed by `what`.
#include "common/half_types.cuh"
#include "common/tma.cuh"
#include "common/wgmma.cuh"

#define TILE_BYTES 8192  // 64 rows of 128 bytes

#define RIGHT 0
#define NO_WAIT_FIRST 1   // the first scores are used at once
#define NO_WAIT_1 2       // the second scores are used at once
#define NO_WAIT_0 3       // P is packed, and O rescaled, before the second product has read and written them
#define EARLY_PACK 4
#define EARLY_RESCALE 5
#define NO_FENCE 6        // none at all before the first product
#define NO_SECOND_FENCE 7 // P is written, no fence, P is used
#define WARP_RETURNS 8
#define WARP_ELSEWHERE 9
#define OVERWRITE 10      // of K while it is being read
#define NO_PROXY_FENCE 11
#define NEVER_WRITTEN 12
#define NO_COMMIT 13
#define IN_FLIGHT_AT_EXIT 14
#define OTHER_DESCRIPTOR 15
#define OTHER_SCALE 16
#define LANE_RETURNS 17
#define OTHER_LINE 18
#define UNROLLED_READ 19  // one accumulator, by a constant index
#define NO_BARRIER 20
#define NEVER_COMMITTED 21
#define OTHER_INSTRUCTION 23
#define ONE_WARP_KNOWS 22  // warp 0 writes the operands, and no other warp waits for it

__device__ __forceinline__ void multiply_q_k(float (&scores)[32], const unsigned char* q_smem, const unsigned char* k_smem) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        wgmma_m64k16_f32_f16_ss(scores, wgmma_descriptor(q_smem + 32 * k, 0, 1024), wgmma_descriptor(k_smem + 32 * k, 0, 1024), k > 0);
    }
}

__device__ __forceinline__ void multiply_p_v(float (&acc)[32], const unsigned (&probs)[4][4], const unsigned char* v_smem) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        wgmma_m64k16_f32_f16_rs<1>(acc, probs[k], wgmma_descriptor(v_smem + 2048 * k, TILE_BYTES, 1024), 1);
    }
}

__device__ __forceinline__ void pack(unsigned (&probs)[4][4], const float (&scores)[32]) {
#pragma unroll
    for (int i = 0; i < 16; ++i) probs[i / 4][i % 4] = pack_pair(scores[2 * i], scores[2 * i + 1], __half());
}

// One block of 128 threads. image: Q, K0, V0, K1, V1, 64 x 64 halves each in panels of 128 bytes with the swizzle of 128 bytes, V with
// keys down the rows · out (64, 64): ((Q K0^T / 8) V0) / 2 + (Q K1^T / 8) V1, the accumulators of thread t at out[32 t]
extern "C" __global__ void __launch_bounds__(128) mistakes_kernel(const float4* image, float* out, int what) {
    extern __shared__ __align__(1024) unsigned char smem[];
    const int t = threadIdx.x;
    const bool is_late_warp = t / 32 == 3;
    const int num_chunks = (what == NEVER_WRITTEN ? 4 : 5) * TILE_BYTES / 16;
    const int num_writers = what == ONE_WARP_KNOWS ? 32 : 128;
    for (int i = t; i < num_chunks && t < num_writers; i += num_writers) {
        reinterpret_cast<float4*>(smem)[i] = image[i];  // the writes of shared memory
    }
    if (what != NO_PROXY_FENCE) fence_proxy_async();
    if (what == ONE_WARP_KNOWS) __syncwarp();
    if (what != NO_BARRIER && what != ONE_WARP_KNOWS) __syncthreads();
    if (what == WARP_RETURNS && is_late_warp) return;
    if (what == LANE_RETURNS && t == 37) return;
    if (what == WARP_ELSEWHERE && is_late_warp) __syncthreads();  // elsewhere
    const unsigned char *q_smem = smem, *k_smem = smem + TILE_BYTES, *v_smem = smem + 2 * TILE_BYTES;
    float scores[32], acc[32];
    unsigned probs[4][4];
    for (int i = 0; i < 32; ++i) acc[i] = 0.0f;
    if (what != NO_FENCE) wgmma_fence();
    if (what == OTHER_DESCRIPTOR && is_late_warp) k_smem += TILE_BYTES;
    if (what == OTHER_SCALE) {
        wgmma_m64k16_f32_f16_ss(scores, wgmma_descriptor(q_smem, 0, 1024), wgmma_descriptor(k_smem, 0, 1024), t == 5);  // other scale
    }
    if (what == OTHER_LINE && is_late_warp) {
        wgmma_m64k16_f32_f16_ss(scores, wgmma_descriptor(q_smem, 0, 1024), wgmma_descriptor(k_smem, 0, 1024), 0);  // here
    } else if (what == OTHER_LINE) {
        wgmma_m64k16_f32_f16_ss(scores, wgmma_descriptor(q_smem, 0, 1024), wgmma_descriptor(k_smem, 0, 1024), 0);  // and there
    }
    if (what == OTHER_INSTRUCTION && t / 32 != 1) {
        wgmma_m64k16_f32_f16_rs(scores, probs[0], wgmma_descriptor(k_smem, 0, 1024), 0);  // left out by warp 1
    }
    multiply_q_k(scores, q_smem, k_smem);  // first scores
    if (what != NEVER_COMMITTED) wgmma_commit_group();
    if (what == NEVER_COMMITTED) return;
    if (what == IN_FLIGHT_AT_EXIT) return;
    if (what != NO_WAIT_FIRST) wgmma_wait_group<0>();
    if (what == OTHER_DESCRIPTOR) return;
    for (int i = 0; i < 32; ++i) scores[i] *= 0.125f;  // scale first
    pack(probs, scores);

    if (what != NO_SECOND_FENCE) wgmma_fence();
    multiply_q_k(scores, q_smem, k_smem + 2 * TILE_BYTES);
    wgmma_commit_group();
    multiply_p_v(acc, probs, v_smem);
    if (what != NO_COMMIT) wgmma_commit_group();
    if (what == OVERWRITE) smem[3 * TILE_BYTES + t] = 0;  // overwrite K1
    if (what != NO_WAIT_1 && what != UNROLLED_READ) wgmma_wait_group<1>();
    float first = 0.0f;
    if (what == UNROLLED_READ) {
        first = scores[5];  // read one
        wgmma_wait_group<1>();
    }
    for (int i = 0; i < 32; ++i) scores[i] *= 0.125f;  // scale second
    if (what == EARLY_PACK) pack(probs, scores);
    if (what == EARLY_RESCALE) {
        for (int i = 0; i < 32; ++i) acc[i] *= 0.5f;  // rescale early
    }
    if (what != NO_WAIT_0) wgmma_wait_group<0>();  // the second wait
    if (what != EARLY_PACK) pack(probs, scores);
    if (what != EARLY_RESCALE) {
        for (int i = 0; i < 32; ++i) acc[i] *= 0.5f;  // rescale late
    }
    wgmma_fence();
    multiply_p_v(acc, probs, v_smem + 2 * TILE_BYTES);  // last product
    wgmma_commit_group();
    wgmma_wait_group<0>();
    for (int i = 0; i < 32; ++i) out[32 * t + i] = acc[i] + first;
}
