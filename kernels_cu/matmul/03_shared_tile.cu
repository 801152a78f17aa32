// 03_shared_tile — matrix product, a block shares tiles of a and b
//
// Idea      what a block reads of a and b goes to shared memory once and is used TILE times there
// Builds on 02_coalesced. Changed: a loop over tiles of k around the products.
// Contract  a (size_m, size_k) float · b (size_k, size_n) float · out (size_m, size_n) float = a b · all contiguous, any sizes >= 1
// Launch    grid (ceil(size_n / TILE), ceil(size_m / TILE)) · block (TILE, TILE) · static shared memory of 2 TILE TILE * 4 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DTILE=16
// gate: -DTILE=32
#ifndef TILE
#error "TILE: rows and columns of a tile; pass -DTILE=32"
#endif
static_assert(TILE >= 1 && TILE <= 32, "TILE: a block has TILE * TILE threads, at most 1024");

extern "C" __global__ void __launch_bounds__(TILE * TILE)
matmul_kernel(const float* a, const float* b, float* out, int size_m, int size_n, int size_k) {
    __shared__ float a_smem[TILE][TILE];  // (row, k)
    __shared__ float b_smem[TILE][TILE];  // (k, col)
    const int tile_row = threadIdx.y, tile_col = threadIdx.x;
    const int row = blockIdx.y * TILE + tile_row;
    const int col = blockIdx.x * TILE + tile_col;
    float acc = 0.0f;
    for (int k_start = 0; k_start < size_k; k_start += TILE) {
        // region: load
        const int a_col = k_start + tile_col, b_row = k_start + tile_row;
        a_smem[tile_row][tile_col] = row < size_m && a_col < size_k ? a[(size_t)row * size_k + a_col] : 0.0f;
        b_smem[tile_row][tile_col] = b_row < size_k && col < size_n ? b[(size_t)b_row * size_n + col] : 0.0f;
        // endregion
        __syncthreads();  // separates the writes of the tiles from their reads
        // region: multiply
        for (int k = 0; k < TILE; ++k) {
            acc += a_smem[tile_row][k] * b_smem[k][tile_col];
        }
        // endregion
        __syncthreads();  // separates the reads of these tiles from the writes of the next
    }
    if (row < size_m && col < size_n) out[(size_t)row * size_n + col] = acc;
}
