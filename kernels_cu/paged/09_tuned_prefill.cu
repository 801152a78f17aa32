// 09_tuned_prefill — causal attention of many new tokens over pages at the speed of FlashAttention-2 without pages
//
// Idea      05_paged_prefill with all that made 10_heavy_first fast; a key's page is looked up once, for K and V and all threads that
//           copy its row, a tile ahead: where the rows begin lies in shared memory, since no register is left for it
// Builds on flash_attention_2/10_heavy_first. Changed regions: pages (new), load_tile (rows by table), heads (ragged queries), store.
// Contract  as 05_paged_prefill, and: softmax_scale_log2 is softmax_scale times log2(e)
// Launch    grid (H, ceil(largest n / BLOCK_M), B) · block 128 · dynamic shared memory (BLOCK_M + 2 * BLOCK_N) * D * 2 bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/paged_prefill.py: paged_prefill_kernel · that of 05_paged_prefill
// gate: -DHEAD_DIM=64 -DELEMENT=__half
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16
// Source    T. Dao, "FlashAttention-2", 2023, algorithm 1 and section 3.3 (rows split over warps), arXiv:2307.08691
//           W. Kwon and others, "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023,
//           section 4.3, arXiv:2309.06180
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of q, k, v and out; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#include "common/async_copy.cuh"  // cp_async_16_zfill, commit, wait
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
#define COPY_ROWS (NUM_THREADS / CHUNKS)  // rows that the block copies in one go
#define Q_IN_REGISTERS (HEAD_DIM == 64)                   // a warp's rows take 32 of them; at 128 there is no room
#define Q_FRAGMENTS (Q_IN_REGISTERS ? HEAD_DIM / 16 : 1)  // held at a time, each 16 columns wide
#define MAX_GROWTH 8.0f  // 2^8 = 256: how far a weight may exceed 1 before the row is rescaled; half holds 65504
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");
static_assert(BLOCK_N <= NUM_THREADS, "a thread looks up one key");
static_assert(COPY_ROWS % 8 == 0, "the swizzle repeats every 8 rows, so a thread's chunk keeps its place in every go");

// region: load_tile
// Starts copying this thread's share of a tile of K or V. `row_at` says where the tile's rows begin; `num_rows` counts the
// keys of the tile from this thread's first one on, and what is missing becomes 0: 0 * 0 and not 0 * NaN is added.
__device__ __forceinline__ void load_tile(unsigned char* dst_smem, const ELEMENT* pages, const long long* row_at, int num_rows) {
#pragma unroll
    for (int row = 0; row < BLOCK_N; row += COPY_ROWS) {  // at 0 bytes nothing is read, wherever the address points
        const long long at = row_at[row + threadIdx.x / CHUNKS] + threadIdx.x % CHUNKS * CHUNK;
        cp_async_16_zfill(dst_smem + row * ROW_BYTES, pages + at, row < num_rows ? 16 : 0);
    }
}

