// 05_paged_prefill — causal attention of many new tokens over pages (prefill, and appending to a cache)
//
// Idea      FlashAttention asks only where row `key` of K and V lies, and a block table answers that: paging outside,
//           FlashAttention inside, and neither needs to know of the other. The new tokens are in the pages already
// Builds on flash_attention_2/03_swizzled. Changed regions: load_tile (rows by table), heads (ragged queries), store.
// Contract  q (total_q, H, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128: the new tokens of all sequences, one sequence
//           after the other; sequence b has rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] · any stride of tokens and heads
//           k_pages, v_pages ELEMENT: page p, slot s, head h begins at p * stride_page + s * stride_slot + h * stride_kv_head
//           (both layouts, NHD and HND, are strides), the same strides for both pools; all rows at multiples of 16 bytes
//           block_table (B, max_pages) int · seq_lens (B,) int: tokens in the pages, the new ones included
//           out (total_q, H, D) ELEMENT, lse (total_q, H) float, natural log, both contiguous
//           causal bottom-right: new token i of n sees the keys k <= i + seq_len - n · a row that sees none: out 0, lse -inf
//           read: the first seq_len slots, the first ceil(seq_len / page_size) table entries; what lies behind may be anything
//           H = Hkv * num_q_per_kv · softmax_scale > 0
// Launch    grid (ceil(largest n / BLOCK_M), H, B) · block 128 · dynamic shared memory (BLOCK_M + 2 * BLOCK_N) * D * 2 bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/paged_prefill.py: paged_prefill_kernel
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    T. Dao, "FlashAttention-2", 2023, algorithm 1, arXiv:2307.08691
//           W. Kwon and others, "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023,
//           section 4.3, arXiv:2309.06180
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of q, k, v and out; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#include "common/constants.cuh"
#include "common/fast_exp2.cuh"   // fast_exp2
#include "common/half_types.cuh"  // mma_m16n8k16 and pack_pair for either type; ldmatrix
#include "common/swizzle.cuh"     // swizzle_offset<row bytes>(row, chunk)
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
__device__ __forceinline__ int place(int row, int chunk) { return swizzle_offset<ROW_BYTES>(row, chunk); }
// endregion

// region: load_tile
// Rows `start` to start + tile_rows of one sequence; those at or behind `end` become 0, and for them nothing is looked up.
__device__ __forceinline__ void load_tile(unsigned char* tile_smem, const ELEMENT* pages, const int* table, int page_size,
                                          long long stride_page, long long stride_slot, int tile_rows, int start, int end) {
    const int chunk = threadIdx.x % CHUNKS;
#pragma unroll 4
    for (int row = threadIdx.x / CHUNKS; row < tile_rows; row += NUM_THREADS / CHUNKS) {
        uint4 part = make_uint4(0, 0, 0, 0);
        const int key = start + row;
        // region: page
        if (key < end) {
            const long long at = table[key / page_size] * stride_page + key % page_size * stride_slot;
            part = *reinterpret_cast<const uint4*>(pages + at + chunk * CHUNK);
        }
        // endregion
        *reinterpret_cast<uint4*>(tile_smem + place(row, chunk)) = part;
    }
}

// The same for queries, whose rows lie one behind the other.
__device__ __forceinline__ void load_q_tile(unsigned char* tile_smem, const ELEMENT* q, long long stride_token, int num_rows) {
    const int chunk = threadIdx.x % CHUNKS;
    for (int row = threadIdx.x / CHUNKS; row < BLOCK_M; row += NUM_THREADS / CHUNKS) {
        uint4 part = make_uint4(0, 0, 0, 0);
        if (row < num_rows) part = *reinterpret_cast<const uint4*>(q + row * stride_token + chunk * CHUNK);
        *reinterpret_cast<uint4*>(tile_smem + place(row, chunk)) = part;
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
paged_prefill_kernel(const ELEMENT* q, const ELEMENT* k_pages, const ELEMENT* v_pages, const int* block_table,
                     const int* seq_lens, const int* cu_seqlens_q, ELEMENT* out, float* lse, int num_q_per_kv, int page_size,
                     int max_pages, long long stride_q_token, long long stride_q_head, long long stride_page,
                     long long stride_slot, long long stride_kv_head, float softmax_scale) {
    extern __shared__ __align__(128) unsigned char smem[];
    unsigned char* q_smem = smem;                          // (BLOCK_M, HEAD_DIM)
    unsigned char* k_smem = q_smem + BLOCK_M * ROW_BYTES;  // (BLOCK_N, HEAD_DIM)
    unsigned char* v_smem = k_smem + BLOCK_N * ROW_BYTES;  // (BLOCK_N, HEAD_DIM)
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    // region: heads
    const int head = blockIdx.y, num_heads = gridDim.y, q_start = blockIdx.x * BLOCK_M;
    const long long batch = blockIdx.z, first_token = cu_seqlens_q[batch];
    const int seq_len_q = cu_seqlens_q[batch + 1] - (int)first_token, seq_len_kv = seq_lens[batch];
    if (q_start >= seq_len_q) return;  // this sequence has fewer new tokens than the longest
    q += (first_token + q_start) * stride_q_token + head * stride_q_head;
    k_pages += head / num_q_per_kv * stride_kv_head;
    v_pages += head / num_q_per_kv * stride_kv_head;
    const int* table = block_table + batch * max_pages;
    out += ((first_token + q_start) * num_heads + head) * HEAD_DIM;
    lse += (first_token + q_start) * num_heads + head;
    // endregion

    // region: limits
    const int offset = seq_len_kv - seq_len_q;  // query q_row sees the keys up to q_row + offset
    const int kv_end = min(seq_len_kv, min(q_start + BLOCK_M, seq_len_q) + offset);
    const int full_end = min(seq_len_kv, q_start + 1 + offset);  // keys below it: seen by every row
    const int warp_row = q_start + warp * WARP_M;
    // endregion

    // region: load_q
    load_q_tile(q_smem, q, stride_q_token, seq_len_q - q_start);
    float acc[ROW_TILES][HEAD_DIM / 8][4] = {};  // lane 4 g + t: rows g and g + 8, columns 2 t and 2 t + 1 of each 16 x 8
    float m[ROW_TILES][2], l[ROW_TILES][2] = {};  // of those two rows; l only over this lane's own columns
    for (int i = 0; i < ROW_TILES; ++i) m[i][0] = m[i][1] = NEG_INF;
    const float scale_log2 = softmax_scale * LOG2_E;  // exp(x * softmax_scale) == exp2(x * scale_log2)
    // endregion

    for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_N) {
        // region: load_kv
        __syncthreads();  // separates the last reads of the tiles before from the loads of these
        load_tile(k_smem, k_pages, table, page_size, stride_page, stride_slot, BLOCK_N, kv_start, seq_len_kv);
        load_tile(v_smem, v_pages, table, page_size, stride_page, stride_slot, BLOCK_N, kv_start, seq_len_kv);
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
                    const int end = min(seq_len_kv, q_row + 1 + offset);
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
            if (lane % 4 == 0) lse[(long long)tile_row * num_heads] = m[i][half] * softmax_scale + logf(l_row);  // fully masked: -inf + log(0)
#pragma unroll
            for (int d = 0; d < HEAD_DIM / 8; ++d) {
                *reinterpret_cast<unsigned*>(out + (long long)tile_row * num_heads * HEAD_DIM + d * 8 + lane % 4 * 2) =
                    pack_pair(acc[i][d][half * 2] * inv_l, acc[i][d][half * 2 + 1] * inv_l, ELEMENT());
            }
        }
    }
    // endregion
}
