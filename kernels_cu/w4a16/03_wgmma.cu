// 03_wgmma — any number of activations times weights of four bits on Hopper: unpacked weights are operand a, in registers
//
// Idea      wgmma takes its first operand from registers: a weight goes from four bits to the tensor core without a place in shared
//           memory, and a warpgroup's 64 rows of weights meet up to 256 tokens in one instruction
// Builds on 02_gemm and matmul/09_wgmma. New: the copy engine brings packed weights, scales and zeros; a warpgroup of four warps
//           brings the tokens, in the order of k that the words have; blocks that share size_k.
// Contract  x (num_tokens, size_k) ELEMENT, rows stride_x apart · out (num_tokens, size_n) ELEMENT, contiguous
//           packed, scales and zeros as in 01_gemv, as maps: packed (size_n, 32-bit words of a row) with boxes of (BLOCK_N, 16),
//           scales and zeros (num_groups, size_n) with boxes of (128 / GROUP, BLOCK_N), not swizzled, BLOCK_N = 128 ROW_TILES
//           out = x w^T with w = (q - zero) * scale rounded to ELEMENT, as a dense matrix has it; sums in float, rounded once
//           any num_tokens >= 1; GROUP divides size_k, 16 divides size_n; x at multiples of 16 bytes, 8 divides stride_x
//           partial (grid z, num_tokens, size_n) float and counters (grid y, grid x) int, zeros on entry and exit: with grid z > 1
// Launch    grid (ceil(num_tokens / BLOCK_M), ceil(size_n / BLOCK_N), blocks that share size_k, up to ceil(size_k / 128)) · block 384
//           dynamic shared memory of NUM_STAGES * S bytes, or BLOCK_M * (BLOCK_N + 4) * 4 if that is more, S being
//           BLOCK_M * 256 + BLOCK_N * (64 + 3 * (128 / GROUP)) rounded up to 1024
// Needs     compute capability 9.0a · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: there the compiler decides which lane takes which number
// gate: -DELEMENT=__nv_bfloat16 -DGROUP=128 -DBLOCK_M=128 -DROW_TILES=2 -DNUM_STAGES=4
// gate: -DELEMENT=__nv_bfloat16 -DGROUP=32 -DBLOCK_M=64 -DROW_TILES=1 -DNUM_STAGES=6
// gate: -DELEMENT=__half -DGROUP=64 -DBLOCK_M=16 -DROW_TILES=1 -DNUM_STAGES=8
// Source    E. Frantar and others, "MARLIN", 2024, section 3, arXiv:2408.11743; operand a from registers: CUTLASS,
//           sm90_mma_tma_gmma_rs_warpspecialized.hpp
#if !defined(ELEMENT) || !defined(GROUP)
#error "pass -DELEMENT=__half -DGROUP=128 (weights of a scale)"
#endif
#if !defined(BLOCK_M) || !defined(ROW_TILES) || !defined(NUM_STAGES)
#error "pass -DBLOCK_M=64 (tokens) -DROW_TILES=1 (64 rows of weights each, of a warpgroup) -DNUM_STAGES=6 (stretches under way)"
#endif
#include "common/constants.cuh"      // CEIL_DIV, WARP_SIZE
#include "common/four_bits.cuh"      // pair_of, scaled
#include "common/half_types.cuh"     // pack_pair
#include "common/last_block.cuh"     // is_last_block
#include "common/named_barrier.cuh"  // named_barrier_sync_apart
#include "common/ring.cuh"           // Ring: stage and parity
#include "common/setmaxnreg.cuh"
#include "common/tma.cuh"    // TensorMap, tma_load_2d, fence_proxy_async, mbarrier_…
#include "common/wgmma.cuh"  // wgmma_descriptor, wgmma_rs
#define WARPGROUP 128        // threads
#define NUM_CONSUMERS 2      // warpgroups that multiply; one more copies
#define NUM_THREADS ((NUM_CONSUMERS + 1) * WARPGROUP)
#define STAGES_READ 1        // a named barrier
#if ROW_TILES == 1
#define BLOCKS_PER_SM 2         // while one begins or ends, the other streams
#define CONSUMER_REGISTERS 96   // 2 * 128 * 96 + 128 * 48 <= 30720: what 384 threads get at 80 each
#define PRODUCER_REGISTERS 48
#else
#define BLOCKS_PER_SM 1
#define CONSUMER_REGISTERS 224  // 2 * 128 * 224 + 128 * 56 <= 64512, at 168 each
#define PRODUCER_REGISTERS 56
#endif
#define WARPGROUP_ROWS (64 * ROW_TILES)
#define BLOCK_N (NUM_CONSUMERS * WARPGROUP_ROWS)
#define STRETCH 128                            // numbers of a row in a stage
#define GROUPS (STRETCH / GROUP)
#define PANEL_BYTES (BLOCK_M * 128)            // 64 numbers of each token, swizzled; a stage has two, then
#define WORDS_BYTES (BLOCK_N * STRETCH / 2)    // words (row, 64 bytes), then
#define SCALES_BYTES (GROUPS * BLOCK_N * 2)    // scales and
#define ZEROS_BYTES (GROUPS * BLOCK_N)         // zeros (group, row)
#define COPIED_BYTES (WORDS_BYTES + SCALES_BYTES + ZEROS_BYTES)
#define STAGE_BYTES (CEIL_DIV(2 * PANEL_BYTES + COPIED_BYTES, 1024) * 1024)
#define X_CHUNKS (BLOCK_M / 8)                 // of 16 bytes that a producer's thread brings a stage
#define BATCH (X_CHUNKS < 8 ? X_CHUNKS : 8)    // of them, that are under way at once
#define SUM_STRIDE (BLOCK_N + 4)               // of the sums in shared memory: lanes of four tokens meet no bank twice
static_assert(GROUP == 32 || GROUP == 64 || GROUP == 128, "GROUP: word i of four lanes is 32 numbers of one group");
static_assert(BLOCK_M % 16 == 0 && BLOCK_M <= 128, "BLOCK_M: n of a wgmma; a producer's registers hold 128 tokens' chunks");
static_assert(ROW_TILES == 1 || ROW_TILES == 2, "ROW_TILES: a box of packed has up to 256 rows");
static_assert(NUM_STAGES >= 2, "NUM_STAGES: one to read and one to fill, at least");

