// 01_two_walks — the gradients of attention in two walks: dK and dV with the K and V tile fixed, dQ with the Q tile fixed
//
// Idea      the block that owns a row of a gradient computes the whole sum: one kernel for each owner, no waiting, no atomics
// Builds on attention/08_flash_attention_1_backward, which has one walk in which dQ travels; and on 01_loop_order.
// Contract  q, out, d_out, dq (B, H, Nq, D), k, v, dk, dv (B, Hkv, Nkv, D) float, contiguous · lse, row_dot (B, H, Nq) float
//           lse is the forward pass's, natural log · H = Hkv * num_q_per_kv; dk and dv are sums over the query heads of a group
//           causal bottom-right: query q_row sees the keys k <= q_row + Nkv - Nq · any Nq, Nkv >= 1
//           fully masked row (lse -inf): its dq is 0, and it adds nothing to dk and dv
// Launch    row_dot_kernel: grid ceil(B*H*Nq / NUM_WARPS); then, in any order,
//           dk_dv_kernel: grid (ceil(Nkv/BLOCK_N) * Hkv * B) and dq_kernel: grid (ceil(Nq/BLOCK_M) * H * B)
//           block NUM_THREADS · no dynamic shared memory; static: at most SMEM_FLOATS * 4 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/flash_attention_2_backward.py: row_dot_kernel, dk_dv_kernel, dq_kernel · compute capability 8.0
// gate: -DHEAD_DIM=64 -DBLOCK_M=32 -DBLOCK_N=32
// gate: -DHEAD_DIM=128 -DBLOCK_M=16 -DBLOCK_N=16
// gate: -DHEAD_DIM=20 -DBLOCK_M=8 -DBLOCK_N=16
// Source    T. Dao, "FlashAttention-2", 2023, algorithm 2, arXiv:2307.08691, whose one kernel adds to dQ with atomics
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64"
#endif
#ifndef BLOCK_M
#define BLOCK_M 32  // query rows of a tile
#endif
#ifndef BLOCK_N
#define BLOCK_N 32  // keys of a tile
#endif
#include "common/softmax_state.cuh"
#include "common/warp_reduce.cuh"
#define NUM_THREADS 128
#define NUM_WARPS (NUM_THREADS / WARP_SIZE)
#define ROWS_PER_WARP (BLOCK_M / NUM_WARPS)
#define KEYS_PER_WARP (BLOCK_N / NUM_WARPS)
#define COLS_PER_LANE CEIL_DIV(HEAD_DIM, WARP_SIZE)
#define ODD_STRIDE (HEAD_DIM | 1)  // between the rows that pass by: 32 lanes that read 32 of them meet 32 banks
#define BLOCK_MAX (BLOCK_M > BLOCK_N ? BLOCK_M : BLOCK_N)
#define SMEM_FLOATS (2 * BLOCK_MAX * (HEAD_DIM + ODD_STRIDE + NUM_WARPS + 1))
static_assert(SMEM_FLOATS * 4 <= 48 * 1024, "static shared memory ends at 48 KiB: take a smaller BLOCK_M or BLOCK_N");
static_assert(BLOCK_M % NUM_WARPS == 0, "each warp owns the same number of query rows: BLOCK_M is a multiple of 4");
static_assert(BLOCK_N % NUM_WARPS == 0, "each warp owns the same number of keys: BLOCK_N is a multiple of 4");

// `num_rows` rows of `source` into a tile of `tile_rows` rows; the rest becomes 0, so that a masked weight multiplies no NaN.
__device__ void load_tile(float* tile_smem, const float* source, int tile_rows, int num_rows, int stride) {
    for (int i = threadIdx.x; i < tile_rows * HEAD_DIM; i += NUM_THREADS) {
        tile_smem[i / HEAD_DIM * stride + i % HEAD_DIM] = i / HEAD_DIM < num_rows ? source[i] : 0.0f;
    }
}

// The first HEAD_DIM entries of two rows in shared memory, multiplied and added up.
__device__ __forceinline__ float dot_product(const float* a, const float* b) {
    float sum = 0.0f;
#pragma unroll 8  // not HEAD_DIM: the loops around it are unrolled in full
    for (int d = 0; d < HEAD_DIM; ++d) sum += a[d] * b[d];
    return sum;
}

