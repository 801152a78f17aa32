"""Right answers to 04.3 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

A_PLACE = "const int row = g + i % 2 * 8, k = k_start + 2 * t + i / 2 * 8;"
A_PACK = "pack(a[row * size_k + k], a[row * size_k + k + 1])"
B_PLACE = "const int k = k_start + 2 * t + i * 8;"
B_PACK = "pack(b[k * size_n + g], b[(k + 1) * size_n + g])"

# Through shared memory and ldmatrix, which does the layout by itself.
LDMATRIX = """#include <cuda_fp16.h>
#include "common/tensor_core.cuh"

extern "C" __global__ void
fragment_matmul_kernel(const __half* a, const __half* b, float* out, int size_n, int size_k) {
    __shared__ __align__(16) __half a_tile[16][24], b_tile[16][8];
    const int lane = threadIdx.x, row = blockIdx.y * 16, col = blockIdx.x * 8;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int start = 0; start < size_k; start += 16) {
        __syncwarp();
        for (int i = lane; i < 256; i += 32) a_tile[i / 16][i % 16] = a[(row + i / 16) * size_k + start + i % 16];
        for (int i = lane; i < 128; i += 32) b_tile[i / 8][i % 8] = b[(start + i / 8) * size_n + col + i % 8];
        __syncwarp();
        unsigned left[4], right[2];
        ldmatrix_x4(left[0], left[1], left[2], left[3], &a_tile[lane % 16][lane / 16 * 8]);
        ldmatrix_x2_trans(right[0], right[1], &b_tile[lane % 16][0]);
        mma_m16n8k16_f32_f16(sums, left, right, sums);
    }
    float* first = out + (row + lane / 4) * size_n + col + lane % 4 * 2;
    first[0] = sums[0];
    first[1] = sums[1];
    first[8 * size_n] = sums[2];
    first[8 * size_n + 1] = sums[3];
}
"""

ANSWERS = [
    Right("through shared memory and ldmatrix", text=LDMATRIX),
    Right(
        "the same k exchanged in both factors: halves",
        (
            (A_PACK, "pack(a[row * size_k + k + 1], a[row * size_k + k])"),
            (B_PACK, "pack(b[(k + 1) * size_n + g], b[k * size_n + g])"),
        ),
    ),
    Right(
        "the same k exchanged in both factors: registers",
        (
            (A_PLACE, A_PLACE.replace("i / 2 * 8", "(1 - i / 2) * 8")),
            (B_PLACE, B_PLACE.replace("i * 8", "(1 - i) * 8")),
        ),
    ),
    Right(
        "a register of a in one load of 32 bits",
        ((f"a_reg[i] = {A_PACK}", "a_reg[i] = *reinterpret_cast<const unsigned*>(a + row * size_k + k)"),),
    ),
    Right(
        "k from the end",
        (
            (
                "for (int k_start = 0; k_start < size_k; k_start += 16) {",
                "for (int k_start = size_k - 16; k_start >= 0; k_start -= 16) {",
            ),
        ),
    ),
    Right(
        "neighbouring k for a lane in both factors",
        (
            (A_PLACE, "const int row = g + i % 2 * 8, k = k_start + 4 * t + i / 2 * 2;"),
            (B_PLACE, "const int k = k_start + 4 * t + i * 2;"),
        ),
    ),
]
