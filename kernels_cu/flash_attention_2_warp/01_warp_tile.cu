// 01_warp_tile — attention forward on tensor cores, one warp for 16 queries
//
// Idea      a result fragment of q k^T is, rounded to half, an a fragment of the product with v: the scores never leave
//           the registers of the four lanes that share their row
// Builds on 02_mma. Changed: a block is one warp, tiles of 16 keys, no barrier but __syncwarp; no mask.
// Contract  q (B, H, Nq, 64), k, v (B, Hkv, Nkv, 64) half, contiguous · out like q · lse (B, H, Nq) float, natural log
//           H = Hkv * num_q_per_kv; query head h reads head h / num_q_per_kv of k and v · any Nq, Nkv >= 1 · every key visible
//           no Triton twin: what a warp holds is the compiler's business there
// Launch    grid (ceil(Nq / 16), H, B) · block 32 · no dynamic shared memory; static: 6144 bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Source    T. Dao, "FlashAttention-2", 2023, algorithm 1, arXiv:2307.08691; PTX ISA for the fragments (common/tensor_core.cuh)
#include <cuda_fp16.h>
#include "common/constants.cuh"      // ALL_LANES, NEG_INF, WARP_SIZE
#include "common/softmax_state.cuh"  // exp_shifted(score, m)
#include "common/swizzle.cuh"        // swizzle_offset<row bytes>(row, chunk)
#include "common/tensor_core.cuh"    // ldmatrix_x4, ldmatrix_x4_trans, mma_m16n8k16_f32_f16
#define HEAD_DIM 64
#define TILE 16                     // query rows of a warp, and keys of a tile
#define CHUNK 8                     // halves in 16 bytes: what ldmatrix takes from a row
#define K_STEPS (HEAD_DIM / 16)     // steps of the product q k^T along head_dim
#define COL_TILES (HEAD_DIM / 8)    // result fragments side by side in a row of out
#define TILE_BYTES (TILE * HEAD_DIM * 2)

// Rows first … first + 15 of `rows` (num_rows, HEAD_DIM), zeros after the last. All lanes take part.
__device__ __forceinline__ void load_tile(unsigned char* tile_smem, const __half* rows, int first, int num_rows) {
    for (int i = threadIdx.x; i < TILE * HEAD_DIM / CHUNK; i += WARP_SIZE) {
        const int tile_row = i / (HEAD_DIM / CHUNK), chunk = i % (HEAD_DIM / CHUNK);
        uint4 numbers = make_uint4(0, 0, 0, 0);
        if (first + tile_row < num_rows) {
            numbers = *reinterpret_cast<const uint4*>(rows + (size_t)(first + tile_row) * HEAD_DIM + chunk * CHUNK);
        }
        *reinterpret_cast<uint4*>(tile_smem + swizzle_offset<HEAD_DIM * 2>(tile_row, chunk)) = numbers;
    }
}

// The largest, and the sum, of the four lanes 4 g … 4 g + 3 that share a row; all four get it. All lanes take part.
__device__ __forceinline__ float quad_max(float value) {
    value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, 1));
    return fmaxf(value, __shfl_xor_sync(ALL_LANES, value, 2));
}
__device__ __forceinline__ float quad_sum(float value) {
    value += __shfl_xor_sync(ALL_LANES, value, 1);
    return value + __shfl_xor_sync(ALL_LANES, value, 2);
}

