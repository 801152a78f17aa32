// 01_loop_order — attention forward in tiles, Q outside, K and V inside: a row's state never leaves the chip
//
// Idea      a block owns one tile of Q and walks over K and V; (m, l, acc) of its rows stay in registers until they are final
// Builds on attention/06_flash_attention_1. Changed regions: heads, load_q, load_kv, state, rescale, finish; m and l are no arguments any more.
// Contract  q (B, H, Nq, D), k, v (B, Hkv, Nkv, D) float, contiguous · out like q · lse (B, H, Nq) float, natural log
//           H = Hkv * num_q_per_kv; query head h reads head h / num_q_per_kv of k and v · any Nq, Nkv >= 1
//           causal bottom-right: query q_row sees the keys k <= q_row + Nkv - Nq · fully masked row: out 0, lse -inf
// Launch    grid (ceil(Nq/BLOCK_M) * H * B): the tiles of a head, then the next head · block NUM_THREADS
//           no dynamic shared memory; static: SMEM_FLOATS * 4 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/flash_attention_2.py: forward_kernel
// gate: -DHEAD_DIM=64 -DBLOCK_M=32 -DBLOCK_N=32
// gate: -DHEAD_DIM=128 -DBLOCK_M=16 -DBLOCK_N=32
// gate: -DHEAD_DIM=20 -DBLOCK_M=8 -DBLOCK_N=16
// Source    T. Dao, "FlashAttention-2", 2023, algorithm 1 and section 3.3, arXiv:2307.08691
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
#define COLS_PER_LANE CEIL_DIV(HEAD_DIM, WARP_SIZE)
#define K_STRIDE (HEAD_DIM | 1)  // an odd distance between keys: 32 lanes that read 32 keys meet 32 banks
#define SMEM_FLOATS (BLOCK_M * HEAD_DIM + BLOCK_N * (K_STRIDE + HEAD_DIM) + NUM_WARPS * BLOCK_N)
static_assert(SMEM_FLOATS * 4 <= 48 * 1024, "static shared memory ends at 48 KiB: take a smaller BLOCK_M or BLOCK_N");
static_assert(BLOCK_M % NUM_WARPS == 0, "each warp owns the same number of query rows: BLOCK_M is a multiple of 4");

