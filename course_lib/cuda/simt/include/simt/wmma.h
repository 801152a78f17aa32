// nvcuda::wmma, the warp's matrix product D = A B + C. <mma.h> brings it out (simt/fp16.h says how).
//
// Covers  A (M x K), B (K x N) of half or bf16 with float or (half only) half accumulators;
//         M x N x K = 16 x 16 x 16, 32 x 8 x 16 and 8 x 32 x 16; row and column major.
// Layout  Which lane holds which element is not specified by CUDA, and no kernel may rely on it. Here it is that of the
//         mma.m16n8k16 instructions of PTX: lane 4 g + t holds rows g, g + 8, … (of A and C; columns of B) at the pairs
//         2 t, 2 t + 1, and 8 further on. Where CUDA's fragment is longer than that, its elements repeat.
// Access  Each lane reads or writes its own elements: two neighbours in memory as one access, others singly.
// Sums    products are exact, the 16 of one step are added in float in the order of k, then the accumulator's type rounds.
//         Tensor cores round the partial sums differently, so the last bits differ.
// Source: CUDA C++ Programming Guide, "Warp Matrix Functions"; PTX ISA, "Matrix Fragments for mma.m16n8k16".
#pragma once
#include "simt/bf16.h"

extern "C" unsigned simt_lane() __attribute__((const));  // runtime: 0 … 31