struct Barriers {
    mbarrier_t full[NUM_STAGES];   // a stage is there: COPIED_BYTES, and an arrival of each producer's thread and of the copies
    mbarrier_t empty[NUM_STAGES];  // a stage has been read: an arrival of each consumer's warp
};

// region: tokens
// Tokens of a block and their numbers from one stretch on. Warp i of the producer has 32 numbers of it, lane 4 g + t of them the
// eight from 8 t on of tokens g, g + 8, …: those of word i of lane t, of which product s (of two) takes pairs 2 s and 2 s + 1. So
// that wgmma finds them where it looks for k = 2 t, 2 t + 1 and 2 t + 8, 2 t + 9, pair p of all four lanes becomes 16 bytes.
struct Tokens {
    const ELEMENT* x;  // this thread's first number of the block's first token
    int num_tokens, num_numbers;  // that there are, from this thread's on
    long long stride_x;

    __device__ __forceinline__ void load(uint4 (&x_reg)[BATCH], int k_start, int first) const {
#pragma unroll
        for (int j = 0; j < BATCH; ++j) {
            const bool exists = 8 * (first + j) < num_tokens && k_start < num_numbers;
            const ELEMENT* chunk = x + 8 * (first + j) * stride_x + k_start;
            x_reg[j] = exists ? *reinterpret_cast<const uint4*>(chunk) : make_uint4(0, 0, 0, 0);
        }
    }

    static __device__ __forceinline__ void store(unsigned char* stage, const uint4 (&x_reg)[BATCH], int first) {
        const int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE, token = lane / 4;
        unsigned char* row_smem = stage + warp / 2 * PANEL_BYTES + token * 128 + lane % 4 * 4;
#pragma unroll
        for (int j = 0; j < BATCH; ++j) {
#pragma unroll
            for (int p = 0; p < 4; ++p) {  // eight tokens further: the same swizzle
                *reinterpret_cast<unsigned*>(row_smem + (first + j) * 1024 + ((warp % 2 * 4 + p) ^ token) * 16) = word_of(x_reg[j], p);
            }
        }
    }
};
// endregion

// region: produce
__device__ __forceinline__ void produce(unsigned char* smem, Barriers& barriers, const TensorMap* packed_map, const TensorMap* scales_map,
                                        const TensorMap* zeros_map, const Tokens& tokens, int first_row, int first_stretch,
                                        int end_stretch) {
    Ring<NUM_STAGES> ring;
    for (int stretch = first_stretch; stretch < end_stretch; ++stretch) {
        uint4 x_reg[BATCH];
        tokens.load(x_reg, stretch * STRETCH, 0);  // under way while the stage is still read
        mbarrier_wait_parity(&barriers.empty[ring.stage], ring.parity ^ 1);
        unsigned char *stage = smem + ring.stage * STAGE_BYTES, *copied = stage + 2 * PANEL_BYTES;
        mbarrier_t* full = &barriers.full[ring.stage];
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect_tx(full, COPIED_BYTES);
            tma_load_2d(copied, packed_map, full, stretch * 16, first_row);
            tma_load_2d(copied + WORDS_BYTES, scales_map, full, first_row, stretch * GROUPS);
            tma_load_2d(copied + WORDS_BYTES + SCALES_BYTES, zeros_map, full, first_row, stretch * GROUPS);
        }
        tokens.store(stage, x_reg, 0);
#pragma unroll
        for (int first = BATCH; first < X_CHUNKS; first += BATCH) {
            tokens.load(x_reg, stretch * STRETCH, first);
            tokens.store(stage, x_reg, first);
        }
        fence_proxy_async();  // wgmma reads through the async proxy what this thread has written
        mbarrier_arrive(full);
        ring.advance();
    }
}
// endregion

