"""Right answers to 12.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

ANSWERS = [
    Right(
        "norm of the sum before it is rounded",
        (
            (
                "        const __half sum = __float2half_rn(__half2float(residual[col]) + __half2float(x[col]));\n"
                "        residual[col] = sum;",
                "        const float exact = __half2float(residual[col]) + __half2float(x[col]);\n"
                "        const __half sum = __float2half_rn(exact);\n"
                "        residual[col] = sum;",
            ),
            ("        const float value = __half2float(sum);", "        const float value = exact;"),
        ),
    ),
    Right(
        "rounded before weight, as Llama's own code",
        (
            (
                "__float2half_rn(value * rstd * __half2float(weight[col]))",
                "__hmul(__float2half_rn(value * rstd), weight[col])",
            ),
        ),
    ),
    Right(
        "warp shuffles, and a root of its own",
        (
            (
                "    squares = block_sum(squares, reduce_smem);",
                "    for (int offset = 16; offset; offset /= 2) "
                "squares += __shfl_xor_sync(0xffffffffu, squares, offset);\n"
                "    if (threadIdx.x % 32 == 0) reduce_smem[threadIdx.x / 32] = squares;\n"
                "    __syncthreads();\n"
                "    squares = 0.0f;\n"
                "    for (int warp = 0; warp < BLOCK / 32; ++warp) squares += reduce_smem[warp];",
            ),
            ("rsqrtf(squares / num_cols + eps)", "1.0f / sqrtf(squares / num_cols + eps)"),
        ),
    ),
    Right(
        "neighbouring columns for a thread, added in half",
        (
            (
                "    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {\n        const __half sum = "
                "__float2half_rn(__half2float(residual[col]) + __half2float(x[col]));",
                "    const int share = (num_cols + BLOCK - 1) / BLOCK, begin = threadIdx.x * share;\n"
                "    const int end = min(num_cols, begin + share);\n"
                "    for (int col = begin; col < end; ++col) {\n"
                "        const __half sum = __hadd(residual[col], x[col]);",
            ),
            (
                "    for (int col = threadIdx.x; col < num_cols; col += BLOCK) {\n"
                "        const float value = __half2float(row_smem[col]);",
                "    for (int col = begin; col < end; ++col) {\n"
                "        const float value = __half2float(row_smem[col]);",
            ),
        ),
    ),
]
