"""Wrong answers to 02.5, each an edit of kernels_cu/reduction/04_rows_in_turn.cu."""

from course_lib.grading.exercise.submissions import Wrong

ROWS = "for (int row = blockIdx.x; row < num_rows; row += gridDim.x) {"
PUT = "sum_smem[threadIdx.x] = sum;"
STEP = "sum_smem[threadIdx.x] += sum_smem[threadIdx.x + stride];"
TREE_BARRIER = "__syncthreads();  // separates the writes of the step before from the reads of this one"
READ_BARRIER = "__syncthreads();  // separates thread 0's last write from its reads"
MEAN = "const float mean = sum_smem[0] / num_cols;"
WRITE = "out_row[col] = x_row[col] - mean;"
MENDED = "__syncthreads();  // separates all reads of sum_smem[0] from the first write for the next row"

ANSWERS = [
    # barriers
    Wrong("as given", ((MENDED, ""),), "race", "sum_smem"),
    Wrong("barrier of the warp alone", ((MENDED, "__syncwarp();"),), "race", "sum_smem"),
    Wrong("a memory fence", ((MENDED, "__threadfence_block();"),), "race", "sum_smem"),
    Wrong(
        "barrier before the mean is read, once more",
        ((MENDED, ""), (MEAN, "__syncthreads();\n        " + MEAN)),
        "race",
        "sum_smem",
    ),
    Wrong(
        "barrier before the loop over rows", ((MENDED, ""), (ROWS, "__syncthreads();\n    " + ROWS)), "race", "sum_smem"
    ),
    Wrong("barrier after the write", ((MENDED, ""), (PUT, PUT + "\n        __syncthreads();")), "race", "sum_smem"),
    Wrong("moved instead of added", ((READ_BARRIER, ""),), "race", "sum_smem"),
    Wrong("barrier of the tree gone", ((TREE_BARRIER, ""),), "race", "sum_smem"),
    Wrong("barrier inside the branch", ((STEP, STEP + "\n                __syncthreads();"),), "divergent_barrier", ""),
    Wrong(
        "barrier in the column loop",
        ((MENDED, ""), (WRITE, WRITE + "\n            __syncthreads();")),
        "divergent_barrier",
        "",
    ),
    Wrong(
        "barrier for half of the threads",
        ((MENDED, "if (threadIdx.x < 32) __syncthreads();"),),
        "divergent_barrier",
        "",
    ),
    Wrong("busy threads skip it", ((MENDED, "if (threadIdx.x < num_cols) __syncthreads();"),), "divergent_barrier", ""),
    # mended by changing what is computed
    Wrong("the first row alone", ((MENDED, "break;"),), "unwritten", "rows"),
    Wrong(
        "another place for everybody",
        ((MENDED, ""), ("const float mean = sum_smem[0]", "const float mean = sum_smem[threadIdx.x]")),
        "wrong_mean",
        "not the mean of this row",
    ),
    Wrong("the sum subtracted", ((MEAN, "const float mean = sum_smem[0];"),), "sum_not_divided", "not the mean"),
    Wrong(
        "divided by the threads",
        ((MEAN, "const float mean = sum_smem[0] / BLOCK;"),),
        "wrong_divisor",
        "threads of the block",
    ),
    Wrong("the mean added", ((WRITE, "out_row[col] = x_row[col] + mean;"),), "wrong_sign", "added"),
    Wrong("nothing subtracted", ((WRITE, "out_row[col] = x_row[col];"),), "copy_of_input", "input x"),
    Wrong(
        "sum kept from row to row",
        (("float sum = 0.0f;\n        for", "for"), ("__shared__ float", "float sum = 0.0f;\n    __shared__ float")),
        "wrong_mean",
        "not the mean of this row",
    ),
    Wrong("zeros", ((WRITE, "out_row[col] = 0.0f;"),), "all_zeros", ""),
]