// region: unpack
// Operand a of the two products that word i of this lane's rows g and g + 8 is for.
__device__ __forceinline__ void unpack(unsigned (&first)[4], unsigned (&second)[4], const uint4 (&words)[2], int i,
                                       const unsigned (&zero)[2], const unsigned (&scale)[2]) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
        const unsigned pair = pair_of(word_of(words[e % 2], i), e / 2, zero[e % 2], ELEMENT());
        (e < 4 ? first : second)[e % 4] = scaled(pair, scale[e % 2], ELEMENT());
    }
}
// endregion

// region: consume
// acc += w x^T over the block's stretches, in two halves of 64 numbers. While a warpgroup unpacks, the other one's products run.
__device__ __forceinline__ void consume(float (&acc)[ROW_TILES][BLOCK_M / 2], const unsigned char* smem, Barriers& barriers,
                                        int num_steps, int first_row) {
    const int lane = threadIdx.x % WARP_SIZE, row = first_row + threadIdx.x % WARPGROUP / WARP_SIZE * 16 + lane / 4;  // of the block
    const unsigned long long x_desc = wgmma_descriptor(smem, 16, 1024);
    Ring<NUM_STAGES> ring;
    for (int step = 0; step < num_steps; ++step) {
        mbarrier_wait_parity(&barriers.full[ring.stage], ring.parity);
        const unsigned char* copied = smem + ring.stage * STAGE_BYTES + 2 * PANEL_BYTES;
        uint4 words[ROW_TILES][2];
        unsigned zero[ROW_TILES][2], scale[ROW_TILES][2];
#pragma unroll
        for (int e = 0; e < 2 * ROW_TILES; ++e) {
            words[e / 2][e % 2] = *reinterpret_cast<const uint4*>(copied + (row + e / 2 * 64 + e % 2 * 8) * 64 + lane % 4 * 16);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            unsigned a[ROW_TILES][4][4];  // of four products
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; ++i) {
#pragma unroll
                for (int e = 0; e < 2 * ROW_TILES; ++e) {
                    if (32 * i % GROUP) continue;
                    const int place = 32 * i / GROUP * BLOCK_N + row + e / 2 * 64 + e % 2 * 8;
                    scale[e / 2][e % 2] = reinterpret_cast<const unsigned short*>(copied + WORDS_BYTES)[place] * 0x10001u;  // twice
                    zero[e / 2][e % 2] = copied[WORDS_BYTES + SCALES_BYTES + place];
                }
#pragma unroll
                for (int r = 0; r < ROW_TILES; ++r) unpack(a[r][i % 2 * 2], a[r][i % 2 * 2 + 1], words[r], i, zero[r], scale[r]);
            }
#pragma unroll
            for (int r = 0; r < ROW_TILES; ++r) {
                wgmma_keep_order(acc[r]);
                wgmma_keep_order(a[r]);
            }
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < 4; ++k) {  // a step of k is 32 bytes further in a token's 128
                const unsigned long long b = x_desc + (ring.stage * STAGE_BYTES + half * PANEL_BYTES + k * 32) / 16;
#pragma unroll
                for (int r = 0; r < ROW_TILES; ++r) wgmma_rs(acc[r], a[r][k], b, 1, ELEMENT());
            }
            wgmma_commit_group();
            wgmma_wait_group<0>();
#pragma unroll
            for (int r = 0; r < ROW_TILES; ++r) {
                wgmma_keep_order(acc[r]);
                wgmma_keep_order(a[r]);
            }
        }
        __syncwarp();  // all lanes have read the stage
        if (lane == 0) mbarrier_arrive(&barriers.empty[ring.stage]);
        ring.advance();
    }
}
// endregion

