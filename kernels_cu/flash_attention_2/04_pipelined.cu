// 04_pipelined — FlashAttention-2 forward on tensor cores, the next tile copied while this one is multiplied
//
// Idea      cp.async copies from global to shared memory without registers and without waiting: V arrives while q k^T is
//           computed, and the K of the next tile during softmax and weighted sum. No further buffer is needed
// Builds on 03_swizzled. Changed regions: load_tile, load_q, load_v and load_k in place of load_kv.
// Contract  q (B, H, Nq, D), k, v (B, Hkv, Nkv, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128 · any Nq, Nkv >= 1
//           strides in elements of batch, head and row; a row is contiguous, rows start at multiples of 16 bytes
//           out (B, H, Nq, D) ELEMENT, contiguous · lse (B, H, Nq) float, contiguous, natural log · B * H * Nq < 2^31
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
#include "common/async_copy.cuh"       // cp_async_16_zfill, commit, wait
#include "common/attention_rows.cuh"   // the products, the mask, the softmax and the store of a warp's rows
#include "common/attention_tiles.cuh"  // HEAD_DIM, ELEMENT; the sizes of a block and of its tiles
#include "common/placed_tiles.cuh"     // PlacedFragments, by place
#include "common/swizzle.cuh"          // swizzle_offset<row bytes>(row, chunk)

// region: place
// Offset of chunk `chunk` of row `row`, in bytes from the start of a tile.
__device__ __forceinline__ int place(int row, int chunk) { return swizzle_offset<ROW_BYTES>(row, chunk); }
// endregion

// region: load_tile
// Starts copying num_rows rows of `source` into a tile of tile_rows; the rest becomes 0: a masked weight multiplies no NaN.
__device__ __forceinline__ void load_tile(unsigned char* tile_smem, const ELEMENT* source, int stride_row, int tile_rows,
                                          int num_rows) {
    const int chunk = threadIdx.x % CHUNKS;
#pragma unroll 4
    for (int row = threadIdx.x / CHUNKS; row < tile_rows; row += NUM_THREADS / CHUNKS) {
        const ELEMENT* part = source + (long long)row * stride_row + chunk * CHUNK;
        cp_async_16_zfill(tile_smem + place(row, chunk), part, row < num_rows ? 16 : 0);  // at 0 bytes nothing is read
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
    const int warp_row = q_start + warp * WARP_M;  // the warp's first query
    // endregion

    // region: load_q
    load_tile(q_smem, q, stride_q_row, BLOCK_M, seq_len_q - q_start);
    load_tile(k_smem, k, stride_k_row, BLOCK_N, seq_len_kv);
    cp_async_commit_group();  // one group: Q and the first tile of K
    float acc[ROW_TILES][HEAD_DIM / 8][4] = {};  // (ROW_TILES, HEAD_DIM / 8, 4): lane 4 g + t, rows g and g + 8
    float m[ROW_TILES][2], l[ROW_TILES][2] = {};  // (ROW_TILES, 2); l over this lane's own columns
    for (int i = 0; i < ROW_TILES; ++i) m[i][0] = m[i][1] = NEG_INF;
    const float scale_log2 = softmax_scale * LOG2_E;  // exp(x * softmax_scale) == exp2(x * scale_log2)
    const PlacedFragments<place> fragments = {lane};
    // endregion

    for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_N) {
        // region: load_v
        cp_async_wait_group<0>();  // this thread's copies of this tile's K have landed
        __syncthreads();           // all threads' copies have, and all warps are done with the previous V tile
        load_tile(v_smem, v + (long long)kv_start * stride_v_row, stride_v_row, BLOCK_N, seq_len_kv - kv_start);
        cp_async_commit_group();
        // endregion

        // region: scores
        float scores[ROW_TILES][BLOCK_N / 8][4] = {};  // (ROW_TILES, BLOCK_N / 8, 4): q k^T without the scale
#pragma unroll
        for (int d = 0; d < HEAD_DIM / 16; ++d) {
            unsigned q_reg[ROW_TILES][4];  // (ROW_TILES, 4): 16 columns of the warp's rows
            load_q_fragments(q_reg, q_smem, warp * WARP_M, d, fragments);
            multiply_q_k<ELEMENT>(scores, q_reg, k_smem, d, fragments);
        }
        // endregion

        // region: load_k
        cp_async_wait_group<0>();  // this thread's copies of this tile's V have landed
        __syncthreads();           // all threads' copies have, and all warps are done with this tile's K
        const int next = kv_start + BLOCK_N;
        if (next < kv_end) {
            load_tile(k_smem, k + (long long)next * stride_k_row, stride_k_row, BLOCK_N, seq_len_kv - next);
        }
        cp_async_commit_group();
        // endregion

        // region: mask
        if (kv_start + BLOCK_N > full_end) {  // only tiles that the diagonal or the end of the keys cuts
            mask_scores(scores, warp_row, kv_start, seq_len_kv, offset, causal, lane);
        }
        // endregion

        online_softmax(scores, m, l, acc, scale_log2);
        multiply_p_v<ELEMENT>(acc, scores, v_smem, fragments);
    }

    // region: store
    store_rows(out, lse, acc, m, l, warp * WARP_M, seq_len_q - q_start, 1, softmax_scale, lane);
    // endregion
}