// The same for queries, whose rows lie one behind the other.
__device__ __forceinline__ void load_q_tile(unsigned char* dst_smem, const ELEMENT* source, long long stride_row, int num_rows) {
#pragma unroll
    for (int row = 0; row < BLOCK_M; row += COPY_ROWS) {
        cp_async_16_zfill(dst_smem + row * ROW_BYTES, source + row * stride_row, row < num_rows ? 16 : 0);
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
tuned_prefill_kernel(const ELEMENT* q, const ELEMENT* k_pages, const ELEMENT* v_pages, const int* block_table,
                     const int* seq_lens, const int* cu_seqlens_q, ELEMENT* out, float* lse, int num_q_per_kv, int page_size,
                     int max_pages, long long stride_q_token, long long stride_q_head, long long stride_page,
                     long long stride_slot, long long stride_kv_head, float softmax_scale_log2) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ long long row_at_smem[2][BLOCK_N];  // where the rows of a tile begin: of this tile, of the next
    unsigned char* q_smem = smem;                          // (BLOCK_M, HEAD_DIM)
    unsigned char* k_smem = q_smem + BLOCK_M * ROW_BYTES;  // (BLOCK_N, HEAD_DIM)
    unsigned char* v_smem = k_smem + BLOCK_N * ROW_BYTES;  // (BLOCK_N, HEAD_DIM)
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    // region: heads
    const int head = blockIdx.x, num_heads = gridDim.x;  // the heads of a group side by side: they share K and V through L2
    const long long batch = blockIdx.z, first_token = cu_seqlens_q[batch];
    const int seq_len_q = cu_seqlens_q[batch + 1] - (int)first_token, seq_len_kv = seq_lens[batch];
    const int num_q_tiles = CEIL_DIV(seq_len_q, BLOCK_M);
    if (blockIdx.y >= num_q_tiles) return;                          // fewer new tokens than the longest sequence has
    const int q_start = (num_q_tiles - 1 - blockIdx.y) * BLOCK_M;  // the last rows see most, so they go first
    // endregion

    // region: limits
    const int offset = seq_len_kv - seq_len_q;  // query q_row sees the keys up to q_row + offset
    const int kv_end = min(seq_len_kv, min(q_start + BLOCK_M, seq_len_q) + offset);
    const int full_end = min(seq_len_kv, q_start + 1 + offset);  // keys below it: seen by every row
    const int warp_row = q_start + warp * WARP_M;
    const int last_tile = kv_end > 0 ? CEIL_DIV(kv_end, BLOCK_N) - 1 : -1;
    // endregion

    // region: pages
    const int copy_row = threadIdx.x / CHUNKS, copy_chunk = threadIdx.x % CHUNKS;
    const int copy_at = swizzle_offset<ROW_BYTES>(copy_row, copy_chunk);
    // Looks up the keys of the tile at kv_start. One that is none is copied as 0 bytes, whatever its table entry says.
    auto look_up = [&](int kv_start) {
        if (threadIdx.x < BLOCK_N) {
            const unsigned key = kv_start + threadIdx.x;
            const int page = block_table[batch * max_pages + min(key / page_size, max_pages - 1u)];
            row_at_smem[kv_start / BLOCK_N % 2][threadIdx.x] =
                head / num_q_per_kv * stride_kv_head + page * stride_page + key % page_size * stride_slot;
        }
    };
    if (last_tile >= 0) look_up(last_tile * BLOCK_N);
    __syncthreads();  // separates the places of the rows from their first use
    // endregion

    // region: load_q
    q += (first_token + q_start + copy_row) * stride_q_token + head * stride_q_head + copy_chunk * CHUNK;
    load_q_tile(q_smem + copy_at, q, stride_q_token, seq_len_q - q_start - copy_row);
    if (last_tile >= 0) {
        load_tile(k_smem + copy_at, k_pages, row_at_smem[last_tile % 2], seq_len_kv - last_tile * BLOCK_N - copy_row);
    }
    cp_async_commit_group();
    float acc[ROW_TILES][HEAD_DIM / 8][4] = {};  // lane 4 g + t: rows g and g + 8, columns 2 t and 2 t + 1 of each 16 x 8
    float m[ROW_TILES][2], l[ROW_TILES][2] = {};  // of those two rows; m times softmax_scale_log2; l over this lane's own columns
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) m[i][0] = m[i][1] = NEG_INF;
    // Where this lane's row begins for ldmatrix. The chunk 2 d further along the row lies at the offset XOR 32 d.
    const int v_lane = swizzle_offset<ROW_BYTES>(lane % 16, lane / 16);
    const int k_lane = swizzle_offset<ROW_BYTES>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
    unsigned q_reg[Q_FRAGMENTS][ROW_TILES][4];
    if (Q_IN_REGISTERS) {  // read once, not once a tile
        cp_async_wait_group<0>();
        __syncthreads();  // separates everybody's copies from the reads
#pragma unroll
        for (int n = 0; n < Q_FRAGMENTS * ROW_TILES; ++n) {
            unsigned(&q_now)[4] = q_reg[n / ROW_TILES][n % ROW_TILES];
            const int d = n / ROW_TILES, i = n % ROW_TILES;
            ldmatrix_x4(q_now[0], q_now[1], q_now[2], q_now[3],
                        q_smem + warp * WARP_M * ROW_BYTES + (v_lane ^ (d % 4 * 32)) + d / 4 * 128 + i * 16 * ROW_BYTES);
        }
    }
    // endregion

    for (int kv_start = last_tile * BLOCK_N; kv_start >= 0; kv_start -= BLOCK_N) {
        // region: load_v
        cp_async_wait_group<0>();  // K of this tile: what this thread copied is there
        __syncthreads();           // and what the others copied; nobody reads V of the tile before any more
        load_tile(v_smem + copy_at, v_pages, row_at_smem[kv_start / BLOCK_N % 2], seq_len_kv - kv_start - copy_row);
        cp_async_commit_group();
        if (kv_start > 0) look_up(kv_start - BLOCK_N);  // read behind the next barrier
        // endregion

        // region: scores
        float scores[ROW_TILES][BLOCK_N / 8][4] = {};  // q k^T without the scale
#pragma unroll
        for (int d = 0; d < HEAD_DIM / 16; ++d) {
            unsigned(&q_now)[ROW_TILES][4] = q_reg[Q_IN_REGISTERS ? d : 0];
#pragma unroll
            for (int i = 0; i < ROW_TILES && !Q_IN_REGISTERS; ++i) {
                ldmatrix_x4(q_now[i][0], q_now[i][1], q_now[i][2], q_now[i][3],
                            q_smem + warp * WARP_M * ROW_BYTES + (v_lane ^ (d % 4 * 32)) + d / 4 * 128 + i * 16 * ROW_BYTES);
            }
#pragma unroll
            for (int j = 0; j < BLOCK_N / 16; ++j) {  // a row of K is a column of K^T: what mma wants, without a transpose
                unsigned k_reg[2][2];                 // keys 0-7 and 8-15
                ldmatrix_x4(k_reg[0][0], k_reg[0][1], k_reg[1][0], k_reg[1][1],
                            k_smem + (k_lane ^ (d % 4 * 32)) + d / 4 * 128 + j * 16 * ROW_BYTES);
#pragma unroll
                for (int i = 0; i < ROW_TILES; ++i) {
                    mma_m16n8k16(scores[i][2 * j], q_now[i], k_reg[0], ELEMENT());
                    mma_m16n8k16(scores[i][2 * j + 1], q_now[i], k_reg[1], ELEMENT());
                }
            }
        }
        // endregion

        // region: load_k
        cp_async_wait_group<0>();  // V of this tile: what this thread copied is there
        __syncthreads();           // and what the others copied and looked up; nobody reads K of this tile any more
        if (kv_start > 0) load_tile(k_smem + copy_at, k_pages, row_at_smem[(kv_start / BLOCK_N - 1) % 2], BLOCK_N);
        cp_async_commit_group();
        // endregion

        // region: mask
        if (kv_start + BLOCK_N > full_end) {
            if (kv_start > warp_row + WARP_M - 1 + offset) continue;  // no row of this warp sees a key of it
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

        // region: softmax
        float m_lane[ROW_TILES][2];  // the largest score in this lane's columns
        bool outgrown = false;
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                m_lane[i][half] = scores[i][0][half * 2];
#pragma unroll
                for (int j = 0; j < BLOCK_N / 8; ++j) {
                    m_lane[i][half] = fmaxf(m_lane[i][half], fmaxf(scores[i][j][half * 2], scores[i][j][half * 2 + 1]));
                }
                outgrown |= m_lane[i][half] * softmax_scale_log2 - m[i][half] > MAX_GROWTH;  // false for -inf minus -inf
            }
        }
        // endregion

        // region: rescale
        // Any m near the maximum will do, as long as numerator and denominator use the same one. So the old one stays until
        // some row of the warp needs a new one: then all rows get theirs, and only then four lanes compare what they hold.
        if (__any_sync(ALL_LANES, outgrown)) {
#pragma unroll
            for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    // region: grow
                    float m_new = m_lane[i][half];
                    m_new = fmaxf(m_new, __shfl_xor_sync(ALL_LANES, m_new, 1));  // four lanes share a row
                    m_new = fmaxf(m_new, __shfl_xor_sync(ALL_LANES, m_new, 2));
                    m_new = fmaxf(m[i][half], m_new * softmax_scale_log2);
                    const float alpha = m_new == NEG_INF ? 1.0f : fast_exp2(m[i][half] - m_new);
                    m[i][half] = m_new;
                    l[i][half] *= alpha;
                    // endregion
#pragma unroll
                    for (int d = 0; d < HEAD_DIM / 8; ++d) {
                        acc[i][d][half * 2] *= alpha;
                        acc[i][d][half * 2 + 1] *= alpha;
                    }
                }
            }
        }
        // endregion

        // region: probs
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {  // m is -inf only while every key was masked
                const float shift = m[i][half] == NEG_INF ? 0.0f : m[i][half];
#pragma unroll
                for (int j = 0; j < BLOCK_N / 8; ++j) {
#pragma unroll
                    for (int e = 2 * half; e < 2 * half + 2; ++e) {
                        scores[i][j][e] = fast_exp2(scores[i][j][e] * softmax_scale_log2 - shift);  // now probs, unnormalised
                        l[i][half] += scores[i][j][e];
                    }
                }
            }
        }
        // endregion

        // region: weighted_sum
