// 02_mma — FlashAttention-2 forward on tensor cores, tiles as plain rows in shared memory
//
// Idea      both products of a tile are mma.m16n8k16, and the scores never leave the registers: what one lane holds of them
//           after the first product is what it must hand to the second
// Builds on 01_loop_order: the same loops, and matmul/07_mma for the fragments. Changed: 16-bit tiles; a warp owns 32 query rows.
// Contract  q (B, H, Nq, D), k, v (B, Hkv, Nkv, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128 · any Nq, Nkv >= 1
//           strides in elements of batch, head and row; a row is contiguous, rows start at multiples of 16 bytes
//           out (B, H, Nq, D) ELEMENT, contiguous · lse (B, H, Nq) float, contiguous, natural log
//           H = Hkv * num_q_per_kv; query head h reads head h / num_q_per_kv of k and v · softmax_scale > 0
//           causal bottom-right: query q_row sees the keys k <= q_row + Nkv - Nq · fully masked row: out 0, lse -inf
// Launch    grid (ceil(Nq/BLOCK_M) * H * B): the tiles of a head, then the next head · block 128
//           dynamic shared memory (BLOCK_M + 2 * BLOCK_N) * D * 2 bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=64 -DELEMENT=__nv_bfloat16
// gate: -DHEAD_DIM=128 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    T. Dao, "FlashAttention-2", 2023, algorithm 1 and section 3.3 (rows split over warps), arXiv:2307.08691
//           PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" (layouts: common/tensor_core.cuh)
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of q, k, v and out; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#include "common/constants.cuh"
#include "common/fast_exp2.cuh"   // fast_exp2
#include "common/half_types.cuh"  // mma_m16n8k16 and pack_pair for either type; ldmatrix
#define BLOCK_M 128               // query rows of a block
#ifndef BLOCK_N
#define BLOCK_N (HEAD_DIM == 64 ? 64 : 32)  // keys of a tile; wider ones, and the registers spill
#endif
#define NUM_WARPS 4
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)
#define WARP_M (BLOCK_M / NUM_WARPS)  // query rows of a warp: nobody else touches them, so warps need not talk
#define ROW_TILES (WARP_M / 16)       // of them: what comes from K or V by ldmatrix is multiplied twice
#define CHUNK 8                       // elements in 16 bytes: what ldmatrix takes from a row, and a thread from global memory
#define CHUNKS (HEAD_DIM / CHUNK)     // in a row
#define ROW_BYTES (HEAD_DIM * 2)
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");

// region: place
// Where chunk `chunk` of row `row` lies, in bytes from the start of a tile.
__device__ __forceinline__ int place(int row, int chunk) { return row * ROW_BYTES + chunk * 16; }
// endregion

