// wgmma on the SIMT machine: what common/wgmma.cuh includes when it is not compiled for a GPU. Not in kernels_cu, so that
// a finding names the kernel's line and not a line of this file.
//
// Sums   products are exact; those of one instruction are added in float in the order of k, beginning with 0, and then to
//        the old d. Tensor cores round the partial sums differently, so the last bits differ.
// The runtime (runtime/wgmma.cpp) knows descriptors, lanes and time; this file knows the number formats.
#pragma once
#include "simt/half_bits.h"

// `count` numbers of one format, 16 or 8 bits each, as floats.
SIMT_HELPER void simt_floats_of_f16(const void* from, float* to, unsigned count) {
    for (unsigned i = 0; i < count; ++i) to[i] = simt_half_bits_to_float(static_cast<const unsigned short*>(from)[i]);
}
SIMT_HELPER void simt_floats_of_bf16(const void* from, float* to, unsigned count) {
    for (unsigned i = 0; i < count; ++i) to[i] = simt_bf16_bits_to_float(static_cast<const unsigned short*>(from)[i]);
}
SIMT_HELPER void simt_floats_of_e4m3(const void* from, float* to, unsigned count) {
    for (unsigned i = 0; i < count; ++i) to[i] = simt_e4m3_bits_to_float(static_cast<const unsigned char*>(from)[i]);
}

#define SIMT_WGMMA_CHECK_REGS                                                         \
    static_assert(WGMMA_REGS % 8 == 0 && WGMMA_REGS >= 8 && WGMMA_REGS <= 128,        \
                  "wgmma: d has n / 2 accumulators, n a multiple of 16, at most 256")
#define SIMT_WGMMA_16BIT(TYPE)                                                                                           \
    template <int TRANS_A = 0, int TRANS_B = 0, int WGMMA_REGS>                                                                \
    SIMT_INLINE void wgmma_m64k16_f32_##TYPE##_ss(float (&d)[WGMMA_REGS], unsigned long long a, unsigned long long b,          \
                                                  int scale_d) {                                                         \
        SIMT_WGMMA_CHECK_REGS;                                                                                           \
        simt_wgmma(d, WGMMA_REGS, nullptr, a, b, 2, TRANS_A, TRANS_B, scale_d, simt_floats_of_##TYPE);                         \
    }                                                                                                                    \
    template <int TRANS_B = 0, int WGMMA_REGS>                                                                                 \
    SIMT_INLINE void wgmma_m64k16_f32_##TYPE##_rs(float (&d)[WGMMA_REGS], const unsigned (&a)[4], unsigned long long b,        \
                                                  int scale_d) {                                                         \
        SIMT_WGMMA_CHECK_REGS;                                                                                           \
        simt_wgmma(d, WGMMA_REGS, a, 0, b, 2, 0, TRANS_B, scale_d, simt_floats_of_##TYPE);                                     \
    }
SIMT_WGMMA_16BIT(f16)
SIMT_WGMMA_16BIT(bf16)
#undef SIMT_WGMMA_16BIT

template <int WGMMA_REGS>
SIMT_INLINE void wgmma_m64k32_f32_e4m3_ss(float (&d)[WGMMA_REGS], unsigned long long a, unsigned long long b, int scale_d) {
    SIMT_WGMMA_CHECK_REGS;
    simt_wgmma(d, WGMMA_REGS, nullptr, a, b, 1, 0, 0, scale_d, simt_floats_of_e4m3);
}
template <int WGMMA_REGS>
SIMT_INLINE void wgmma_m64k32_f32_e4m3_rs(float (&d)[WGMMA_REGS], const unsigned (&a)[4], unsigned long long b, int scale_d) {
    SIMT_WGMMA_CHECK_REGS;
    simt_wgmma(d, WGMMA_REGS, a, 0, b, 1, 0, 0, scale_d, simt_floats_of_e4m3);
}
#undef SIMT_WGMMA_CHECK_REGS

SIMT_INLINE void wgmma_fence() { simt_wgmma_fence(); }
SIMT_INLINE void wgmma_commit_group() { simt_wgmma_commit(); }
template <int WGMMA_GROUPS>
SIMT_INLINE void wgmma_wait_group() {
    static_assert(WGMMA_GROUPS >= 0 && WGMMA_GROUPS <= 7, "wgmma_wait_group: groups that may stay in flight, 0 to 7");
    simt_wgmma_wait(WGMMA_GROUPS);
}
// The hooks are opaque calls, across which the compiler moves no access of an array that they know.
template <int WGMMA_REGS>
SIMT_INLINE void wgmma_keep_order(float (&)[WGMMA_REGS]) {}
template <int WGMMA_REGS>
SIMT_INLINE void wgmma_keep_order(unsigned (&)[WGMMA_REGS][4]) {}
