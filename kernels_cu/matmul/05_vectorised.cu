// 05_vectorised — matrix product, four numbers an access
//
// Idea      float4 from global to shared memory and from shared memory to registers: a quarter of the load instructions
// Builds on 04_register_tile. Changed: a_smem is transposed, so that a thread's rows are neighbours; loads and stores.
// Contract  a (size_m, size_k) float · b (size_k, size_n) float · out (size_m, size_n) float = a b · all contiguous, any sizes >= 1
//           16-byte aligned; rows whose length is no multiple of 4 are read number by number
// Launch    grid (ceil(size_n / BLOCK_N), ceil(size_m / BLOCK_M)) · block BLOCK_M BLOCK_N / 16
//           static shared memory of (BLOCK_M + 4 + BLOCK_N) BLOCK_K * 4 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DBLOCK_M=64 -DBLOCK_N=64 -DBLOCK_K=16
// gate: -DBLOCK_M=128 -DBLOCK_N=64 -DBLOCK_K=16
#if !defined(BLOCK_M) || !defined(BLOCK_N) || !defined(BLOCK_K)
#error "BLOCK_M, BLOCK_N, BLOCK_K: the block's tile; pass -DBLOCK_M=64 -DBLOCK_N=64 -DBLOCK_K=16"
#endif
static_assert(BLOCK_M % 4 == 0 && BLOCK_N % 4 == 0 && BLOCK_K % 4 == 0, "BLOCK_M, BLOCK_N, BLOCK_K: multiples of a float4");
#define THREADS_N (BLOCK_N / 4)  // threads along the block's tile; each has 4 x 4 numbers of the result
#define NUM_THREADS (BLOCK_M / 4 * THREADS_N)
#define A_PAD 4  // floats after each row of a_smem: fewer lanes in one bank when a is stored transposed, rows stay aligned

// region: load4
// Numbers col … col + 3 of a row of `size`, zeros past its end. `row` starts aligned when size is a multiple of 4.
__device__ __forceinline__ float4 load4(const float* row, int col, int size) {
    if (size % 4 == 0 && col < size) return *reinterpret_cast<const float4*>(row + col);
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (col < size) v.x = row[col];
    if (col + 1 < size) v.y = row[col + 1];
    if (col + 2 < size) v.z = row[col + 2];
    if (col + 3 < size) v.w = row[col + 3];
    return v;
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
matmul_kernel(const float* a, const float* b, float* out, int size_m, int size_n, int size_k) {
    __shared__ __align__(16) float a_smem[BLOCK_K][BLOCK_M + A_PAD];  // (k, row)
    __shared__ __align__(16) float b_smem[BLOCK_K][BLOCK_N];          // (k, col)
    const int block_row = blockIdx.y * BLOCK_M, block_col = blockIdx.x * BLOCK_N;
    const int thread_row = threadIdx.x / THREADS_N * 4;  // the first of its 4 rows
    const int thread_col = threadIdx.x % THREADS_N * 4;  // the first of its 4 columns
    float acc[4][4] = {};
    for (int k_start = 0; k_start < size_k; k_start += BLOCK_K) {
        // region: load
        for (int i = threadIdx.x; i < BLOCK_M * BLOCK_K / 4; i += NUM_THREADS) {
            const int tile_row = i / (BLOCK_K / 4), tile_k = i % (BLOCK_K / 4) * 4;
            const int row = block_row + tile_row;
            const int end = row < size_m ? size_k : 0;  // of a row that there is not, nothing is read
            const float4 v = load4(a + (size_t)row * size_k, k_start + tile_k, end);
            a_smem[tile_k][tile_row] = v.x;
            a_smem[tile_k + 1][tile_row] = v.y;
            a_smem[tile_k + 2][tile_row] = v.z;
            a_smem[tile_k + 3][tile_row] = v.w;
        }
        for (int i = threadIdx.x; i < BLOCK_K * BLOCK_N / 4; i += NUM_THREADS) {
            const int tile_k = i / (BLOCK_N / 4), tile_col = i % (BLOCK_N / 4) * 4;
            const int k = k_start + tile_k;
            const int end = k < size_k ? size_n : 0;
            *reinterpret_cast<float4*>(&b_smem[tile_k][tile_col]) = load4(b + (size_t)k * size_n, block_col + tile_col, end);
        }
        // endregion
        __syncthreads();  // separates the writes of the tiles from their reads
        // region: multiply
        for (int k = 0; k < BLOCK_K; ++k) {
            const float4 a_reg = *reinterpret_cast<const float4*>(&a_smem[k][thread_row]);
            const float4 b_reg = *reinterpret_cast<const float4*>(&b_smem[k][thread_col]);
            const float rows[4] = {a_reg.x, a_reg.y, a_reg.z, a_reg.w};
            const float cols[4] = {b_reg.x, b_reg.y, b_reg.z, b_reg.w};
            for (int i = 0; i < 4; ++i) {
                for (int j = 0; j < 4; ++j) acc[i][j] += rows[i] * cols[j];
            }
        }
        // endregion
        __syncthreads();  // separates the reads of these tiles from the writes of the next
    }
    // region: store
    const int col = block_col + thread_col;
    for (int i = 0; i < 4; ++i) {
        const int row = block_row + thread_row + i;
        if (row >= size_m) break;
        float* out_row = out + (size_t)row * size_n;  // (size_n,)
        if (size_n % 4 == 0 && col < size_n) {
            *reinterpret_cast<float4*>(out_row + col) = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
            continue;
        }
        for (int j = 0; j < 4; ++j) {
            if (col + j < size_n) out_row[col + j] = acc[i][j];
        }
    }
    // endregion
}
