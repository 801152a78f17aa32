"""Right answers to 02.5: the race mended in other ways."""

from course_lib.grading.exercise.submissions import Right

MENDED = "__syncthreads();  // separates all reads of sum_smem[0] from the first write for the next row"
PUT = "sum_smem[threadIdx.x] = sum;"
MEAN = "const float mean = sum_smem[0] / num_cols;"

ANSWERS = [
    Right("barrier before the first write", ((MENDED, ""), (PUT, "__syncthreads();\n        " + PUT))),
    Right("barrier as soon as the mean is read", ((MENDED, ""), (MEAN, MEAN + "\n        __syncthreads();"))),
    Right("barrier unless it was the last row", ((MENDED, "if (row + gridDim.x < num_rows) __syncthreads();"),)),
    Right(
        "the mean in a place of its own",
        (
            (MENDED, ""),
            ("__shared__ float sum_smem[BLOCK];", "__shared__ float sum_smem[BLOCK], mean_smem;"),
            (
                MEAN,
                "if (threadIdx.x == 0) mean_smem = sum_smem[0] / num_cols;\n        __syncthreads();\n"
                "        const float mean = mean_smem;",
            ),
        ),
    ),
    Right(
        "two arrays in turn",
        (
            (MENDED, ""),
            (
                "__shared__ float sum_smem[BLOCK];",
                "__shared__ float both_smem[2][BLOCK];\n    float* sum_smem = both_smem[0];",
            ),
            (PUT, "sum_smem = sum_smem == both_smem[0] ? both_smem[1] : both_smem[0];\n        " + PUT),
        ),
    ),
    Right(
        "barrier at the start of a turn",
        ((MENDED, ""), ("float sum = 0.0f;", "__syncthreads();\n        float sum = 0.0f;")),
    ),
    Right(
        "neighbouring rows for each block",
        (
            (
                "for (int row = blockIdx.x; row < num_rows; row += gridDim.x) {",
                "const int share = (num_rows + gridDim.x - 1) / gridDim.x, first = blockIdx.x * share;\n"
                "    for (int row = first; row < num_rows && row < first + share; ++row) {",
            ),
        ),
    ),
]
