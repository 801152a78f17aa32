// 07_flash_attention_1_rows — FlashAttention-1 with one thread a query row: nothing about a row is ever shared
//
// Idea      a thread owns a row of Q, its (m, l) and its row of out; the tile of K and V is what the threads share
// Builds on 06_flash_attention_1. Changed regions: a row belongs to a thread; scores live in registers; no mask.
// Contract  q (B, H, Nq, D), k, v (B, Hkv, Nkv, D) float, contiguous · out like q · m, l, lse (B, H, Nq) float, lse natural log
//           H = Hkv * num_q_per_kv; query head h reads head h / num_q_per_kv of k and v · any Nq, Nkv >= 1 · every key visible
//           no Triton twin: which thread holds which row is the compiler's business there
// Launch    grid (H, B) · block BLOCK_M · no dynamic shared memory; static: 2 * BLOCK_N * HEAD_DIM * 4 bytes
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// gate: -DHEAD_DIM=64 -DBLOCK_M=64 -DBLOCK_N=16
// gate: -DHEAD_DIM=20 -DBLOCK_M=32 -DBLOCK_N=16
// Source    T. Dao and others, "FlashAttention", 2022, algorithm 1, arXiv:2205.14135
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64"
#endif
#ifndef BLOCK_M
#define BLOCK_M 32  // query rows of a tile, and threads of a block
#endif
#ifndef BLOCK_N
#define BLOCK_N 16  // keys of a tile
#endif
static_assert(2 * BLOCK_N * HEAD_DIM * 4 <= 48 * 1024, "static shared memory ends at 48 KiB: take a smaller BLOCK_N");
#include "common/softmax_state.cuh"  // NEG_INF, exp_shifted(score, m)

extern "C" __global__ void __launch_bounds__(BLOCK_M)
flash_attention_1_rows_kernel(const float* q, const float* k, const float* v, float* out, float* m, float* l, float* lse,
                              int num_q_per_kv, int seq_len_q, int seq_len_kv, float softmax_scale) {
    __shared__ float k_smem[BLOCK_N * HEAD_DIM];  // (BLOCK_N, HEAD_DIM)
    __shared__ float v_smem[BLOCK_N * HEAD_DIM];  // (BLOCK_N, HEAD_DIM)
    const size_t head = (size_t)blockIdx.y * gridDim.x + blockIdx.x;  // of q, over all batches
    q += head * seq_len_q * HEAD_DIM;
    out += head * seq_len_q * HEAD_DIM;
    m += head * seq_len_q;
    l += head * seq_len_q;
    lse += head * seq_len_q;
    // BEGIN SOLUTION
    const size_t kv_head = (size_t)blockIdx.y * (gridDim.x / num_q_per_kv) + blockIdx.x / num_q_per_kv;
    k += kv_head * seq_len_kv * HEAD_DIM;
    v += kv_head * seq_len_kv * HEAD_DIM;

    for (int kv_start = 0; kv_start < seq_len_kv; kv_start += BLOCK_N) {
        // region: load_kv
        const int num_keys = min(BLOCK_N, seq_len_kv - kv_start);  // of this tile; the rest becomes 0
        __syncthreads();  // separates the last reads of the old tile from the loads of the new one
        for (int i = threadIdx.x; i < BLOCK_N * HEAD_DIM; i += BLOCK_M) {
            const bool is_there = i < num_keys * HEAD_DIM;
            k_smem[i] = is_there ? k[(size_t)kv_start * HEAD_DIM + i] : 0.0f;
            v_smem[i] = is_there ? v[(size_t)kv_start * HEAD_DIM + i] : 0.0f;
        }
        __syncthreads();  // separates the writes of the tiles from their reads
        // endregion

        for (int q_row = threadIdx.x; q_row < seq_len_q; q_row += BLOCK_M) {
            // region: scores
            float probs[BLOCK_N] = {};  // (BLOCK_N,) scores, then weights
            for (int d = 0; d < HEAD_DIM; ++d) {
                const float q_d = q[(size_t)q_row * HEAD_DIM + d];
#pragma unroll
                for (int tile_key = 0; tile_key < BLOCK_N; ++tile_key) {
                    probs[tile_key] += q_d * k_smem[tile_key * HEAD_DIM + d];
                }
            }
            const float m_old = kv_start > 0 ? m[q_row] : NEG_INF;
            const float l_old = kv_start > 0 ? l[q_row] : 0.0f;
            float m_new = m_old;
#pragma unroll
            for (int tile_key = 0; tile_key < BLOCK_N; ++tile_key) {
                probs[tile_key] = tile_key < num_keys ? probs[tile_key] * softmax_scale : NEG_INF;
                m_new = fmaxf(m_new, probs[tile_key]);
            }
            // endregion

            // region: update
            const float old_sum = l_old * exp_shifted(m_old, m_new);  // l_old * alpha
            float l_new = old_sum;
#pragma unroll
            for (int tile_key = 0; tile_key < BLOCK_N; ++tile_key) {
                probs[tile_key] = exp_shifted(probs[tile_key], m_new);
                l_new += probs[tile_key];
            }
            m[q_row] = m_new;
            l[q_row] = l_new;
            // endregion

            // region: rescale
            for (int d = 0; d < HEAD_DIM; ++d) {
                float acc = kv_start > 0 ? out[(size_t)q_row * HEAD_DIM + d] * old_sum : 0.0f;
#pragma unroll
                for (int tile_key = 0; tile_key < BLOCK_N; ++tile_key) {
                    acc += probs[tile_key] * v_smem[tile_key * HEAD_DIM + d];
                }
                out[(size_t)q_row * HEAD_DIM + d] = acc / l_new;
            }
            // endregion
        }
    }

    // region: finish
    for (int q_row = threadIdx.x; q_row < seq_len_q; q_row += BLOCK_M) {
        lse[q_row] = m[q_row] + logf(l[q_row]);  // this thread wrote both
    }
    // endregion
    // END SOLUTION
}