// region: load_tile
// `num_rows` rows of `source` into a tile of `tile_rows`; what is missing becomes 0, so that 0 * 0 and not 0 * NaN is added.
__device__ __forceinline__ void load_tile(unsigned char* tile_smem, const ELEMENT* source, int stride_row, int tile_rows,
                                          int num_rows) {
    const int chunk = threadIdx.x % CHUNKS;
#pragma unroll 4
    for (int row = threadIdx.x / CHUNKS; row < tile_rows; row += NUM_THREADS / CHUNKS) {
        uint4 part = make_uint4(0, 0, 0, 0);
        if (row < num_rows) part = *reinterpret_cast<const uint4*>(source + (long long)row * stride_row + chunk * CHUNK);
        *reinterpret_cast<uint4*>(tile_smem + place(row, chunk)) = part;
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
flash_attention_2_kernel(const ELEMENT* q, const ELEMENT* k, const ELEMENT* v, ELEMENT* out, float* lse,
                         int num_heads, int num_q_per_kv, int seq_len_q, int seq_len_kv,
                         long long stride_q_batch, long long stride_q_head, int stride_q_row,
                         long long stride_k_batch, long long stride_k_head, int stride_k_row,
                         long long stride_v_batch, long long stride_v_head, int stride_v_row,
                         float softmax_scale, int causal) {
    extern __shared__ __align__(128) unsigned char smem[];
    unsigned char* q_smem = smem;                          // (BLOCK_M, HEAD_DIM)
    unsigned char* k_smem = q_smem + BLOCK_M * ROW_BYTES;  // (BLOCK_N, HEAD_DIM)
    unsigned char* v_smem = k_smem + BLOCK_N * ROW_BYTES;  // (BLOCK_N, HEAD_DIM)
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    // region: heads
    const int num_q_tiles = CEIL_DIV(seq_len_q, BLOCK_M);
    const int batch_head = blockIdx.x / num_q_tiles, q_start = blockIdx.x % num_q_tiles * BLOCK_M;
    const int batch = batch_head / num_heads, head = batch_head % num_heads, kv_head = head / num_q_per_kv;
    q += batch * stride_q_batch + head * stride_q_head + (long long)q_start * stride_q_row;
    k += batch * stride_k_batch + kv_head * stride_k_head;
    v += batch * stride_v_batch + kv_head * stride_v_head;
    out += ((long long)batch_head * seq_len_q + q_start) * HEAD_DIM;
    lse += (long long)batch_head * seq_len_q + q_start;
    // endregion

    // region: limits
    const int offset = seq_len_kv - seq_len_q;  // causal: query q_row sees the keys up to q_row + offset
    const int kv_end = causal ? min(seq_len_kv, min(q_start + BLOCK_M, seq_len_q) + offset) : seq_len_kv;
    const int full_end = causal ? min(seq_len_kv, q_start + 1 + offset) : seq_len_kv;  // keys below it: seen by every row
    const int warp_row = q_start + warp * WARP_M;
    // endregion

    // region: load_q
    load_tile(q_smem, q, stride_q_row, BLOCK_M, seq_len_q - q_start);
    float acc[ROW_TILES][HEAD_DIM / 8][4] = {};  // lane 4 g + t: rows g and g + 8, columns 2 t and 2 t + 1 of each 16 x 8
    float m[ROW_TILES][2], l[ROW_TILES][2] = {};  // of those two rows; l only over this lane's own columns
    for (int i = 0; i < ROW_TILES; ++i) m[i][0] = m[i][1] = NEG_INF;
    const float scale_log2 = softmax_scale * LOG2_E;  // exp(x * softmax_scale) == exp2(x * scale_log2)
    // endregion

    for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_N) {
        // region: load_kv
        __syncthreads();  // separates the last reads of the tiles before from the loads of these
        load_tile(k_smem, k + (long long)kv_start * stride_k_row, stride_k_row, BLOCK_N, seq_len_kv - kv_start);
        load_tile(v_smem, v + (long long)kv_start * stride_v_row, stride_v_row, BLOCK_N, seq_len_kv - kv_start);
        __syncthreads();  // separates the loads of Q, K and V from their reads
        // endregion

        // region: scores
        float scores[ROW_TILES][BLOCK_N / 8][4] = {};  // q k^T without the scale
#pragma unroll
        for (int d = 0; d < HEAD_DIM / 16; ++d) {
            unsigned q_reg[ROW_TILES][4];
#pragma unroll
            for (int i = 0; i < ROW_TILES; ++i) {  // lanes % 16 name rows, lanes / 16 the half of the 16 columns
                ldmatrix_x4(q_reg[i][0], q_reg[i][1], q_reg[i][2], q_reg[i][3],
                            q_smem + place(warp * WARP_M + i * 16 + lane % 16, 2 * d + lane / 16));
            }
#pragma unroll
            for (int j = 0; j < BLOCK_N / 16; ++j) {  // a row of K is a column of K^T: what mma wants, without a transpose
                unsigned k_reg[2][2];                 // keys 0-7 and 8-15
                ldmatrix_x4(k_reg[0][0], k_reg[0][1], k_reg[1][0], k_reg[1][1],
                            k_smem + place(j * 16 + lane / 16 * 8 + lane % 8, 2 * d + lane / 8 % 2));
#pragma unroll
                for (int i = 0; i < ROW_TILES; ++i) {
                    mma_m16n8k16(scores[i][2 * j], q_reg[i], k_reg[0], ELEMENT());
                    mma_m16n8k16(scores[i][2 * j + 1], q_reg[i], k_reg[1], ELEMENT());
                }
            }
        }
        // endregion

        // region: mask
        if (kv_start + BLOCK_N > full_end) {  // only tiles that the diagonal or the end of the keys cuts
#pragma unroll
            for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int q_row = warp_row + i * 16 + half * 8 + lane / 4;
                    const int end = causal ? min(seq_len_kv, q_row + 1 + offset) : seq_len_kv;
                    const int limit = end - kv_start - lane % 4 * 2;  // this lane's column 8 j + e is seen below it
#pragma unroll
                    for (int j = 0; j < BLOCK_N / 8; ++j) {
                        if (8 * j >= limit) scores[i][j][half * 2] = NEG_INF;
                        if (8 * j + 1 >= limit) scores[i][j][half * 2 + 1] = NEG_INF;
                    }
                }
            }
        }
        // endregion

#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                // region: softmax
                // region: row_max
                float m_new = m[i][half];
#pragma unroll
                for (int j = 0; j < BLOCK_N / 8; ++j) {
                    m_new = fmaxf(m_new, fmaxf(scores[i][j][half * 2], scores[i][j][half * 2 + 1]));
                }
                m_new = fmaxf(m_new, __shfl_xor_sync(ALL_LANES, m_new, 1));  // four lanes share a row
                m_new = fmaxf(m_new, __shfl_xor_sync(ALL_LANES, m_new, 2));
                const float shift = m_new == NEG_INF ? 0.0f : m_new * scale_log2;  // never -inf minus -inf
                const float alpha = fast_exp2(m[i][half] * scale_log2 - shift);
                m[i][half] = m_new;
                l[i][half] *= alpha;
                // endregion
#pragma unroll
                for (int j = 0; j < BLOCK_N / 8; ++j) {
#pragma unroll
                    for (int e = 2 * half; e < 2 * half + 2; ++e) {
                        scores[i][j][e] = fast_exp2(scores[i][j][e] * scale_log2 - shift);  // now probs, unnormalised
                        l[i][half] += scores[i][j][e];
                    }
                }
                // endregion
                // region: rescale
#pragma unroll
                for (int d = 0; d < HEAD_DIM / 8; ++d) {
                    acc[i][d][half * 2] *= alpha;
                    acc[i][d][half * 2 + 1] *= alpha;
                }
                // endregion
            }
        }

        // region: weighted_sum
