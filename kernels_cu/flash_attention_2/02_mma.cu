// 02_mma — FlashAttention-2 forward on tensor cores, tiles as plain rows in shared memory
//
// Idea      both products of a tile are mma.m16n8k16, and the scores never leave the registers: what one lane holds of them
//           after the first product is its part of the second product's operand
// Builds on 01_loop_order: the same loops, and matmul/07_mma for the fragments. Changed: 16-bit tiles; a warp owns 32 query rows.
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
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of q, k, v and out; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#include "common/attention_rows.cuh"  // the products, the mask, the softmax and the store of a warp's rows
#include "common/constants.cuh"
#define BLOCK_M 128  // query rows of a block
#ifndef BLOCK_N
#define BLOCK_N (HEAD_DIM == 64 ? 64 : 32)  // keys of a tile; the registers spill with more
#endif
#define NUM_WARPS 4
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)
#define WARP_M (BLOCK_M / NUM_WARPS)  // query rows of a warp: no other warp touches them, so warps exchange nothing
#define ROW_TILES (WARP_M / 16)       // of 16 rows: each fragment of K or V from ldmatrix is multiplied twice
#define CHUNK 8                       // elements in 16 bytes: a row's part for ldmatrix, and a thread's copy from global memory
#define CHUNKS (HEAD_DIM / CHUNK)     // in a row
#define ROW_BYTES (HEAD_DIM * 2)
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");

// region: place
// Offset of chunk `chunk` of row `row`, in bytes from the start of a tile.
__device__ __forceinline__ int place(int row, int chunk) { return row * ROW_BYTES + chunk * 16; }
// endregion

// region: fragments
// The address that this lane passes to ldmatrix, for tile rows row to row + 15 and columns 16 d to 16 d + 15.
struct Fragments {
    int lane;
    __device__ __forceinline__ const unsigned char* rows(const unsigned char* tile_smem, int row, int d) const {
        return tile_smem + place(row + lane % 16, 2 * d + lane / 16);
    }
    __device__ __forceinline__ const unsigned char* columns(const unsigned char* tile_smem, int row, int d) const {
        return tile_smem + place(row + lane / 16 * 8 + lane % 8, 2 * d + lane / 8 % 2);
    }
};
// endregion

// region: load_tile
// Copies num_rows rows of `source` into a tile of tile_rows; the rest becomes 0, so that a masked weight multiplies no NaN.
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
    const int warp_row = q_start + warp * WARP_M;  // the warp's first query
    // endregion

    // region: load_q
    load_tile(q_smem, q, stride_q_row, BLOCK_M, seq_len_q - q_start);
    float acc[ROW_TILES][HEAD_DIM / 8][4] = {};  // (ROW_TILES, HEAD_DIM / 8, 4): lane 4 g + t, rows g and g + 8
    float m[ROW_TILES][2], l[ROW_TILES][2] = {};  // (ROW_TILES, 2); l over this lane's own columns
    for (int i = 0; i < ROW_TILES; ++i) m[i][0] = m[i][1] = NEG_INF;
    const float scale_log2 = softmax_scale * LOG2_E;  // exp(x * softmax_scale) == exp2(x * scale_log2)
    const Fragments fragments = {lane};
    // endregion

    for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_N) {
        // region: load_kv
        __syncthreads();  // separates the reads of the previous tiles from the writes of these
        load_tile(k_smem, k + (long long)kv_start * stride_k_row, stride_k_row, BLOCK_N, seq_len_kv - kv_start);
        load_tile(v_smem, v + (long long)kv_start * stride_v_row, stride_v_row, BLOCK_N, seq_len_kv - kv_start);
        __syncthreads();  // separates the writes of Q, K and V from their reads
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
