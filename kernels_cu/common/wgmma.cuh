// wgmma — the warpgroup's asynchronous matrix product d = a b + d on tensor cores (wgmma.mma_async)
//
// All 128 threads of a warpgroup take part; d is 64 x n in their registers, b is k x n in shared memory, a is 64 x k in shared memory
// (_ss) or in registers (_rs). n is twice the number of accumulators a thread holds: a multiple of 16, at most 256. k is 16 for
// half and bfloat16, 32 for e4m3. With warp = thread / 32 (of the warpgroup), g = lane / 4 and t = lane % 4:
//     d[4 j + 2 h + e]  row 16 warp + g + 8 h, column 8 j + 2 t + e        for j < n / 8, h < 2, e < 2
//     a (_rs)           as mma.m16n8k16 takes it (common/tensor_core.cuh), for the warp's 16 rows; e4m3: a[0] row g, k 4t to 4t+3,
//                       a[1] row g + 8, a[2] and a[3] the same rows 16 of k further
// An operand in shared memory is named by a descriptor (wgmma_descriptor): where it begins, and how far apart its parts are.
// With the swizzle of 128 bytes (16-bit elements; a "panel" is 64 elements = 128 bytes wide):
//     k runs along the rows (K-major; trans = 0)   stride_bytes 1024 (the next 8 rows), leading_bytes unused; the next 16 of k are
//                                                  32 bytes further, four times in a panel
//     k runs down the columns (MN-major; trans = 1) stride_bytes 1024 (the next 8 of k), leading_bytes the distance of panels (the
//                                                  next 64 of m or n); the next 16 of k are 2,048 bytes further
// The product is in flight from its call to the wait for its group. Until then d, and a in registers, may not be touched:
//     wgmma_fence(); wgmma_…(…); … wgmma_commit_group(); … wgmma_wait_group<0>();
// wgmma_fence() comes before the first product and after any write of d or a by the thread; scale_d = 0 ignores the old d.
// Names: wgmma_m64k<k>_<type of d>_<type of a and b>_<ss or rs>.
// Needs     compute capability 9.0a · device code only, no host headers
// Source    PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "Matrix-descriptor-format"
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define SWIZZLE_NONE 0  // in the order of the descriptor's field
#define SWIZZLE_128B 1
#define SWIZZLE_64B 2
#define SWIZZLE_32B 3

// The descriptor of an operand that begins at `tile_smem`.
//     bits 0-13 address / 16 · 16-29 leading_bytes / 16 · 32-45 stride_bytes / 16 · 62-63 swizzle
__device__ __forceinline__ unsigned long long wgmma_descriptor(const void* tile_smem, unsigned leading_bytes, unsigned stride_bytes,
                                                               unsigned swizzle = SWIZZLE_128B) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(tile_smem));
    return (unsigned long long)((address & 0x3ffff) >> 4) | (unsigned long long)((leading_bytes & 0x3ffff) >> 4) << 16 |
           (unsigned long long)((stride_bytes & 0x3ffff) >> 4) << 32 | (unsigned long long)swizzle << 62;
}

#ifndef __CUDA_ARCH__
#include <simt/wgmma.h>  // the same functions on the SIMT machine
#elif !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "common/wgmma.cuh: wgmma needs compute capability 9.0a (sm_90a); neither older nor newer GPUs have it"
#else

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }

// Waits until at most the NUM_GROUPS newest groups are in flight.
template <int NUM_GROUPS>
__device__ __forceinline__ void wgmma_wait_group() {
    static_assert(NUM_GROUPS >= 0 && NUM_GROUPS <= 7, "wgmma_wait_group: groups that may stay in flight, 0 to 7");
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(NUM_GROUPS) : "memory");
}

