// 06_flash_attention_1 — attention forward in tiles, K and V outside, Q inside: no matrix of scores in global memory
//
// Idea      hold one tile of K and V on chip and let every tile of Q pass by; (m, l, out) of each row wait in global memory
// Builds on softmax/02_online, the running (m, l), which now carries an output row along.
// Contract  q (B, H, Nq, D), k, v (B, Hkv, Nkv, D) float, contiguous · out like q · m, l, lse (B, H, Nq) float, lse natural log
//           H = Hkv * num_q_per_kv; query head h reads head h / num_q_per_kv of k and v · any Nq, Nkv >= 1
//           causal bottom-right: query q_row sees the keys k <= q_row + Nkv - Nq · fully masked row: out 0, lse -inf
// Launch    grid (H, B) · block NUM_THREADS · no dynamic shared memory; static: SMEM_FLOATS * 4 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/flash_attention_1.py: flash_attention_1_kernel
// gate: -DHEAD_DIM=64 -DBLOCK_M=32 -DBLOCK_N=32
// gate: -DHEAD_DIM=128 -DBLOCK_M=16 -DBLOCK_N=32
// gate: -DHEAD_DIM=20 -DBLOCK_M=8 -DBLOCK_N=16
// Source    T. Dao and others, "FlashAttention", 2022, algorithm 1, arXiv:2205.14135
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
#define K_STRIDE (HEAD_DIM | 1)  // an odd distance between keys: 32 lanes that read 32 keys meet 32 banks
#define SMEM_FLOATS (BLOCK_M * HEAD_DIM + BLOCK_N * (K_STRIDE + HEAD_DIM) + NUM_WARPS * BLOCK_N)
static_assert(SMEM_FLOATS * 4 <= 48 * 1024, "static shared memory ends at 48 KiB: take a smaller BLOCK_M or BLOCK_N");