#pragma unroll
        for (int j = 0; j < BLOCK_N / 16; ++j) {
            // region: pack
            unsigned probs_reg[ROW_TILES][4];  // rows g, g + 8 of keys 0-7, then of keys 8-15: two tiles of scores, packed
#pragma unroll
            for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    const float* pair = &scores[i][2 * j + r / 2][r % 2 * 2];
                    probs_reg[i][r] = pack_pair(pair[0], pair[1], ELEMENT());
                }
            }
            // endregion
#pragma unroll
            for (int d = 0; d < HEAD_DIM / 16; ++d) {
                unsigned v_reg[2][2];  // columns 0-7 and 8-15; V's rows are keys, so here the transpose is needed
                ldmatrix_x4_trans(v_reg[0][0], v_reg[0][1], v_reg[1][0], v_reg[1][1],
                                  v_smem + place(j * 16 + lane % 16, 2 * d + lane / 16));
#pragma unroll
                for (int i = 0; i < ROW_TILES; ++i) {
                    mma_m16n8k16(acc[i][2 * d], probs_reg[i], v_reg[0], ELEMENT());
                    mma_m16n8k16(acc[i][2 * d + 1], probs_reg[i], v_reg[1], ELEMENT());
                }
            }
        }
        // endregion
    }

    // region: store
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float l_row = l[i][half];
            l_row += __shfl_xor_sync(ALL_LANES, l_row, 1);  // the row's other columns, once, at the very end
            l_row += __shfl_xor_sync(ALL_LANES, l_row, 2);
            const float inv_l = l_row > 0.0f ? 1.0f / l_row : 0.0f;
            const int tile_row = warp * WARP_M + i * 16 + half * 8 + lane / 4;
            if (q_start + tile_row >= seq_len_q) continue;
            if (lane % 4 == 0) lse[tile_row] = m[i][half] * softmax_scale + logf(l_row);  // fully masked: -inf + log(0)
#pragma unroll
            for (int d = 0; d < HEAD_DIM / 8; ++d) {
                *reinterpret_cast<unsigned*>(out + tile_row * HEAD_DIM + d * 8 + lane % 4 * 2) =
                    pack_pair(acc[i][d][half * 2] * inv_l, acc[i][d][half * 2 + 1] * inv_l, ELEMENT());
            }
        }
    }
    // endregion
}
