"""Right answers to 04.1 that look different from the solution."""

from course_lib.grading.exercise.submissions import Right

LOAD_A = "a_smem[tile_row][tile_col] = row < size_m && a_col < size_k ? a[(size_t)row * size_k + a_col] : 0.0f;"
PRODUCT = "acc += a_smem[tile_row][k] * b_smem[k][tile_col];"
INNER = "for (int k = 0; k < BLOCK_K; ++k) {"
B_LOAD = "b_smem[tile_k][tile_col] = b_row"
TILE_B = "__shared__ float b_smem[BLOCK_K][BLOCK_N];"
PLACE = "const int tile_row = threadIdx.y, tile_col = threadIdx.x;"

# Tiles by a flat index, the second barrier only where there is a next tile, a sum of its own for each tile.
FLAT = """#define BLOCK_M 8
#define BLOCK_N 32
#define BLOCK_K 32

extern "C" __global__ void tile_matmul_kernel(const float* a, const float* b, float* out, int size_m, int size_n,
                                              int size_k) {
    __shared__ float tiles[(BLOCK_M + BLOCK_N) * BLOCK_K];
    float* b_tile = tiles + BLOCK_M * BLOCK_K;
    const int thread = threadIdx.y * 32 + threadIdx.x;
    const int first_row = blockIdx.y * BLOCK_M, first_col = blockIdx.x * BLOCK_N;
    double sum = 0.0;
    for (int start = 0; start < size_k; start += BLOCK_K) {
        const int depth = min(BLOCK_K, size_k - start);
        for (int i = thread; i < BLOCK_M * depth; i += 256) {
            const int row = first_row + i / depth;
            if (row < size_m) tiles[i / depth * BLOCK_K + i % depth] = a[(long long)row * size_k + start + i % depth];
        }
        for (int i = thread; i < depth * BLOCK_N; i += 256) {
            const int col = first_col + i % BLOCK_N;
            if (col < size_n) b_tile[i] = b[(long long)(start + i / BLOCK_N) * size_n + col];
        }
        __syncthreads();
        if (first_row + threadIdx.y < size_m && first_col + threadIdx.x < size_n) {
            float part = 0.0f;
            const float* a_row = tiles + threadIdx.y * BLOCK_K;
            for (int k = depth - 1; k >= 0; --k) part += a_row[k] * b_tile[k * BLOCK_N + threadIdx.x];
            sum += part;
        }
        if (start + BLOCK_K < size_k) __syncthreads();
    }
    if (first_row + threadIdx.y < size_m && first_col + threadIdx.x < size_n) {
        out[(long long)(first_row + threadIdx.y) * size_n + first_col + threadIdx.x] = sum;
    }
}
"""

SUM = "float acc = 0.0f;"
STORE = "out[(size_t)row * size_n + col] = acc;"
LOOP = "for (int k_start = 0; k_start < size_k; k_start += BLOCK_K) {"
B_ROWS = "for (int tile_k = tile_row; tile_k < BLOCK_K; tile_k += BLOCK_M) {"

# Half a step at a time, and no tile of a: each lane keeps its number of a and passes it on.
SHUFFLED = """extern "C" __global__ void tile_matmul_kernel(const float* a, const float* b, float* out, int size_m,
                                              int size_n, int size_k) {
    __shared__ float b_tile[16][32];
    const int lane = threadIdx.x, warp = threadIdx.y, row = blockIdx.y * 8 + warp, col = blockIdx.x * 32 + lane;
    float sum = 0.0f;
    for (int start = 0; start < size_k; start += 16) {
        const float mine = lane < 16 && row < size_m && start + lane < size_k ? a[row * size_k + start + lane] : 0.0f;
        for (int k = warp; k < 16; k += 8) {
            b_tile[k][lane] = start + k < size_k && col < size_n ? b[(start + k) * size_n + col] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += __shfl_sync(0xffffffffu, mine, k) * b_tile[k][lane];
        __syncthreads();
    }
    if (row < size_m && col < size_n) out[row * size_n + col] = sum;
}
"""

ANSWERS = [
    Right("flat tiles, no zeros, k backwards, double", text=FLAT),
    Right("fused multiply and add", ((PRODUCT, "acc = fmaf(a_smem[tile_row][k], b_smem[k][tile_col], acc);"),)),
    Right(
        "products up to the end of k alone", ((INNER, "for (int k = 0; k < min(BLOCK_K, size_k - k_start); ++k) {"),)
    ),
    Right(
        "loads guarded in one condition",
        (
            (
                LOAD_A,
                "a_smem[tile_row][tile_col] = 0.0f;\n        if (row < size_m && "
                "a_col < size_k) a_smem[tile_row][tile_col] = a[(size_t)row * size_k + a_col];",
            ),
        ),
    ),
    Right(
        "b's tile transposed: every lane in the same bank",
        (
            (B_LOAD, "b_smem[tile_col][tile_k] = b_row"),
            (TILE_B, "__shared__ float b_smem[BLOCK_N][BLOCK_K];"),
            (PRODUCT, PRODUCT.replace("b_smem[k][tile_col]", "b_smem[tile_col][k]")),
        ),
        remark="bank conflicts",
    ),
    Right(
        "axes exchanged: neighbouring lanes take neighbouring rows",
        (
            (
                PLACE,
                "const int thread = threadIdx.y * 32 + threadIdx.x;\n"
                "    const int tile_row = thread % BLOCK_M, tile_col = thread / BLOCK_M;",
            ),
        ),
        remark="let neighbouring lanes take neighbouring addresses",
    ),
    Right("a's numbers passed on by shuffles", text=SHUFFLED),
    Right(
        "four sums",
        (
            (PRODUCT, "part[k % 4] += a_smem[tile_row][k] * b_smem[k][tile_col];"),
            (SUM, f"{SUM} float part[4] = {{}};"),
            (STORE, "out[(size_t)row * size_n + col] = part[0] + part[1] + (part[2] + part[3]);"),
        ),
    ),
    Right(
        "tiles from the end of k",
        ((LOOP, "for (int k_start = (size_k - 1) / BLOCK_K * BLOCK_K; k_start >= 0; k_start -= BLOCK_K) {"),),
    ),
    Right(
        "a warp loads four neighbouring rows of b",
        ((B_ROWS, "for (int tile_k = tile_row * 4; tile_k < tile_row * 4 + 4; ++tile_k) {"),),
    ),
]