#pragma unroll
        for (int j = 0; j < BLOCK_N / 16; ++j) {
            unsigned probs_reg[ROW_TILES][4];  // rows g, g + 8 of keys 0-7, then of keys 8-15: two tiles of scores, packed
#pragma unroll
            for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    const float* pair = &scores[i][2 * j + r / 2][r % 2 * 2];
                    probs_reg[i][r] = pack_pair(pair[0], pair[1], ELEMENT());
                }
            }
#pragma unroll
            for (int d = 0; d < HEAD_DIM / 16; ++d) {
                unsigned v_reg[2][2];  // columns 0-7 and 8-15; V's rows are keys, so here the transpose is needed
                ldmatrix_x4_trans(v_reg[0][0], v_reg[0][1], v_reg[1][0], v_reg[1][1],
                                  v_smem + (v_lane ^ (d % 4 * 32)) + d / 4 * 128 + j * 16 * ROW_BYTES);
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
    cp_async_wait_all();  // with no tile at all, Q may still be arriving where out is put
    __syncthreads();
    const int rows_left = seq_len_q - warp_row;  // of this warp
    const long long first_row = (first_token + warp_row) * num_heads + head;  // a row further: num_heads
    unsigned char* out_smem = q_smem + warp * WARP_M * ROW_BYTES;  // (WARP_M, HEAD_DIM): the warp's own rows of Q
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float l_row = l[i][half];
            l_row += __shfl_xor_sync(ALL_LANES, l_row, 1);  // the row's other columns, once, at the very end
            l_row += __shfl_xor_sync(ALL_LANES, l_row, 2);
            const float inv_l = l_row > 0.0f ? 1.0f / l_row : 0.0f;
            const int row = i * 16 + half * 8 + lane / 4;
            if (lane % 4 == 0 && row < rows_left) lse[first_row + (long long)row * num_heads] = m[i][half] * LN_2 + logf(l_row);  // -inf + log(0)
#pragma unroll
            for (int d = 0; d < HEAD_DIM / 8; ++d) {
                *reinterpret_cast<unsigned*>(out_smem + swizzle_offset<ROW_BYTES>(row, d) + lane % 4 * 4) =
                    pack_pair(acc[i][d][half * 2] * inv_l, acc[i][d][half * 2 + 1] * inv_l, ELEMENT());
            }
        }
    }
    __syncwarp();  // separates the lanes' writes of out_smem from their reads
    for (int i = lane; i < min(WARP_M, rows_left) * CHUNKS; i += WARP_SIZE) {
        *reinterpret_cast<uint4*>(out + (first_row + (long long)(i / CHUNKS) * num_heads) * HEAD_DIM + i % CHUNKS * CHUNK) =
            *reinterpret_cast<const uint4*>(out_smem + swizzle_offset<ROW_BYTES>(i / CHUNKS, i % CHUNKS));
    }
    // endregion
}