// region: store
// Sums of two neighbouring rows of the weights, of a token: to out, or to the block's part.
__device__ __forceinline__ void store_pair(ELEMENT* out, float* partial, size_t place, float2 sum) {
    if (partial) {
        *reinterpret_cast<float2*>(partial + place) = sum;
    } else {
        *reinterpret_cast<unsigned*>(out + place) = pack_pair(sum.x, sum.y, ELEMENT());
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, BLOCKS_PER_SM)
gemm_kernel(const ELEMENT* x, const __grid_constant__ TensorMap packed_map, const __grid_constant__ TensorMap scales_map,
            const __grid_constant__ TensorMap zeros_map, ELEMENT* out, float* partial, int* counters, int num_tokens, int size_n,
            int size_k, long long stride_x) {
    extern __shared__ __align__(1024) unsigned char smem[];  // NUM_STAGES stages; then the sums (token, row) float
    __shared__ Barriers barriers;
    __shared__ int last_smem;
    const int warpgroup = threadIdx.x / WARPGROUP, lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x % WARPGROUP / WARP_SIZE;
    const int first_token = blockIdx.x * BLOCK_M, first_row = blockIdx.y * BLOCK_N;
    const int num_stretches = CEIL_DIV(size_k, STRETCH), num_splits = gridDim.z;
    const int first_stretch = static_cast<long long>(num_stretches) * blockIdx.z / num_splits;
    const int end_stretch = static_cast<long long>(num_stretches) * (blockIdx.z + 1) / num_splits;
    float* sum_smem = reinterpret_cast<float*>(smem);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < NUM_STAGES; ++stage) {
            mbarrier_init(&barriers.full[stage], WARPGROUP + 1);
            mbarrier_init(&barriers.empty[stage], NUM_CONSUMERS * WARPGROUP / WARP_SIZE);
        }
        fence_mbarrier_init();
    }
    __syncthreads();  // separates the barriers' initialisation from their use

    // region: roles
    if (warpgroup == 0) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        const int token = first_token + lane / 4, k = 32 * warp + 8 * (lane % 4);
        const Tokens tokens = {x + token * stride_x + k, num_tokens - token, size_k - k, stride_x};
        produce(smem, barriers, &packed_map, &scales_map, &zeros_map, tokens, first_row, first_stretch, end_stretch);
        named_barrier_sync_apart(STAGES_READ, NUM_THREADS);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        const int own_row = (warpgroup - 1) * WARPGROUP_ROWS;
        float acc[ROW_TILES][BLOCK_M / 2] = {};
        consume(acc, smem, barriers, end_stretch - first_stretch, own_row);
        named_barrier_sync_apart(STAGES_READ, NUM_THREADS);  // separates all reads of stages from the sums in their place
#pragma unroll
        for (int e = 0; e < ROW_TILES * BLOCK_M / 2; ++e) {  // lane 4 g + t: rows g and g + 8, tokens 8 j + 2 t and 8 j + 2 t + 1
            const int r = e / (BLOCK_M / 2), i = e % (BLOCK_M / 2);
            const int row = own_row + r * 64 + warp * 16 + lane / 4 + i / 2 % 2 * 8, token = i / 4 * 8 + lane % 4 * 2 + i % 2;
            sum_smem[token * SUM_STRIDE + row] = acc[r][i];
        }
    }
    __syncthreads();  // separates the consumers' writes of their sums from the reads of all of them
    // endregion

    // region: sum
    float* part = num_splits > 1 ? partial + static_cast<size_t>(blockIdx.z) * num_tokens * size_n : nullptr;
    for (int i = threadIdx.x; i < BLOCK_M * BLOCK_N / 2; i += NUM_THREADS) {
        const int token = i / (BLOCK_N / 2), row = i % (BLOCK_N / 2) * 2;
        if (first_token + token >= num_tokens || first_row + row >= size_n) continue;
        const size_t place = static_cast<size_t>(first_token + token) * size_n + first_row + row;
        store_pair(out, part, place, *reinterpret_cast<const float2*>(sum_smem + token * SUM_STRIDE + row));
    }
    if (num_splits == 1 || !is_last_block(counters + blockIdx.y * gridDim.x + blockIdx.x, num_splits, &last_smem)) return;
    for (int i = threadIdx.x; i < BLOCK_M * BLOCK_N / 2; i += NUM_THREADS) {
        const int token = i / (BLOCK_N / 2), row = i % (BLOCK_N / 2) * 2;
        if (first_token + token >= num_tokens || first_row + row >= size_n) continue;
        const size_t place = static_cast<size_t>(first_token + token) * size_n + first_row + row;
        float2 sum = make_float2(0.0f, 0.0f);
        for (int split = 0; split < num_splits; ++split) {  // one order: the same bits, whichever block is the last
            const float* source = partial + static_cast<size_t>(split) * num_tokens * size_n + place;
            const float2 one = __ldcg(reinterpret_cast<const float2*>(source));
            sum.x += one.x, sum.y += one.y;
        }
        store_pair(out, nullptr, place, sum);
    }
    // endregion
}