// region: load_tile
// `num_rows` rows of `source` into a tile of `tile_rows` rows; the rest becomes 0, so that a masked weight multiplies no NaN.
__device__ void load_tile(float* tile_smem, const float* source, int tile_rows, int num_rows, int stride) {
    for (int i = threadIdx.x; i < tile_rows * HEAD_DIM; i += NUM_THREADS) {
        tile_smem[i / HEAD_DIM * stride + i % HEAD_DIM] = i / HEAD_DIM < num_rows ? source[i] : 0.0f;
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
flash_attention_1_kernel(const float* q, const float* k, const float* v, float* out, float* m, float* l, float* lse,
                         int num_q_per_kv, int seq_len_q, int seq_len_kv, float softmax_scale, int causal) {
    __shared__ float q_smem[BLOCK_M * HEAD_DIM];           // (BLOCK_M, HEAD_DIM)
    __shared__ float k_smem[BLOCK_N * K_STRIDE];           // (BLOCK_N, HEAD_DIM), rows K_STRIDE apart
    __shared__ float v_smem[BLOCK_N * HEAD_DIM];           // (BLOCK_N, HEAD_DIM)
    __shared__ float probs_smem[NUM_WARPS][BLOCK_N];       // one row of scores, then of weights, a warp
    const int lane = threadIdx.x % WARP_SIZE;
    const int warp = threadIdx.x / WARP_SIZE;
    float* probs_row = probs_smem[warp];
    // region: heads
    const size_t head = (size_t)blockIdx.y * gridDim.x + blockIdx.x;                             // of q, over all batches
    const size_t kv_head = (size_t)blockIdx.y * (gridDim.x / num_q_per_kv) + blockIdx.x / num_q_per_kv;
    q += head * seq_len_q * HEAD_DIM;
    out += head * seq_len_q * HEAD_DIM;
    m += head * seq_len_q;
    l += head * seq_len_q;
    lse += head * seq_len_q;
    k += kv_head * seq_len_kv * HEAD_DIM;
    v += kv_head * seq_len_kv * HEAD_DIM;
    // endregion
    const int offset = seq_len_kv - seq_len_q;  // causal: query q_row sees the keys up to q_row + offset

    // region: outer
    for (int kv_start = 0; kv_start < seq_len_kv; kv_start += BLOCK_N) {
        __syncthreads();  // separates the last reads of the old K and V tile from the loads of the new one
        load_tile(k_smem, k + (size_t)kv_start * HEAD_DIM, BLOCK_N, seq_len_kv - kv_start, K_STRIDE);
        load_tile(v_smem, v + (size_t)kv_start * HEAD_DIM, BLOCK_N, seq_len_kv - kv_start, HEAD_DIM);
        // The first tile is where (m, l, out) begin, so every row comes by; later, rows above the diagonal stay away.
        const int first_row = causal && kv_start > 0 ? max(kv_start - offset, 0) : 0;
        // endregion

        // region: inner
        for (int q_start = first_row / BLOCK_M * BLOCK_M; q_start < seq_len_q; q_start += BLOCK_M) {
            __syncthreads();  // separates the last reads of the old Q tile from the load of the new one
            load_tile(q_smem, q + (size_t)q_start * HEAD_DIM, BLOCK_M, seq_len_q - q_start, HEAD_DIM);
            __syncthreads();  // separates the loads of Q, K and V from their reads
            for (int tile_row = warp; tile_row < min(BLOCK_M, seq_len_q - q_start); tile_row += NUM_WARPS) {
                const int q_row = q_start + tile_row;  // one warp a row
                // endregion

                // region: scores
                float m_tile = NEG_INF;
                for (int tile_key = lane; tile_key < BLOCK_N; tile_key += WARP_SIZE) {
                    const int key = kv_start + tile_key;
                    float score = NEG_INF;
                    if (key < seq_len_kv && (!causal || key <= q_row + offset)) {
                        score = 0.0f;
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
                float m_old = NEG_INF, l_old = 0.0f;
                if (kv_start > 0 && lane == 0) {  // one lane asks for the row's state; the others hold the empty one
                    m_old = m[q_row];
                    l_old = l[q_row];
                }
                const float m_new = warp_max(fmaxf(m_old, m_tile));
                // endregion

                // region: update
                float l_tile = 0.0f;
                for (int tile_key = lane; tile_key < BLOCK_N; tile_key += WARP_SIZE) {
                    const float prob = exp_shifted(probs_row[tile_key], m_new);
                    probs_row[tile_key] = prob;
                    l_tile += prob;
                }
                const float old_sum = warp_sum(l_old * exp_shifted(m_old, m_new));  // l_old * alpha, from lane 0 to all
                const float l_new = old_sum + warp_sum(l_tile);
                const float inv_l = l_new == 0.0f ? 0.0f : 1.0f / l_new;
                __syncwarp();  // separates each lane's write to probs_row from all lanes' reads
                // endregion

                // region: rescale
                for (int d = lane; d < HEAD_DIM; d += WARP_SIZE) {
                    float acc = kv_start > 0 ? out[(size_t)q_row * HEAD_DIM + d] * old_sum : 0.0f;
                    for (int tile_key = 0; tile_key < BLOCK_N; ++tile_key) {
                        acc += probs_row[tile_key] * v_smem[tile_key * HEAD_DIM + d];
                    }
                    out[(size_t)q_row * HEAD_DIM + d] = acc * inv_l;
                }
                if (lane == 0) {
                    m[q_row] = m_new;
                    l[q_row] = l_new;
                }
                __syncwarp();  // separates the reads of probs_row from the next row's writes
                // endregion
            }
        }
    }

    // region: finish
    __syncthreads();  // separates the warps' writes of m and l from these reads
    for (int q_row = threadIdx.x; q_row < seq_len_q; q_row += NUM_THREADS) {
        lse[q_row] = m[q_row] + logf(l[q_row]);  // fully masked: -inf + log(0)
    }
    // endregion
}
