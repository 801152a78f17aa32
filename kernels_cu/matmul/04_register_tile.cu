// 04_register_tile — matrix product, a thread has a small tile of the result in registers
//
// Idea      THREAD_M + THREAD_N numbers from shared memory serve THREAD_M * THREAD_N products
// Builds on 03_shared_tile. Changed: each thread loads several numbers, and has a tile of acc.
// Contract  a (size_m, size_k) float · b (size_k, size_n) float · out (size_m, size_n) float = a b · all contiguous, any sizes >= 1
// Launch    grid (ceil(size_n / BLOCK_N), ceil(size_m / BLOCK_M)) · block BLOCK_M BLOCK_N / (THREAD_M THREAD_N)
//           static shared memory of (BLOCK_M + BLOCK_N) BLOCK_K * 4 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DBLOCK_M=64 -DBLOCK_N=64 -DBLOCK_K=16 -DTHREAD_M=4 -DTHREAD_N=4
// gate: -DBLOCK_M=128 -DBLOCK_N=128 -DBLOCK_K=8 -DTHREAD_M=8 -DTHREAD_N=8
#if !defined(BLOCK_M) || !defined(BLOCK_N) || !defined(BLOCK_K)
#error "BLOCK_M, BLOCK_N, BLOCK_K: the block's tile; pass -DBLOCK_M=64 -DBLOCK_N=64 -DBLOCK_K=16"
#endif
#if !defined(THREAD_M) || !defined(THREAD_N)
#error "THREAD_M, THREAD_N: the thread's tile of the result; pass -DTHREAD_M=4 -DTHREAD_N=4"
#endif
static_assert(BLOCK_M % THREAD_M == 0 && BLOCK_N % THREAD_N == 0, "BLOCK_M, BLOCK_N: threads share the block's tile evenly");
#define THREADS_M (BLOCK_M / THREAD_M)  // threads down the block's tile
#define THREADS_N (BLOCK_N / THREAD_N)  // threads along it
#define NUM_THREADS (THREADS_M * THREADS_N)

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
matmul_kernel(const float* a, const float* b, float* out, int size_m, int size_n, int size_k) {
    __shared__ float a_smem[BLOCK_M][BLOCK_K];  // (row, k)
    __shared__ float b_smem[BLOCK_K][BLOCK_N];  // (k, col)
    const int block_row = blockIdx.y * BLOCK_M, block_col = blockIdx.x * BLOCK_N;
    const int thread_row = threadIdx.x / THREADS_N;  // its rows are thread_row + i THREADS_M
    const int thread_col = threadIdx.x % THREADS_N;  // its columns are thread_col + j THREADS_N: lanes stay neighbours
    float acc[THREAD_M][THREAD_N] = {};
    for (int k_start = 0; k_start < size_k; k_start += BLOCK_K) {
        // region: load
        for (int i = threadIdx.x; i < BLOCK_M * BLOCK_K; i += NUM_THREADS) {
            const int row = block_row + i / BLOCK_K, k = k_start + i % BLOCK_K;
            a_smem[i / BLOCK_K][i % BLOCK_K] = row < size_m && k < size_k ? a[(size_t)row * size_k + k] : 0.0f;
        }
        for (int i = threadIdx.x; i < BLOCK_K * BLOCK_N; i += NUM_THREADS) {
            const int k = k_start + i / BLOCK_N, col = block_col + i % BLOCK_N;
            b_smem[i / BLOCK_N][i % BLOCK_N] = k < size_k && col < size_n ? b[(size_t)k * size_n + col] : 0.0f;
        }
        // endregion
        __syncthreads();  // separates the writes of the tiles from their reads
        // region: multiply
        for (int k = 0; k < BLOCK_K; ++k) {
            float a_reg[THREAD_M], b_reg[THREAD_N];
            for (int i = 0; i < THREAD_M; ++i) a_reg[i] = a_smem[thread_row + i * THREADS_M][k];
            for (int j = 0; j < THREAD_N; ++j) b_reg[j] = b_smem[k][thread_col + j * THREADS_N];
            for (int i = 0; i < THREAD_M; ++i) {
                for (int j = 0; j < THREAD_N; ++j) acc[i][j] += a_reg[i] * b_reg[j];
            }
        }
        // endregion
        __syncthreads();  // separates the reads of these tiles from the writes of the next
    }
    // region: store
    for (int i = 0; i < THREAD_M; ++i) {
        for (int j = 0; j < THREAD_N; ++j) {
            const int row = block_row + thread_row + i * THREADS_M, col = block_col + thread_col + j * THREADS_N;
            if (row < size_m && col < size_n) out[(size_t)row * size_n + col] = acc[i][j];
        }
    }
    // endregion
}
