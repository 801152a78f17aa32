// 05_int4_gemv — a vector times a matrix whose numbers have four bits, eight of them in a word: out = W x
//
// Idea      a warp has a row of W; a lane reads a word, which is eight weights, and unpacks them in registers
// Builds on reduction/03_warp_rows
// Contract  packed (num_rows, num_cols / 8) words: number j of word i is that of column 8 i + j, in the bits 4 j to 4 j + 3
//           scales, zeros (num_rows, ceil(num_cols / group)) float and unsigned char: W = scale * (number - zero)
//           x (num_cols,) float · out (num_rows,) float, summed in float · num_cols and group multiples of 8
// Launch    grid num_rows · block 32
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
#include "common/warp_reduce.cuh"  // WARP_SIZE; warp_sum(value): all 32 lanes take part, and all get the sum

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
int4_gemv_kernel(const float* x, const unsigned* packed, const float* scales, const unsigned char* zeros, float* out,
                 int num_cols, int group) {
    const long long row = blockIdx.x;
    const int lane = threadIdx.x, num_words = num_cols / 8;
    // BEGIN SOLUTION
    const int num_groups = (num_cols + group - 1) / group;
    float sum = 0.0f;
    for (int i = lane; i < num_words; i += WARP_SIZE) {
        const unsigned word = packed[row * num_words + i];
        const long long which = row * num_groups + 8 * i / group;
        const float zero = zeros[which];
        float part = 0.0f;
        for (int j = 0; j < 8; ++j) {
            const unsigned number = (word >> (4 * j)) & 15u;
            part += ((float)number - zero) * x[8 * i + j];
        }
        sum += scales[which] * part;
    }
    sum = warp_sum(sum);
    if (lane == 0) out[row] = sum;
    // END SOLUTION
}
