// 04.1 tile with tails — matrix product, a block shares a flat tile of the result, any sizes
//
// Idea      8 rows and 32 columns of the result for 256 threads: a warp is a row, and k is taken in steps of 32
// Builds on matmul/03_shared_tile. Changed: the tiles of a and b have different shapes, so each is loaded in its own way.
// Contract  a (size_m, size_k) float · b (size_k, size_n) float · out (size_m, size_n) float = a b · all contiguous, any sizes >= 1
//           no Triton twin: 04.4 is the exercise in Triton
// Launch    grid (ceil(size_n / 32), ceil(size_m / 8)) · block (32, 8) · static shared memory of 5120 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
#define BLOCK_M 8   // rows of the result of a block, and warps
#define BLOCK_N 32  // columns, and lanes
#define BLOCK_K 32  // numbers of k in a step

extern "C" __global__ void __launch_bounds__(BLOCK_M * BLOCK_N)
tile_matmul_kernel(const float* a, const float* b, float* out, int size_m, int size_n, int size_k) {
    __shared__ float a_smem[BLOCK_M][BLOCK_K];  // (row, k)
    __shared__ float b_smem[BLOCK_K][BLOCK_N];  // (k, col)
    const int tile_row = threadIdx.y, tile_col = threadIdx.x;
    const int row = blockIdx.y * BLOCK_M + tile_row;
    const int col = blockIdx.x * BLOCK_N + tile_col;
    // BEGIN SOLUTION
    float acc = 0.0f;
    for (int k_start = 0; k_start < size_k; k_start += BLOCK_K) {
        const int a_col = k_start + tile_col;  // a's tile has as many columns as a warp has lanes
        a_smem[tile_row][tile_col] = row < size_m && a_col < size_k ? a[(size_t)row * size_k + a_col] : 0.0f;
        for (int tile_k = tile_row; tile_k < BLOCK_K; tile_k += BLOCK_M) {  // each warp loads 4 rows of b's tile
            const int b_row = k_start + tile_k;
            b_smem[tile_k][tile_col] = b_row < size_k && col < size_n ? b[(size_t)b_row * size_n + col] : 0.0f;
        }
        __syncthreads();  // separates the writes of the tiles from all threads' reads
        for (int k = 0; k < BLOCK_K; ++k) {
            acc += a_smem[tile_row][k] * b_smem[k][tile_col];
        }
        __syncthreads();  // separates the reads of these tiles from the writes of the next
    }
    if (row < size_m && col < size_n) out[(size_t)row * size_n + col] = acc;
    // END SOLUTION
}
