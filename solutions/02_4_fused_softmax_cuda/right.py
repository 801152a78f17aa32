"""Right answers to 02.4 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

HEAD = """#ifndef BLOCK
#define BLOCK 64
#endif
#define WHOLE 0xffffffffu

extern "C" __global__ void fused_softmax_kernel(const float* x, float* out, int num_rows, int num_cols) {
    extern __shared__ float row_smem[];
"""

WARP_REDUCTIONS = (
    HEAD
    + """    __shared__ float m_smem[BLOCK / 32], l_smem[BLOCK / 32];
    x += (size_t)blockIdx.x * num_cols;
    out += (size_t)blockIdx.x * num_cols;
    float m = -3.0e38f, l = 0.0f;
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) m = fmaxf(m, row_smem[col] = x[col]);
    for (int offset = 16; offset; offset /= 2) m = fmaxf(m, __shfl_xor_sync(WHOLE, m, offset));
    if (threadIdx.x % 32 == 0) m_smem[threadIdx.x / 32] = m;
    __syncthreads();
    for (int warp = 0; warp < BLOCK / 32; ++warp) m = fmaxf(m, m_smem[warp]);
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) l += row_smem[col] = expf(row_smem[col] - m);
    for (int offset = 16; offset; offset /= 2) l += __shfl_xor_sync(WHOLE, l, offset);
    if (threadIdx.x % 32 == 0) l_smem[threadIdx.x / 32] = l;
    __syncthreads();
    l = 0.0f;
    for (int warp = 0; warp < BLOCK / 32; ++warp) l += l_smem[warp];
    for (int col = threadIdx.x; col < num_cols; col += BLOCK) out[col] = row_smem[col] / l;
}
"""
)

# The row in shared memory for all: fetched together, reduced by one warp, written back to front.
ONE_WARP_REDUCES = (
    HEAD
    + """    __shared__ float result[2];
    const float* x_row = x + (size_t)blockIdx.x * num_cols;
    for (int col = threadIdx.x; col < num_cols; col += blockDim.x) row_smem[col] = x_row[col];
    __syncthreads();
    if (threadIdx.x < 32) {
        float m = -3.0e38f, l = 0.0f;
        for (int col = threadIdx.x; col < num_cols; col += 32) m = fmaxf(m, row_smem[col]);
        for (int offset = 16; offset; offset /= 2) m = fmaxf(m, __shfl_xor_sync(WHOLE, m, offset));
        for (int col = threadIdx.x; col < num_cols; col += 32) l += expf(row_smem[col] - m);
        for (int offset = 16; offset; offset /= 2) l += __shfl_xor_sync(WHOLE, l, offset);
        if (threadIdx.x == 0) result[0] = m, result[1] = l;
    }
    __syncthreads();
    for (int col = num_cols - 1 - (int)threadIdx.x; col >= 0; col -= BLOCK) {
        out[(size_t)blockIdx.x * num_cols + col] = expf(row_smem[col] - result[0]) / result[1];
    }
}
"""
)

ANSWERS = [
    Right("reductions by shuffles", text=WARP_REDUCTIONS),
    Right("one warp reduces", text=ONE_WARP_REDUCES),
    Right(
        "base 2",
        (("row_smem[col] = expf(row_smem[col] - m);", "row_smem[col] = exp2f((row_smem[col] - m) * LOG2_E);"),),
    ),
    Right(
        "a second shared array in place of the barrier",
        (
            ("__syncthreads();", ""),
            ("__shared__ float reduce_smem[BLOCK];", "__shared__ float reduce_smem[BLOCK], sum_smem[BLOCK];"),
            ("block_sum(l_thread, reduce_smem)", "block_sum(l_thread, sum_smem)"),
        ),
    ),
    Right(
        "scores kept, exponentials made twice",
        (
            (
                "row_smem[col] = expf(row_smem[col] - m);\n        l_thread += row_smem[col];",
                "l_thread += expf(row_smem[col] - m);",
            ),
            ("out_row[col] = row_smem[col] / l;", "out_row[col] = expf(row_smem[col] - m) / l;"),
        ),
    ),
    Right(
        "neighbouring columns for each thread",
        (
            (
                "    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {\n        row_smem[col] = x_row[col];",
                "    const int share = (num_cols + BLOCK - 1) / BLOCK;\n"
                "    const int first = threadIdx.x * share, last = min(num_cols, first + share);\n"
                "    for (int col = first; col < last; ++col) {\n        row_smem[col] = x_row[col];",
            ),
            (
                "    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {\n        row_smem[col] = expf",
                "    for (int col = first; col < last; ++col) {\n        row_smem[col] = expf",
            ),
            (
                "    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {\n        out_row",
                "    for (int col = first; col < last; ++col) {\n        out_row",
            ),
        ),
        remark="neighbouring lanes",
    ),
]