namespace simt_wmma {
using namespace simt_fp16;
using namespace simt_bf16;
namespace nvcuda {
namespace wmma {
struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
enum layout_t { mem_row_major, mem_col_major };

template <class T, int NUM_ELEMENTS, int UNIQUE>
struct simt_storage {
    typedef T element_type;
    typedef T storage_element_type;
    enum { num_elements = NUM_ELEMENTS, num_storage_elements = NUM_ELEMENTS, simt_unique = UNIQUE };
    T x[NUM_ELEMENTS];
};

template <class Use, int M, int N, int K, class T, class Layout = void>
class fragment;

// 16 elements for half whatever the shape, as CUDA has it.
#define SIMT_FRAGMENT(USE, M, N, T, LAYOUT, COUNT, UNIQUE) \
    template <>                                            \
    class fragment<USE, M, N, 16, T, LAYOUT> : public simt_storage<T, COUNT, UNIQUE> {};
#define SIMT_FRAGMENTS(M, N)                                                         \
    SIMT_FRAGMENT(matrix_a, M, N, __half, row_major, 16, M / 2)                      \
    SIMT_FRAGMENT(matrix_a, M, N, __half, col_major, 16, M / 2)                      \
    SIMT_FRAGMENT(matrix_b, M, N, __half, row_major, 16, N / 2)                      \
    SIMT_FRAGMENT(matrix_b, M, N, __half, col_major, 16, N / 2)                      \
    SIMT_FRAGMENT(matrix_a, M, N, __nv_bfloat16, row_major, M / 2, M / 2)            \
    SIMT_FRAGMENT(matrix_a, M, N, __nv_bfloat16, col_major, M / 2, M / 2)            \
    SIMT_FRAGMENT(matrix_b, M, N, __nv_bfloat16, row_major, N / 2, N / 2)            \
    SIMT_FRAGMENT(matrix_b, M, N, __nv_bfloat16, col_major, N / 2, N / 2)            \
    SIMT_FRAGMENT(accumulator, M, N, __half, void, 8, 8)                             \
    SIMT_FRAGMENT(accumulator, M, N, float, void, 8, 8)
SIMT_FRAGMENTS(16, 16)
SIMT_FRAGMENTS(32, 8)
SIMT_FRAGMENTS(8, 32)
#undef SIMT_FRAGMENTS
#undef SIMT_FRAGMENT

// ---- which element of the matrix a fragment's element is ----
struct SimtCoordinates {
    int outer, inner;  // outer: row of A and C, column of B; inner: k of A and B, column of C
};
// Element e of lane, for A and B of `extent` rows or columns. Bits of e: k's lowest; then 8 further rows (if extent > 8);
// then 8 further along k; then 16 further rows.
SIMT_INLINE constexpr SimtCoordinates simt_operand_coordinates(int extent, int lane, int e) {
    int rest = extent > 8 ? e >> 2 : e >> 1;
    int outer = lane / 4 + (extent > 8 ? 8 * (e >> 1 & 1) : 0) + 16 * (rest >> 1);
    return SimtCoordinates{outer, 2 * (lane % 4) + (e & 1) + 8 * (rest & 1)};
}
// The inverse; the element's lane is outer % 8 * 4 + k % 8 / 2.
SIMT_INLINE constexpr int simt_operand_element(int extent, int outer, int k) {
    return extent > 8 ? (k & 1) + 2 * (outer >> 3 & 1) + 4 * (k >> 3) + 8 * (outer >> 4) : (k & 1) + 2 * (k >> 3);
}
// Accumulators: column's lowest bit, then 8 rows further as often as M has them, then 8 columns further.
SIMT_INLINE constexpr SimtCoordinates simt_accumulator_coordinates(int rows, int lane, int e) {
    int row_blocks = rows / 8, block = e >> 1;
    return SimtCoordinates{lane / 4 + 8 * (block % row_blocks), 2 * (lane % 4) + (e & 1) + 8 * (block / row_blocks)};
}

template <class T>
SIMT_INLINE void simt_check_matrix(const T* pointer, unsigned ldm, int line) {
    if (reinterpret_cast<size_t>(pointer) % 32 != 0)
        simt_assert_fail("a wmma matrix starts at an address that is a multiple of 32 bytes", "<mma.h>", line);
    if (ldm * sizeof(T) % 16 != 0)
        simt_assert_fail("the leading dimension of a wmma matrix is a multiple of 16 bytes", "<mma.h>", line);
}

// ---- load and store: two neighbours as one word where they are contiguous in memory ----
template <class T>
struct SimtPairWord {
    typedef simt_word4 type;
};
template <>
struct SimtPairWord<float> {
    typedef simt_word8 type;
};

template <class Fragment, class T>
SIMT_INLINE void simt_load_operand(Fragment& fragment, const T* pointer, unsigned ldm, int extent, bool k_is_contiguous) {
    simt_check_matrix(pointer, ldm, __LINE__);
    int lane = static_cast<int>(simt_lane());
    for (int e = 0; e < Fragment::simt_unique; e += 2) {
        SimtCoordinates position = simt_operand_coordinates(extent, lane, e);
        if (k_is_contiguous) {
            simt_copy_word<simt_word4>(&fragment.x[e], pointer + static_cast<size_t>(position.outer) * ldm + position.inner);
        } else {
            fragment.x[e] = pointer[static_cast<size_t>(position.inner) * ldm + position.outer];
            fragment.x[e + 1] = pointer[static_cast<size_t>(position.inner + 1) * ldm + position.outer];
        }
    }
    for (int e = Fragment::simt_unique; e < Fragment::num_elements; ++e) fragment.x[e] = fragment.x[e % Fragment::simt_unique];
}

#define SIMT_LOAD(USE, LAYOUT, EXTENT, CONTIGUOUS)                                                                 \
    template <int M, int N, int K, class T>                                                                        \
    SIMT_INLINE void load_matrix_sync(fragment<USE, M, N, K, T, LAYOUT>& f, const T* pointer, unsigned ldm) {       \
        simt_load_operand(f, pointer, ldm, EXTENT, CONTIGUOUS);                                                    \
    }
SIMT_LOAD(matrix_a, row_major, M, true)
SIMT_LOAD(matrix_a, col_major, M, false)
SIMT_LOAD(matrix_b, row_major, N, false)
SIMT_LOAD(matrix_b, col_major, N, true)
#undef SIMT_LOAD

template <int M, int N, int K, class T>
SIMT_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const T* pointer, unsigned ldm, layout_t layout) {
    simt_check_matrix(pointer, ldm, __LINE__);
    int lane = static_cast<int>(simt_lane());
    for (int e = 0; e < f.num_elements; e += 2) {
        SimtCoordinates position = simt_accumulator_coordinates(M, lane, e);
        if (layout == mem_row_major) {
            const T* source = pointer + static_cast<size_t>(position.outer) * ldm + position.inner;
            simt_copy_word<typename SimtPairWord<T>::type>(&f.x[e], source);
        } else {
            f.x[e] = pointer[static_cast<size_t>(position.inner) * ldm + position.outer];
            f.x[e + 1] = pointer[static_cast<size_t>(position.inner + 1) * ldm + position.outer];
        }
    }
}

template <int M, int N, int K, class T>
SIMT_INLINE void store_matrix_sync(T* pointer, const fragment<accumulator, M, N, K, T>& f, unsigned ldm, layout_t layout) {
    simt_check_matrix(pointer, ldm, __LINE__);
    int lane = static_cast<int>(simt_lane());
    for (int e = 0; e < f.num_elements; e += 2) {
        SimtCoordinates position = simt_accumulator_coordinates(M, lane, e);
        if (layout == mem_row_major) {
            T* target = pointer + static_cast<size_t>(position.outer) * ldm + position.inner;
            simt_copy_word<typename SimtPairWord<T>::type>(target, &f.x[e]);
        } else {
            pointer[static_cast<size_t>(position.inner) * ldm + position.outer] = f.x[e];
            pointer[static_cast<size_t>(position.inner + 1) * ldm + position.outer] = f.x[e + 1];
        }
    }
}

template <class Use, int M, int N, int K, class T, class Layout, class Value>
SIMT_INLINE void fill_fragment(fragment<Use, M, N, K, T, Layout>& f, const Value& value) {
    for (int e = 0; e < f.num_elements; ++e) f.x[e] = static_cast<T>(value);
}

// ---- product ----
template <int M, int N>
struct SimtOperands {  // the record of one lane in simt_warp_gather: its part of A and B, as bits
    unsigned short a[M / 2], b[N / 2];
    unsigned short is_active;  // 1; the record of a lane that has returned is all ones
};
SIMT_INLINE float simt_operand_value(unsigned short bits, const __half*) { return simt_half_bits_to_float(bits); }
SIMT_INLINE float simt_operand_value(unsigned short bits, const __nv_bfloat16*) { return simt_bf16_bits_to_float(bits); }

// The lane's eight sums over k; `all` holds the 32 lanes' operands. False when a lane is missing.
template <int M, int N, class T>
SIMT_HELPER bool simt_multiply(const SimtOperands<M, N>* all, int lane, float (&sums)[8]) {
    const T* type = nullptr;
    for (int other = 0; other < 32; ++other)
        if (all[other].is_active != 1) return false;
    for (int e = 0; e < 8; ++e) {
        SimtCoordinates position = simt_accumulator_coordinates(M, lane, e);
        float sum = 0.0f;
        for (int k = 0; k < 16; ++k) {
            unsigned short a = all[position.outer % 8 * 4 + k % 8 / 2].a[simt_operand_element(M, position.outer, k)];
            unsigned short b = all[position.inner % 8 * 4 + k % 8 / 2].b[simt_operand_element(N, position.inner, k)];
            sum += simt_operand_value(a, type) * simt_operand_value(b, type);
        }
        sums[e] = sum;
    }
    return true;
}

template <int M, int N, class T, class LayoutA, class LayoutB, class D, class C>
SIMT_INLINE void mma_sync(fragment<accumulator, M, N, 16, D>& d, const fragment<matrix_a, M, N, 16, T, LayoutA>& a,
                          const fragment<matrix_b, M, N, 16, T, LayoutB>& b, const fragment<accumulator, M, N, 16, C>& c) {
    SimtOperands<M, N> mine;
    for (int e = 0; e < M / 2; ++e) mine.a[e] = a.x[e].simt_bits;
    for (int e = 0; e < N / 2; ++e) mine.b[e] = b.x[e].simt_bits;
    mine.is_active = 1;
    const void* all;
    simt_warp_gather(0xffffffffu, &mine, sizeof(mine), &all);
    float sums[8] = {};
    const auto* operands = static_cast<const SimtOperands<M, N>*>(all);
    if (!simt_multiply<M, N, T>(operands, static_cast<int>(simt_lane()), sums))
        simt_assert_fail("all 32 lanes of the warp take part in mma_sync", "<mma.h>", __LINE__);
    for (int e = 0; e < 8; ++e) d.x[e] = static_cast<D>(static_cast<float>(c.x[e]) + sums[e]);
}
}  // namespace wmma
}  // namespace nvcuda
}  // namespace simt_wmma