// Tells the compiler that the registers change here, so that it moves no use of them across; no instruction.
template <int WGMMA_REGISTERS>
__device__ __forceinline__ void wgmma_keep_order(float (&d)[WGMMA_REGISTERS]) {
#pragma unroll
    for (int i = 0; i < WGMMA_REGISTERS; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int WGMMA_STEPS>
__device__ __forceinline__ void wgmma_keep_order(unsigned (&a)[WGMMA_STEPS][4]) {
#pragma unroll
    for (int i = 0; i < WGMMA_STEPS * 4; ++i) asm volatile("" : "+r"(a[i / 4][i % 4])::"memory");
}

// The names of the accumulators in an instruction, and their list as operands: the first 8, 16, … of them.
#define WGMMA_D8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_D16 WGMMA_D8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_D24 WGMMA_D16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_D32 WGMMA_D24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_D40 WGMMA_D32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_D48 WGMMA_D40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_D56 WGMMA_D48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_D64 WGMMA_D56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_D72 WGMMA_D64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_D80 WGMMA_D72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_D88 WGMMA_D80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_D96 WGMMA_D88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_D104 WGMMA_D96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_D112 WGMMA_D104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_D120 WGMMA_D112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_D128 WGMMA_D120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_O8 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define WGMMA_O16 WGMMA_O8, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define WGMMA_O24 WGMMA_O16, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define WGMMA_O32 WGMMA_O24, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define WGMMA_O40 WGMMA_O32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define WGMMA_O48 WGMMA_O40, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define WGMMA_O56 WGMMA_O48, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define WGMMA_O64 WGMMA_O56, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define WGMMA_O72 WGMMA_O64, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define WGMMA_O80 WGMMA_O72, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define WGMMA_O88 WGMMA_O80, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define WGMMA_O96 WGMMA_O88, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define WGMMA_O104 WGMMA_O96, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define WGMMA_O112 WGMMA_O104, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define WGMMA_O120 WGMMA_O112, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define WGMMA_O128 WGMMA_O120, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// The functions of one type and one n. REGS accumulators a thread; P0, P1, … are the numbers of the operands after them.
#define WGMMA_16BIT(TYPE, N, REGS, P0, P1, P2, P3, P4, P5, P6, P7)                                                               \
    template <int TRANS_A = 0, int TRANS_B = 0>                                                                                  \
    __device__ __forceinline__ void wgmma_m64k16_f32_##TYPE##_ss(float (&d)[REGS], unsigned long long a, unsigned long long b,   \
                                                                 int scale_d) {                                                  \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P2 ", 0;\n"                                                           \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE " {" WGMMA_D##REGS "}, %" #P0 ", %" #P1   \
                     ", p, 1, 1, %" #P3 ", %" #P4 ";\n}\n"                                                                       \
                     : WGMMA_O##REGS                                                                                             \
                     : "l"(a), "l"(b), "r"(scale_d), "n"(TRANS_A), "n"(TRANS_B));                                                \
    }                                                                                                                            \
    template <int TRANS_B = 0>                                                                                                   \
    __device__ __forceinline__ void wgmma_m64k16_f32_##TYPE##_rs(float (&d)[REGS], const unsigned (&a)[4], unsigned long long b, \
                                                                 int scale_d) {                                                  \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P5 ", 0;\n"                                                           \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE " {" WGMMA_D##REGS "}, {%" #P0 ", %" #P1  \
                     ", %" #P2 ", %" #P3 "}, %" #P4 ", p, 1, 1, %" #P6 ";\n}\n"                                                  \
                     : WGMMA_O##REGS                                                                                             \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d), "n"(TRANS_B));                          \
    }
// Both operands are K-major: 8-bit types have no transposition.
#define WGMMA_8BIT(TYPE, N, REGS, P0, P1, P2, P3, P4, P5, P6, P7)                                                                \
    __device__ __forceinline__ void wgmma_m64k32_f32_##TYPE##_ss(float (&d)[REGS], unsigned long long a, unsigned long long b,   \
                                                                 int scale_d) {                                                  \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P2 ", 0;\n"                                                           \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32." #TYPE "." #TYPE " {" WGMMA_D##REGS "}, %" #P0 ", %" #P1   \
                     ", p, 1, 1;\n}\n"                                                                                           \
                     : WGMMA_O##REGS                                                                                             \
                     : "l"(a), "l"(b), "r"(scale_d));                                                                            \
    }                                                                                                                            \
    __device__ __forceinline__ void wgmma_m64k32_f32_##TYPE##_rs(float (&d)[REGS], const unsigned (&a)[4], unsigned long long b, \
                                                                 int scale_d) {                                                  \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P5 ", 0;\n"                                                           \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32." #TYPE "." #TYPE " {" WGMMA_D##REGS "}, {%" #P0 ", %" #P1  \
                     ", %" #P2 ", %" #P3 "}, %" #P4 ", p, 1, 1;\n}\n"                                                            \
                     : WGMMA_O##REGS                                                                                             \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d));                                        \
    }
