// 08_flash_attention_1_backward — the gradients of attention, the weights computed a second time from lse
//
// Idea      exp(score - lse) is a finished weight, so no weight has to be stored; dK and dV of a tile stay on chip, dQ travels
// Builds on 06_flash_attention_1: the same two loops. Changed regions: probs, dq, dk_dv, store.
// Contract  q, d_out, out, dq (B, H, Nq, D), k, v, dk, dv (B, Hkv, Nkv, D) float, contiguous · lse, row_dot (B, H, Nq) float
//           lse is the forward pass's, natural log · H = Hkv * num_q_per_kv; dk and dv are sums over the query heads of a group
//           causal bottom-right: query q_row sees the keys k <= q_row + Nkv - Nq · any Nq, Nkv >= 1
//           fully masked row (lse -inf): its dq is 0, and it adds nothing to dk and dv
// Launch    row_dot_kernel: grid ceil(B*H*Nq / NUM_WARPS); then flash_attention_1_backward_kernel: grid (Hkv, B)
//           block NUM_THREADS · no dynamic shared memory; static: SMEM_FLOATS * 4 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/flash_attention_1.py: row_dot_kernel, flash_attention_1_backward_kernel
// gate: -DHEAD_DIM=64 -DBLOCK_M=32 -DBLOCK_N=32
// gate: -DHEAD_DIM=128 -DBLOCK_M=16 -DBLOCK_N=16
// gate: -DHEAD_DIM=20 -DBLOCK_M=8 -DBLOCK_N=16
// Source    T. Dao and others, "FlashAttention", 2022, algorithm 4, arXiv:2205.14135
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
#define KV_STRIDE (HEAD_DIM | 1)  // an odd distance between keys: 32 lanes that read 32 keys meet 32 banks
#define KEYS_PER_WARP (BLOCK_N / NUM_WARPS)
#define COLS_PER_LANE ((HEAD_DIM + WARP_SIZE - 1) / WARP_SIZE)
#define SMEM_FLOATS (2 * BLOCK_M * HEAD_DIM + 2 * BLOCK_N * KV_STRIDE + 2 * BLOCK_M * BLOCK_N + 2 * BLOCK_M)
static_assert(SMEM_FLOATS * 4 <= 48 * 1024, "static shared memory ends at 48 KiB: take a smaller BLOCK_M or BLOCK_N");
static_assert(BLOCK_N % NUM_WARPS == 0, "BLOCK_N: each warp keeps dK and dV of as many keys as every other");