// region: load_tile
// `num_rows` rows of `source` into a tile of `tile_rows` rows; the rest becomes 0, so that a masked weight multiplies no NaN.
__device__ void load_tile(float* tile_smem, const float* source, int tile_rows, int num_rows, int stride) {
    for (int i = threadIdx.x; i < tile_rows * HEAD_DIM; i += NUM_THREADS) {
        tile_smem[i / HEAD_DIM * stride + i % HEAD_DIM] = i / HEAD_DIM < num_rows ? source[i] : 0.0f;
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
flash_attention_2_kernel(const float* q, const float* k, const float* v, float* out, float* lse,
                         int num_q_per_kv, int seq_len_q, int seq_len_kv, float softmax_scale, int causal) {
    __shared__ float q_smem[BLOCK_M * HEAD_DIM];           // (BLOCK_M, HEAD_DIM)
    __shared__ float k_smem[BLOCK_N * K_STRIDE];           // (BLOCK_N, HEAD_DIM), rows K_STRIDE apart
    __shared__ float v_smem[BLOCK_N * HEAD_DIM];           // (BLOCK_N, HEAD_DIM)
    __shared__ float probs_smem[NUM_WARPS][BLOCK_N];       // one row of scores, then of weights, a warp
    const int lane = threadIdx.x % WARP_SIZE;
    const int warp = threadIdx.x / WARP_SIZE;
    float* probs_row = probs_smem[warp];
    // region: heads
    const int num_q_tiles = CEIL_DIV(seq_len_q, BLOCK_M);
    const size_t head = blockIdx.x / num_q_tiles;          // of q, over all batches
    const size_t kv_head = head / num_q_per_kv;            // of k and v: H = Hkv * num_q_per_kv, so batches stay apart
    const int q_start = blockIdx.x % num_q_tiles * BLOCK_M;
    q += (head * seq_len_q + q_start) * HEAD_DIM;
    out += (head * seq_len_q + q_start) * HEAD_DIM;
    lse += head * seq_len_q + q_start;
    k += kv_head * seq_len_kv * HEAD_DIM;
    v += kv_head * seq_len_kv * HEAD_DIM;
    // endregion
    const int offset = seq_len_kv - seq_len_q;  // causal: query q_row sees the keys up to q_row + offset

    // region: load_q
    load_tile(q_smem, q, BLOCK_M, seq_len_q - q_start, HEAD_DIM);  // once; the first barrier of the loop follows
    const int first_row = warp * ROWS_PER_WARP;                    // of the tile: this warp owns ROWS_PER_WARP rows
    float m[ROWS_PER_WARP];                                        // the same in all lanes
    float l[ROWS_PER_WARP] = {};                                   // of this lane's keys; added up over the warp at the end
    float acc[ROWS_PER_WARP][COLS_PER_LANE] = {};                  // columns lane, lane + 32, ..., not divided by l
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; ++r) m[r] = NEG_INF;
    // The last row of the tile sees the most keys; tiles to the right of its last key are masked for all rows.
    const int last_row = min(q_start + BLOCK_M, seq_len_q) - 1;
    const int kv_end = causal ? min(last_row + offset + 1, seq_len_kv) : seq_len_kv;
    // endregion

    // region: load_kv
    for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_N) {
        __syncthreads();  // separates the last reads of the old K and V tile from the loads of the new one
        load_tile(k_smem, k + (size_t)kv_start * HEAD_DIM, BLOCK_N, seq_len_kv - kv_start, K_STRIDE);
        load_tile(v_smem, v + (size_t)kv_start * HEAD_DIM, BLOCK_N, seq_len_kv - kv_start, HEAD_DIM);
        __syncthreads();  // separates the loads of Q, K and V from their reads
#pragma unroll
        for (int r = 0; r < ROWS_PER_WARP; ++r) {
            const int tile_row = first_row + r;
            const int q_row = q_start + tile_row;  // one warp a row
            // endregion

            // region: scores
            float m_tile = NEG_INF;
            for (int tile_key = lane; tile_key < BLOCK_N; tile_key += WARP_SIZE) {
                const int key = kv_start + tile_key;
                float score = NEG_INF;
                if (key < seq_len_kv && (!causal || key <= q_row + offset)) {
                    score = 0.0f;
#pragma unroll 8  // and not HEAD_DIM: the loop over the rows is already unrolled in full
                    for (int d = 0; d < HEAD_DIM; ++d) {
                        score += q_smem[tile_row * HEAD_DIM + d] * k_smem[tile_key * K_STRIDE + d];
                    }
                    score *= softmax_scale;
                }
                probs_row[tile_key] = score;
                m_tile = fmaxf(m_tile, score);
            }
            // endregion

            // region: state
            const float m_new = warp_max(fmaxf(m[r], m_tile));
            const float alpha = exp_shifted(m[r], m_new);
            m[r] = m_new;
            // endregion

            // region: update
            l[r] *= alpha;
            for (int tile_key = lane; tile_key < BLOCK_N; tile_key += WARP_SIZE) {
                const float prob = exp_shifted(probs_row[tile_key], m_new);
                probs_row[tile_key] = prob;
                l[r] += prob;
            }
            __syncwarp();  // separates each lane's write to probs_row from all lanes' reads
            // endregion

            // region: rescale
#pragma unroll
            for (int c = 0; c < COLS_PER_LANE; ++c) {
                const int d = lane + c * WARP_SIZE;
                acc[r][c] *= alpha;
#pragma unroll 4
                for (int tile_key = 0; tile_key < BLOCK_N && d < HEAD_DIM; ++tile_key) {
                    acc[r][c] += probs_row[tile_key] * v_smem[tile_key * HEAD_DIM + d];
                }
            }
            __syncwarp();  // separates the reads of probs_row from the next row's writes
            // endregion
        }
    }

    // region: finish
#pragma unroll
    for (int r = 0; r < ROWS_PER_WARP; ++r) {
        const int tile_row = first_row + r;
        const float l_row = warp_sum(l[r]);
        const float inv_l = l_row > 0.0f ? 1.0f / l_row : 0.0f;  // the only division of the row
        if (q_start + tile_row < seq_len_q) {
#pragma unroll
            for (int c = 0; c < COLS_PER_LANE; ++c) {
                const int d = lane + c * WARP_SIZE;
                if (d < HEAD_DIM) out[tile_row * HEAD_DIM + d] = acc[r][c] * inv_l;
            }
            if (lane == 0) lse[tile_row] = m[r] + logf(l_row);  // fully masked: -inf + log(0)
        }
    }
    // endregion
}