// Two floats as halves in one register, the first in the low half.
__device__ __forceinline__ unsigned pack(float first, float second) {
    return __half_as_ushort(__float2half(first)) | (unsigned)__half_as_ushort(__float2half(second)) << 16;
}

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
flash_attention_2_kernel(const __half* q, const __half* k, const __half* v, __half* out, float* lse, int num_q_per_kv,
                         int seq_len_q, int seq_len_kv, float softmax_scale) {
    __shared__ __align__(128) unsigned char q_smem[TILE_BYTES];  // (TILE, HEAD_DIM) half, swizzled
    __shared__ __align__(128) unsigned char k_smem[TILE_BYTES];  // (TILE, HEAD_DIM) half, swizzled
    __shared__ __align__(128) unsigned char v_smem[TILE_BYTES];  // (TILE, HEAD_DIM) half, swizzled
    const int lane = threadIdx.x, q_start = blockIdx.x * TILE;
    const size_t head = (size_t)blockIdx.z * gridDim.y + blockIdx.y;  // of q, over all batches
    q += head * seq_len_q * HEAD_DIM;
    out += head * seq_len_q * HEAD_DIM;
    lse += head * seq_len_q;
    load_tile(q_smem, q, q_start, seq_len_q);
    __syncwarp();  // separates the writes of q_smem from the reads
    unsigned q_reg[K_STEPS][4];  // a fragments
    for (int step = 0; step < K_STEPS; ++step) {
        ldmatrix_x4(q_reg[step][0], q_reg[step][1], q_reg[step][2], q_reg[step][3],
                    q_smem + swizzle_offset<HEAD_DIM * 2>(lane % 16, 2 * step + lane / 16));
    }
    float m[2] = {NEG_INF, NEG_INF}, l[2] = {0.0f, 0.0f};  // of rows g and g + 8
    float acc[COL_TILES][4] = {};                          // result fragments
    // BEGIN SOLUTION
    const size_t kv_head = (size_t)blockIdx.z * (gridDim.y / num_q_per_kv) + blockIdx.y / num_q_per_kv;
    k += kv_head * seq_len_kv * HEAD_DIM;
    v += kv_head * seq_len_kv * HEAD_DIM;
    for (int kv_start = 0; kv_start < seq_len_kv; kv_start += TILE) {
        __syncwarp();  // separates the last reads of the old tile from the writes of the new one
        load_tile(k_smem, k, kv_start, seq_len_kv);
        load_tile(v_smem, v, kv_start, seq_len_kv);
        __syncwarp();  // separates the writes from the reads
        // region: scores
        float scores[2][4] = {};  // result fragments of keys 0-7 and 8-15
        for (int step = 0; step < K_STEPS; ++step) {
            unsigned k_reg[2][2];  // b fragments: a row of k is a column of k^T, so no transpose is needed
            ldmatrix_x4(k_reg[0][0], k_reg[0][1], k_reg[1][0], k_reg[1][1],
                        k_smem + swizzle_offset<HEAD_DIM * 2>(lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
            for (int n = 0; n < 2; ++n) mma_m16n8k16_f32_f16(scores[n], q_reg[step], k_reg[n], scores[n]);
        }
        // endregion
        // region: softmax
        for (int half = 0; half < 2; ++half) {
            float m_new = m[half];
            for (int n = 0; n < 2; ++n) {
                for (int i = 2 * half; i < 2 * half + 2; ++i) {
                    const int key = kv_start + n * 8 + lane % 4 * 2 + i % 2;
                    scores[n][i] = key < seq_len_kv ? scores[n][i] * softmax_scale : NEG_INF;
                    m_new = fmaxf(m_new, scores[n][i]);
                }
            }
            m_new = quad_max(m_new);
            const float alpha = exp_shifted(m[half], m_new);
            float tile_sum = 0.0f;
            for (int n = 0; n < 2; ++n) {
                for (int i = 2 * half; i < 2 * half + 2; ++i) {
                    scores[n][i] = exp_shifted(scores[n][i], m_new);
                    tile_sum += scores[n][i];
                }
            }
            l[half] = l[half] * alpha + quad_sum(tile_sum);
            for (int j = 0; j < COL_TILES; ++j) {
                acc[j][2 * half] *= alpha;
                acc[j][2 * half + 1] *= alpha;
            }
            m[half] = m_new;
        }
        // endregion
        // region: weighted_sum
        const unsigned probs[4] = {pack(scores[0][0], scores[0][1]), pack(scores[0][2], scores[0][3]),
                                   pack(scores[1][0], scores[1][1]), pack(scores[1][2], scores[1][3])};
        for (int j = 0; j < COL_TILES; j += 2) {
            unsigned v_reg[2][2];  // b fragments of two column tiles; rows of v are keys, so ldmatrix transposes them
            ldmatrix_x4_trans(v_reg[0][0], v_reg[0][1], v_reg[1][0], v_reg[1][1],
                              v_smem + swizzle_offset<HEAD_DIM * 2>(lane % 16, j + lane / 16));
            for (int n = 0; n < 2; ++n) mma_m16n8k16_f32_f16(acc[j + n], probs, v_reg[n], acc[j + n]);
        }
        // endregion
    }
    // END SOLUTION
    // region: store
    for (int half = 0; half < 2; ++half) {
        const int q_row = q_start + lane / 4 + half * 8;
        if (q_row >= seq_len_q) continue;
        for (int j = 0; j < COL_TILES; ++j) {
            const __half2 pair = __floats2half2_rn(acc[j][2 * half] / l[half], acc[j][2 * half + 1] / l[half]);
            *reinterpret_cast<__half2*>(out + (size_t)q_row * HEAD_DIM + j * 8 + lane % 4 * 2) = pair;
        }
        if (lane % 4 == 0) lse[q_row] = m[half] + logf(l[half]);
    }
    // endregion
}