// `num_rows` rows of `source` into a tile of `tile_rows` rows; the rest becomes 0, so that a masked weight multiplies no NaN.
__device__ void load_tile(float* tile_smem, const float* source, int tile_rows, int num_rows, int stride) {
    for (int i = threadIdx.x; i < tile_rows * HEAD_DIM; i += NUM_THREADS) {
        tile_smem[i / HEAD_DIM * stride + i % HEAD_DIM] = i / HEAD_DIM < num_rows ? source[i] : 0.0f;
    }
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
flash_attention_1_backward_kernel(const float* q, const float* k, const float* v, const float* d_out, const float* lse,
                                  const float* row_dot, float* dq, float* dk, float* dv, int num_q_per_kv, int seq_len_q,
                                  int seq_len_kv, float softmax_scale, int causal) {
    __shared__ float q_smem[BLOCK_M * HEAD_DIM];            // (BLOCK_M, HEAD_DIM)
    __shared__ float d_out_smem[BLOCK_M * HEAD_DIM];        // (BLOCK_M, HEAD_DIM)
    __shared__ float k_smem[BLOCK_N * KV_STRIDE];           // (BLOCK_N, HEAD_DIM), rows KV_STRIDE apart
    __shared__ float v_smem[BLOCK_N * KV_STRIDE];           // (BLOCK_N, HEAD_DIM), rows KV_STRIDE apart
    __shared__ float probs_smem[BLOCK_M][BLOCK_N];          // (BLOCK_M, BLOCK_N)
    __shared__ float d_scores_smem[BLOCK_M][BLOCK_N];       // (BLOCK_M, BLOCK_N), gradient of q kT, the scale in it
    __shared__ float lse_smem[BLOCK_M], row_dot_smem[BLOCK_M];
    const int lane = threadIdx.x % WARP_SIZE;
    const int warp = threadIdx.x / WARP_SIZE;
    const size_t kv_head = (size_t)blockIdx.y * gridDim.x + blockIdx.x;  // over all batches
    const int offset = seq_len_kv - seq_len_q;  // causal: query q_row sees the keys up to q_row + offset

    // region: outer
    for (int kv_start = 0; kv_start < seq_len_kv; kv_start += BLOCK_N) {
        const size_t kv_row = kv_head * seq_len_kv + kv_start;
        // No barrier: the last reads of the old K and V come before the barrier that precedes dk_dv.
        load_tile(k_smem, k + kv_row * HEAD_DIM, BLOCK_N, seq_len_kv - kv_start, KV_STRIDE);
        load_tile(v_smem, v + kv_row * HEAD_DIM, BLOCK_N, seq_len_kv - kv_start, KV_STRIDE);
        float dk_reg[KEYS_PER_WARP][COLS_PER_LANE] = {};  // keys warp, warp + NUM_WARPS, …; columns lane, lane + 32, …
        float dv_reg[KEYS_PER_WARP][COLS_PER_LANE] = {};
        // The first tile is where dq begins, so every row comes by; later, rows above the diagonal stay away.
        const int first_row = causal && kv_start > 0 ? max(kv_start - offset, 0) : 0;
        // endregion

        // region: inner
        for (int turn = 0; turn < num_q_per_kv; ++turn) {
            const size_t head_row = (kv_head * num_q_per_kv + turn) * seq_len_q;  // rows before this query head's own
            for (int q_start = first_row / BLOCK_M * BLOCK_M; q_start < seq_len_q; q_start += BLOCK_M) {
                const int num_rows = min(BLOCK_M, seq_len_q - q_start);
                __syncthreads();  // separates the last reads of the old tiles from the loads of the new ones
                load_tile(q_smem, q + (head_row + q_start) * HEAD_DIM, BLOCK_M, num_rows, HEAD_DIM);
                load_tile(d_out_smem, d_out + (head_row + q_start) * HEAD_DIM, BLOCK_M, num_rows, HEAD_DIM);
                for (int i = threadIdx.x; i < num_rows; i += NUM_THREADS) {
                    lse_smem[i] = lse[head_row + q_start + i];
                    row_dot_smem[i] = row_dot[head_row + q_start + i];
                }
                __syncthreads();  // separates the writes of the tiles from their reads
                // endregion

                for (int tile_row = warp; tile_row < num_rows; tile_row += NUM_WARPS) {
                    const int q_row = q_start + tile_row;  // one warp a row
                    // region: probs
                    for (int tile_key = lane; tile_key < BLOCK_N; tile_key += WARP_SIZE) {
                        const int key = kv_start + tile_key;
                        const bool seen = key < seq_len_kv && (!causal || key <= q_row + offset);
                        float dot = 0.0f, d_prob = 0.0f;
                        for (int d = 0; d < HEAD_DIM; ++d) {
                            dot += q_smem[tile_row * HEAD_DIM + d] * k_smem[tile_key * KV_STRIDE + d];
                            d_prob += d_out_smem[tile_row * HEAD_DIM + d] * v_smem[tile_key * KV_STRIDE + d];
                        }
                        const float prob = exp_shifted(seen ? dot * softmax_scale : NEG_INF, lse_smem[tile_row]);
                        probs_smem[tile_row][tile_key] = prob;
                        d_scores_smem[tile_row][tile_key] = prob * (d_prob - row_dot_smem[tile_row]) * softmax_scale;
                    }
                    __syncwarp();  // separates each lane's write of its keys from all lanes' reads
                    // endregion

                    // region: dq
                    for (int d = lane; d < HEAD_DIM; d += WARP_SIZE) {
                        const size_t offset = (head_row + q_row) * HEAD_DIM + d;
                        float acc = kv_start > 0 ? dq[offset] : 0.0f;
                        for (int tile_key = 0; tile_key < BLOCK_N; ++tile_key) {
                            acc += d_scores_smem[tile_row][tile_key] * k_smem[tile_key * KV_STRIDE + d];
                        }
                        dq[offset] = acc;  // the same thread reads it in the next tile of K and V
                    }
                    // endregion
                }

                // region: dk_dv
                __syncthreads();  // separates the warps' rows of probs and d_scores from the reads of their columns
                for (int tile_row = 0; tile_row < num_rows; ++tile_row) {
#pragma unroll
                    for (int j = 0; j < COLS_PER_LANE; ++j) {
                        const int d = min(lane + j * WARP_SIZE, HEAD_DIM - 1);  // a column too many is never stored
                        const float q_d = q_smem[tile_row * HEAD_DIM + d], d_out_d = d_out_smem[tile_row * HEAD_DIM + d];
#pragma unroll
                        for (int i = 0; i < KEYS_PER_WARP; ++i) {
                            dk_reg[i][j] += d_scores_smem[tile_row][warp + i * NUM_WARPS] * q_d;
                            dv_reg[i][j] += probs_smem[tile_row][warp + i * NUM_WARPS] * d_out_d;
                        }
                    }
                }
                // endregion
            }
        }

        // region: store
#pragma unroll
        for (int i = 0; i < KEYS_PER_WARP; ++i) {
#pragma unroll
            for (int j = 0; j < COLS_PER_LANE; ++j) {
                const int tile_key = warp + i * NUM_WARPS, d = lane + j * WARP_SIZE;
                if (kv_start + tile_key < seq_len_kv && d < HEAD_DIM) {
                    dk[(kv_row + tile_key) * HEAD_DIM + d] = dk_reg[i][j];
                    dv[(kv_row + tile_key) * HEAD_DIM + d] = dv_reg[i][j];
                }
            }
        }
        // endregion
    }
}