#define WGMMA_FOR_EACH_N(KIND, TYPE)                             \
    KIND(TYPE, 16, 8, 8, 9, 10, 11, 12, 13, 14, 15)              \
    KIND(TYPE, 32, 16, 16, 17, 18, 19, 20, 21, 22, 23)           \
    KIND(TYPE, 48, 24, 24, 25, 26, 27, 28, 29, 30, 31)           \
    KIND(TYPE, 64, 32, 32, 33, 34, 35, 36, 37, 38, 39)           \
    KIND(TYPE, 80, 40, 40, 41, 42, 43, 44, 45, 46, 47)           \
    KIND(TYPE, 96, 48, 48, 49, 50, 51, 52, 53, 54, 55)           \
    KIND(TYPE, 112, 56, 56, 57, 58, 59, 60, 61, 62, 63)          \
    KIND(TYPE, 128, 64, 64, 65, 66, 67, 68, 69, 70, 71)          \
    KIND(TYPE, 144, 72, 72, 73, 74, 75, 76, 77, 78, 79)          \
    KIND(TYPE, 160, 80, 80, 81, 82, 83, 84, 85, 86, 87)          \
    KIND(TYPE, 176, 88, 88, 89, 90, 91, 92, 93, 94, 95)          \
    KIND(TYPE, 192, 96, 96, 97, 98, 99, 100, 101, 102, 103)      \
    KIND(TYPE, 208, 104, 104, 105, 106, 107, 108, 109, 110, 111) \
    KIND(TYPE, 224, 112, 112, 113, 114, 115, 116, 117, 118, 119) \
    KIND(TYPE, 240, 120, 120, 121, 122, 123, 124, 125, 126, 127) \
    KIND(TYPE, 256, 128, 128, 129, 130, 131, 132, 133, 134, 135)
WGMMA_FOR_EACH_N(WGMMA_16BIT, f16)
WGMMA_FOR_EACH_N(WGMMA_16BIT, bf16)
WGMMA_FOR_EACH_N(WGMMA_8BIT, e4m3)

#endif

// The same for ELEMENT, __half or __nv_bfloat16; the last argument is ELEMENT() and only chooses the instruction.
template <int TRANS_A = 0, int TRANS_B = 0, int REGS>
__device__ __forceinline__ void wgmma_ss(float (&d)[REGS], unsigned long long a, unsigned long long b, int scale_d, __half) {
    wgmma_m64k16_f32_f16_ss<TRANS_A, TRANS_B>(d, a, b, scale_d);
}
template <int TRANS_A = 0, int TRANS_B = 0, int REGS>
__device__ __forceinline__ void wgmma_ss(float (&d)[REGS], unsigned long long a, unsigned long long b, int scale_d, __nv_bfloat16) {
    wgmma_m64k16_f32_bf16_ss<TRANS_A, TRANS_B>(d, a, b, scale_d);
}
template <int TRANS_B = 0, int REGS>
__device__ __forceinline__ void wgmma_rs(float (&d)[REGS], const unsigned (&a)[4], unsigned long long b, int scale_d, __half) {
    wgmma_m64k16_f32_f16_rs<TRANS_B>(d, a, b, scale_d);
}
template <int TRANS_B = 0, int REGS>
__device__ __forceinline__ void wgmma_rs(float (&d)[REGS], const unsigned (&a)[4], unsigned long long b, int scale_d, __nv_bfloat16) {
    wgmma_m64k16_f32_bf16_rs<TRANS_B>(d, a, b, scale_d);
}
