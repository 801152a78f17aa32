// 04.2 padded rows — product of a matrix and a transposed one, as in q k^T, with float4 all the way
//
// Idea      rows of b's tile are padded so that the float4 of eight neighbouring lanes are in 32 different banks
// Builds on matmul/05_vectorised. Changed: b comes in rows of k, so a lane reads along a row of the tile, not down a column.
// Contract  a (size_m, size_k) float · b (size_n, size_k) float · out (size_m, size_n) float = a b^T · all contiguous
//           and 16-byte aligned, size_k a multiple of 4, any sizes >= 1 otherwise
//           no Triton twin: Triton's compiler lays out shared memory
// Launch    grid (ceil(size_n / 32), ceil(size_m / 32)) · block (32, 8) · static shared memory of two tiles
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Source    NVIDIA, CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"
#define BLOCK 32       // rows and columns of the result of a block, and numbers of k in a step
#define NUM_WARPS 8    // each has 4 rows of the result; a lane is a column
#define WARP_ROWS (BLOCK / NUM_WARPS)

// Numbers col … col + 3 of a row of `size` numbers, a multiple of 4; zeros past its end.
__device__ __forceinline__ float4 load4(const float* row, int col, int size) {
    return col < size ? *reinterpret_cast<const float4*>(row + col) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

extern "C" __global__ void __launch_bounds__(BLOCK * NUM_WARPS)
matmul_transposed_kernel(const float* a, const float* b, float* out, int size_m, int size_n, int size_k) {
    __shared__ __align__(16) float a_smem[BLOCK][BLOCK];  // (row, k)
    // BEGIN SOLUTION
    // GIVEN: __shared__ __align__(16) float b_smem[BLOCK][BLOCK];  // (col, k)
    __shared__ __align__(16) float b_smem[BLOCK][BLOCK + 4];  // (col, k), 4 unused floats after each row
    // END SOLUTION
    const int lane = threadIdx.x, warp = threadIdx.y;
    const int block_row = blockIdx.y * BLOCK, block_col = blockIdx.x * BLOCK;
    const int tile_row = (warp * 32 + lane) / 8, tile_k = (warp * 32 + lane) % 8 * 4;  // of the float4 that this thread loads
    float acc[WARP_ROWS] = {};
    for (int k_start = 0; k_start < size_k; k_start += BLOCK) {
        // region: load
        const int a_end = block_row + tile_row < size_m ? size_k : 0;  // 0: nothing is read of a row past the end
        const int b_end = block_col + tile_row < size_n ? size_k : 0;
        *reinterpret_cast<float4*>(&a_smem[tile_row][tile_k]) =
            load4(a + (size_t)(block_row + tile_row) * size_k, k_start + tile_k, a_end);
        *reinterpret_cast<float4*>(&b_smem[tile_row][tile_k]) =
            load4(b + (size_t)(block_col + tile_row) * size_k, k_start + tile_k, b_end);
        // endregion
        __syncthreads();  // separates the writes of the tiles from all threads' reads
        // region: multiply
        for (int k = 0; k < BLOCK; k += 4) {
            const float4 b_reg = *reinterpret_cast<const float4*>(&b_smem[lane][k]);
            for (int i = 0; i < WARP_ROWS; ++i) {
                const float4 a_reg = *reinterpret_cast<const float4*>(&a_smem[warp * WARP_ROWS + i][k]);
                acc[i] += a_reg.x * b_reg.x + a_reg.y * b_reg.y + a_reg.z * b_reg.z + a_reg.w * b_reg.w;
            }
        }
        // endregion
        __syncthreads();  // separates the reads of these tiles from the writes of the next
    }
    for (int i = 0; i < WARP_ROWS; ++i) {
        const int row = block_row + warp * WARP_ROWS + i, col = block_col + lane;
        if (row < size_m && col < size_n) out[(size_t)row * size_n + col] = acc[i];
    }
}
