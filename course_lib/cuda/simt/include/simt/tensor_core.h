// mma.m16n8k16 on the SIMT machine: what common/tensor_core.cuh includes when it is not compiled for a GPU. Not in
// kernels_cu, so that a finding names the kernel's line and not a line of this file.
//
// Sums   products are exact, the 16 of one step are added in float in the order of k, then c is added and the type of d
//        rounds. Tensor cores round the partial sums differently, so the last bits differ.
#pragma once
#include "simt/half_bits.h"

extern "C" unsigned simt_lane() __attribute__((const));  // runtime: 0 … 31

struct SimtMmaOperands {  // the record of one lane in simt_warp_gather; the factors as floats
    float a[8], b[4];
    unsigned is_active;  // 1; the record of a lane that has returned is all ones
};

SIMT_HELPER void simt_mma_from_f16(SimtMmaOperands& mine, const unsigned* a, const unsigned* b) {
    for (int i = 0; i < 8; ++i) mine.a[i] = simt_half_bits_to_float(static_cast<unsigned short>(a[i / 2] >> 16 * (i % 2)));
    for (int i = 0; i < 4; ++i) mine.b[i] = simt_half_bits_to_float(static_cast<unsigned short>(b[i / 2] >> 16 * (i % 2)));
}
SIMT_HELPER void simt_mma_from_bf16(SimtMmaOperands& mine, const unsigned* a, const unsigned* b) {
    for (int i = 0; i < 8; ++i) mine.a[i] = simt_bf16_bits_to_float(static_cast<unsigned short>(a[i / 2] >> 16 * (i % 2)));
    for (int i = 0; i < 4; ++i) mine.b[i] = simt_bf16_bits_to_float(static_cast<unsigned short>(b[i / 2] >> 16 * (i % 2)));
}

// The lane's four sums over k: rows g, g + 8 and columns 2 t, 2 t + 1 for lane 4 g + t. False when a lane is missing.
SIMT_HELPER bool simt_mma_sums(const SimtMmaOperands* all, int lane, float* sums) {
    for (int other = 0; other < 32; ++other)
        if (all[other].is_active != 1) return false;
    for (int i = 0; i < 4; ++i) {
        int column = 2 * (lane % 4) + i % 2;
        float sum = 0.0f;
        for (int k = 0; k < 16; ++k) {  // pair k % 8 / 2 of either half of k is held by the lane with that t
            int t = k % 8 / 2, upper = k / 8;
            sum += all[lane / 4 * 4 + t].a[4 * upper + i / 2 * 2 + k % 2] * all[4 * column + t].b[2 * upper + k % 2];
        }
        sums[i] = sum;
    }
    return true;
}
SIMT_HELPER unsigned simt_mma_add_f16(unsigned c, float low, float high) {
    float c_low = simt_half_bits_to_float(static_cast<unsigned short>(c));
    float c_high = simt_half_bits_to_float(static_cast<unsigned short>(c >> 16));
    return simt_float_to_half_bits(c_low + low) | static_cast<unsigned>(simt_float_to_half_bits(c_high + high)) << 16;
}

// Exchanges the operands of the warp and computes this lane's sums.
SIMT_INLINE void simt_mma_exchange(SimtMmaOperands& mine, float (&sums)[4], unsigned kind) {
    mine.is_active = 1;
    if (simt_lane() == 0) simt_count_mma(kind);
    const void* all;
    simt_warp_gather(0xffffffffu, &mine, sizeof(mine), &all);
    if (!simt_mma_sums(static_cast<const SimtMmaOperands*>(all), static_cast<int>(simt_lane()), sums))
        simt_assert_fail("all 32 lanes of the warp take part in mma.sync", "mma", __LINE__);
}

#define SIMT_MMA_F32(TYPE, KIND)                                                                                     \
    SIMT_INLINE void mma_m16n8k16_f32_##TYPE(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],          \
                                             const float (&c)[4]) {                                                  \
        SimtMmaOperands mine;                                                                                        \
        float sums[4];                                                                                               \
        simt_mma_from_##TYPE(mine, a, b);                                                                            \
        simt_mma_exchange(mine, sums, KIND);                                                                         \
        d[0] = c[0] + sums[0];                                                                                       \
        d[1] = c[1] + sums[1];                                                                                       \
        d[2] = c[2] + sums[2];                                                                                       \
        d[3] = c[3] + sums[3];                                                                                       \
    }
SIMT_MMA_F32(f16, 0)
SIMT_MMA_F32(bf16, 1)
#undef SIMT_MMA_F32

SIMT_INLINE void mma_m16n8k16_f16_f16(unsigned (&d)[2], const unsigned (&a)[4], const unsigned (&b)[2],
                                      const unsigned (&c)[2]) {
    SimtMmaOperands mine;
    float sums[4];
    simt_mma_from_f16(mine, a, b);
    simt_mma_exchange(mine, sums, 2);
    d[0] = simt_mma_add_f16(c[0], sums[0], sums[1]);
    d[1] = simt_mma_add_f16(c[1], sums[2], sums[3]);
}
