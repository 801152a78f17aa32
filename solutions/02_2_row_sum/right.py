"""Right answers to 02.2 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

HEAD = """#include "common/constants.cuh"

extern "C" __global__ void
row_sum_warp_kernel(const float* x, float* out, int num_rows, int num_cols) {
    const int lane = threadIdx.x % WARP_SIZE;
    const int row = blockIdx.x * (blockDim.x / WARP_SIZE) + threadIdx.x / WARP_SIZE;
"""

ANSWERS = [
    Right("butterfly", (("__shfl_down_sync", "__shfl_xor_sync"),)),
    Right(
        "offsets from 1 to 16",
        (("int offset = WARP_SIZE / 2; offset > 0; offset /= 2", "int offset = 1; offset < WARP_SIZE; offset *= 2"),),
    ),
    Right(
        "lane 31 collects",
        text=HEAD
        + """    if (row < num_rows) {
        float total = 0.0f;
        for (int col = num_cols - 1 - lane; col >= 0; col -= 32) total += x[(size_t)row * num_cols + col];
        for (int offset = 1; offset < 32; offset <<= 1) total += __shfl_up_sync(~0u, total, offset);
        // lanes below `offset` add their own sum once more; lane 31 never reads one of those wrongly
        if (lane == 31) out[row] = total;
    }
}
""",
    ),
    Right(
        "each lane in turn is asked",
        text=HEAD
        + """    if (row >= num_rows) return;
    float own = 0.0f, total = 0.0f;
    for (int col = lane; col < num_cols; col += 32) own += x[(size_t)row * num_cols + col];
    for (int other = 0; other < 32; ++other) total += __shfl_sync(ALL_LANES, own, other);
    if (lane == 7) out[row] = total;
}
""",
    ),
    Right(
        "four columns a load",
        text=HEAD
        + """    if (row >= num_rows) return;
    const size_t begin = (size_t)row * num_cols;
    const int head = min(num_cols, (int)((4 - begin % 4) % 4));  // columns before the first whole float4
    const int tail = head + (num_cols - head) / 4 * 4;
    float sum = lane < head ? x[begin + lane] : 0.0f;
    for (int col = head + 4 * lane; col < tail; col += 128) {
        const float4 four = *(const float4*)(x + begin + col);
        sum += (four.x + four.y) + (four.z + four.w);
    }
    if (tail + lane < num_cols) sum += x[begin + tail + lane];
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_down_sync(ALL_LANES, sum, offset);
    if (lane == 0) out[row] = sum;
}
""",
    ),
    Right(
        "two sums a lane",
        text=HEAD
        + """    if (row >= num_rows) return;
    const float* x_row = x + (size_t)row * num_cols;
    float even = 0.0f, odd = 0.0f;
    int col = lane;
    for (; col + 32 < num_cols; col += 64) {
        even += x_row[col];
        odd += x_row[col + 32];
    }
    if (col < num_cols) even += x_row[col];
    float sum = even + odd;
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(ALL_LANES, sum, offset);
    if (lane == 0) out[row] = sum;
}
""",
    ),
    Right(
        "columns in runs",
        text=HEAD
        + """    if (row >= num_rows) return;
    const int share = (num_cols + 31) / 32;
    float sum = 0.0f;
    for (int k = 0; k < share; ++k) {
        const int col = lane * share + k;
        sum += col < num_cols ? x[(size_t)row * num_cols + col] : 0.0f;
    }
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_down_sync(ALL_LANES, sum, offset);
    if (lane == 0) out[row] = sum;
}
""",
        remark="neighbouring lanes",
    ),
]