// region: row_dot
extern "C" __global__ void __launch_bounds__(NUM_THREADS)
row_dot_kernel(const float* out, const float* d_out, float* row_dot, long long num_rows) {
    const int lane = threadIdx.x % WARP_SIZE;
    const long long row = (long long)blockIdx.x * NUM_WARPS + threadIdx.x / WARP_SIZE;  // one warp a row
    if (row >= num_rows) return;  // the whole warp
    float dot = 0.0f;
    for (int d = lane; d < HEAD_DIM; d += WARP_SIZE) {
        dot += d_out[row * HEAD_DIM + d] * out[row * HEAD_DIM + d];
    }
    dot = warp_sum(dot);
    if (lane == 0) row_dot[row] = dot;
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
dk_dv_kernel(const float* q, const float* k, const float* v, const float* d_out, const float* lse, const float* row_dot,
             float* dk, float* dv, int num_q_per_kv, int seq_len_q, int seq_len_kv, float softmax_scale, int causal) {
    __shared__ float k_smem[BLOCK_N * HEAD_DIM];            // (BLOCK_N, HEAD_DIM)
    __shared__ float v_smem[BLOCK_N * HEAD_DIM];            // (BLOCK_N, HEAD_DIM)
    __shared__ float q_smem[BLOCK_M * ODD_STRIDE];          // (BLOCK_M, HEAD_DIM), rows ODD_STRIDE apart
    __shared__ float d_out_smem[BLOCK_M * ODD_STRIDE];      // (BLOCK_M, HEAD_DIM), rows ODD_STRIDE apart
    __shared__ float lse_smem[BLOCK_M], row_dot_smem[BLOCK_M];
    __shared__ float probs_smem[NUM_WARPS][BLOCK_M], d_scores_smem[NUM_WARPS][BLOCK_M];  // of one key, a warp
    const int lane = threadIdx.x % WARP_SIZE;
    const int warp = threadIdx.x / WARP_SIZE;
    float* probs_row = probs_smem[warp];
    float* d_scores_row = d_scores_smem[warp];
    const int offset = seq_len_kv - seq_len_q;  // causal: query q_row sees the keys up to q_row + offset

    // region: dk_dv_load_kv
    const int num_kv_tiles = CEIL_DIV(seq_len_kv, BLOCK_N);
    const size_t kv_head = blockIdx.x / num_kv_tiles;       // of k and v, over all batches
    const int kv_start = blockIdx.x % num_kv_tiles * BLOCK_N;
    const size_t kv_row = kv_head * seq_len_kv + kv_start;  // rows before this tile's own
    load_tile(k_smem, k + kv_row * HEAD_DIM, BLOCK_N, seq_len_kv - kv_start, HEAD_DIM);
    load_tile(v_smem, v + kv_row * HEAD_DIM, BLOCK_N, seq_len_kv - kv_start, HEAD_DIM);
    float dk_reg[KEYS_PER_WARP][COLS_PER_LANE] = {};        // columns lane, lane + 32, ...; without the scale
    float dv_reg[KEYS_PER_WARP][COLS_PER_LANE] = {};
    const int first_row = causal ? max(kv_start - offset, 0) : 0;  // rows before it see no key of this tile
    // endregion

    // region: dk_dv_load_q
    for (int turn = 0; turn < num_q_per_kv; ++turn) {
        const size_t head_row = (kv_head * num_q_per_kv + turn) * seq_len_q;  // rows before this query head's own
        for (int q_start = first_row / BLOCK_M * BLOCK_M; q_start < seq_len_q; q_start += BLOCK_M) {
            const int num_rows = min(BLOCK_M, seq_len_q - q_start);
            __syncthreads();  // separates the last reads of the old Q and dO tile from the loads of the new one
            load_tile(q_smem, q + (head_row + q_start) * HEAD_DIM, BLOCK_M, num_rows, ODD_STRIDE);
            load_tile(d_out_smem, d_out + (head_row + q_start) * HEAD_DIM, BLOCK_M, num_rows, ODD_STRIDE);
            for (int i = threadIdx.x; i < num_rows; i += NUM_THREADS) {
                lse_smem[i] = lse[head_row + q_start + i];
                row_dot_smem[i] = row_dot[head_row + q_start + i];
            }
            __syncthreads();  // separates the writes of all tiles from their reads
            // endregion

#pragma unroll
            for (int i = 0; i < KEYS_PER_WARP; ++i) {
                // region: dk_dv_probs
                const int tile_key = warp * KEYS_PER_WARP + i, key = kv_start + tile_key;  // one warp a key: lanes share queries
                for (int tile_row = lane; tile_row < num_rows; tile_row += WARP_SIZE) {
                    float prob = 0.0f, d_score = 0.0f;
                    if (key < seq_len_kv && (!causal || key <= q_start + tile_row + offset)) {
                        const float* q_row_smem = q_smem + tile_row * ODD_STRIDE;
                        const float* d_out_row_smem = d_out_smem + tile_row * ODD_STRIDE;
                        const float score = dot_product(q_row_smem, k_smem + tile_key * HEAD_DIM) * softmax_scale;
                        const float d_prob = dot_product(d_out_row_smem, v_smem + tile_key * HEAD_DIM);
                        prob = expf(score - lse_smem[tile_row]);  // finished: lse holds the maximum and the sum
                        d_score = prob * (d_prob - row_dot_smem[tile_row]);
                    }
                    probs_row[tile_row] = prob;
                    d_scores_row[tile_row] = d_score;
                }
                __syncwarp();  // separates each lane's writes of its queries from all lanes' reads
                // endregion

                // region: dk_dv_sum
#pragma unroll
                for (int c = 0; c < COLS_PER_LANE; ++c) {
                    const int d = lane + c * WARP_SIZE;
#pragma unroll 4
                    for (int tile_row = 0; tile_row < num_rows && d < HEAD_DIM; ++tile_row) {
                        dk_reg[i][c] += d_scores_row[tile_row] * q_smem[tile_row * ODD_STRIDE + d];
                        dv_reg[i][c] += probs_row[tile_row] * d_out_smem[tile_row * ODD_STRIDE + d];
                    }
                }
                __syncwarp();  // separates these reads from the writes for the next key
                // endregion
            }
        }
    }

    // region: dk_dv_store
#pragma unroll
    for (int i = 0; i < KEYS_PER_WARP; ++i) {
#pragma unroll
        for (int c = 0; c < COLS_PER_LANE; ++c) {
            const int tile_key = warp * KEYS_PER_WARP + i, d = lane + c * WARP_SIZE;
            if (kv_start + tile_key < seq_len_kv && d < HEAD_DIM) {
                dk[(kv_row + tile_key) * HEAD_DIM + d] = dk_reg[i][c] * softmax_scale;
                dv[(kv_row + tile_key) * HEAD_DIM + d] = dv_reg[i][c];
            }
        }
    }
    // endregion
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
dq_kernel(const float* q, const float* k, const float* v, const float* d_out, const float* lse, const float* row_dot,
          float* dq, int num_q_per_kv, int seq_len_q, int seq_len_kv, float softmax_scale, int causal) {
    __shared__ float q_smem[BLOCK_M * HEAD_DIM];            // (BLOCK_M, HEAD_DIM)
    __shared__ float d_out_smem[BLOCK_M * HEAD_DIM];        // (BLOCK_M, HEAD_DIM)
    __shared__ float k_smem[BLOCK_N * ODD_STRIDE];          // (BLOCK_N, HEAD_DIM), rows ODD_STRIDE apart
    __shared__ float v_smem[BLOCK_N * ODD_STRIDE];          // (BLOCK_N, HEAD_DIM), rows ODD_STRIDE apart
    __shared__ float d_scores_smem[NUM_WARPS][BLOCK_N];     // of one query, a warp
    const int lane = threadIdx.x % WARP_SIZE;
    const int warp = threadIdx.x / WARP_SIZE;
    float* d_scores_row = d_scores_smem[warp];
    const int offset = seq_len_kv - seq_len_q;  // causal: query q_row sees the keys up to q_row + offset

    // region: dq_load_q
    const int num_q_tiles = CEIL_DIV(seq_len_q, BLOCK_M);
    const size_t head = blockIdx.x / num_q_tiles;           // of q, over all batches
    const int q_start = blockIdx.x % num_q_tiles * BLOCK_M;
    const size_t first_q_row = head * seq_len_q + q_start;  // rows before this tile's own
    const size_t first_kv_row = head / num_q_per_kv * seq_len_kv;
    load_tile(q_smem, q + first_q_row * HEAD_DIM, BLOCK_M, seq_len_q - q_start, HEAD_DIM);
    load_tile(d_out_smem, d_out + first_q_row * HEAD_DIM, BLOCK_M, seq_len_q - q_start, HEAD_DIM);
    float lse_reg[ROWS_PER_WARP], row_dot_reg[ROWS_PER_WARP];  // lane 0 asks, all lanes get it
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; ++r) {
        const int tile_row = warp * ROWS_PER_WARP + r;
        const bool asks = lane == 0 && q_start + tile_row < seq_len_q;
        lse_reg[r] = __shfl_sync(ALL_LANES, asks ? lse[first_q_row + tile_row] : 0.0f, 0);
        row_dot_reg[r] = __shfl_sync(ALL_LANES, asks ? row_dot[first_q_row + tile_row] : 0.0f, 0);
    }
    // endregion

    // region: dq_load_kv
    float dq_reg[ROWS_PER_WARP][COLS_PER_LANE] = {};  // columns lane, lane + 32, ...; without the scale
    const int last_row = min(q_start + BLOCK_M, seq_len_q) - 1;
    const int kv_end = causal ? min(last_row + offset + 1, seq_len_kv) : seq_len_kv;
    for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_N) {
        const size_t kv_row = first_kv_row + kv_start;
        __syncthreads();  // separates the last reads of the old K and V tile from the loads of the new one
        load_tile(k_smem, k + kv_row * HEAD_DIM, BLOCK_N, seq_len_kv - kv_start, ODD_STRIDE);
        load_tile(v_smem, v + kv_row * HEAD_DIM, BLOCK_N, seq_len_kv - kv_start, ODD_STRIDE);
        __syncthreads();  // separates the writes of all tiles from their reads
        // endregion

#pragma unroll
        for (int r = 0; r < ROWS_PER_WARP; ++r) {
            // region: dq_probs
            const int tile_row = warp * ROWS_PER_WARP + r;  // one warp a row; its lanes share the keys
            for (int tile_key = lane; tile_key < BLOCK_N; tile_key += WARP_SIZE) {
                const int key = kv_start + tile_key;
                float d_score = 0.0f;
                if (key < seq_len_kv && (!causal || key <= q_start + tile_row + offset)) {
                    const float* q_row_smem = q_smem + tile_row * HEAD_DIM;
                    const float* d_out_row_smem = d_out_smem + tile_row * HEAD_DIM;
                    const float score = dot_product(q_row_smem, k_smem + tile_key * ODD_STRIDE) * softmax_scale;
                    const float d_prob = dot_product(d_out_row_smem, v_smem + tile_key * ODD_STRIDE);
                    d_score = expf(score - lse_reg[r]) * (d_prob - row_dot_reg[r]);
                }
                d_scores_row[tile_key] = d_score;
            }
            __syncwarp();  // separates each lane's writes of its keys from all lanes' reads
            // endregion

            // region: dq_sum
#pragma unroll
            for (int c = 0; c < COLS_PER_LANE; ++c) {
                const int d = lane + c * WARP_SIZE;
#pragma unroll 4
                for (int tile_key = 0; tile_key < BLOCK_N && d < HEAD_DIM; ++tile_key) {
                    dq_reg[r][c] += d_scores_row[tile_key] * k_smem[tile_key * ODD_STRIDE + d];
                }
            }
            __syncwarp();  // separates these reads from the writes for the next row
            // endregion
        }
    }

    // region: dq_store
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; ++r) {
#pragma unroll
        for (int c = 0; c < COLS_PER_LANE; ++c) {
            const int tile_row = warp * ROWS_PER_WARP + r, d = lane + c * WARP_SIZE;
            if (q_start + tile_row < seq_len_q && d < HEAD_DIM) {
                dq[(first_q_row + tile_row) * HEAD_DIM + d] = dq_reg[r][c] * softmax_scale;
            }
        }
    }
    // endregion
}
