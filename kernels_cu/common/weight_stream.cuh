// weight_stream — up to eight tokens times rows of weights, which stream through shared memory and are read once
//
// A block has a range of pairs of rows; `row_of(pair, part)` says which row of the weights part 0 or 1 of a pair is, so that what an
// epilogue combines (gate and up, the two numbers that RoPE turns together) ends in one thread. Four pairs are a tile, and PIECE
// columns of a tile an item. The items of a block go round its warps; each warp has a ring of its own, whose copies nothing but its
// own lanes wait for. start() begins the first copies: weights do not depend on the kernel before, so call it before
// griddepcontrol_wait().
// The weights are operand b of mma (a row of weights is a column), tokens the rows of operand a: rows 8 to 15 of it are zeros.
// Needs     compute capability 8.0 · device code only, no host headers
#pragma once
#include "common/async_copy.cuh"
#include "common/constants.cuh"
#include "common/dependent_launch.cuh"
#include "common/half_types.cuh"
#if !defined(ELEMENT) || !defined(NUM_WARPS) || !defined(NUM_STAGES)
#error "pass -DELEMENT=__half -DNUM_WARPS=12 (of a block) -DNUM_STAGES=7 (items in a warp's ring)"
#endif
#ifndef PIECE
#define PIECE 64  // columns of an item: 64 or 128
#endif
#define MAX_TOKENS 8          // rows of operand a that are used
#define PAIRS 4               // pairs of rows of a tile: the eight columns of operand b
#define CHUNK 8               // numbers of 16 bytes
#define CHUNKS (PIECE / CHUNK)  // of a row of an item
#define PIECE_BYTES (PIECE * 2)
#define ITEM_BYTES (2 * PAIRS * PIECE_BYTES)
#define RING_BYTES (NUM_STAGES * ITEM_BYTES)     // of a warp
#define COPIES (2 * PAIRS * CHUNKS / WARP_SIZE)  // of a lane for an item
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define BLOCKS_PER_SM 2  // there is room for a block of this kernel and for one of the next, which asks for its weights
#else
#define BLOCKS_PER_SM 1  // elsewhere the registers of two would spill
#endif
static_assert(NUM_WARPS >= MAX_TOKENS && NUM_WARPS <= 32, "NUM_WARPS: each token has a warp that loads it");
static_assert(NUM_STAGES >= 2, "NUM_STAGES: one item is multiplied while the next is under way");
static_assert(PIECE == 64 || PIECE == 128, "PIECE: a row of an item is one or two lines of 128 bytes");

// Where chunk `chunk` of row `row` is kept: rows of odd number exchange the halves of 128 bytes, so that the eight lanes which
// read four chunks of two rows each touch every bank once.
__device__ __forceinline__ int chunk_offset(int row, int chunk) { return (chunk ^ (row % 2 * 4)) * 16; }

// Bytes of a token in shared memory: whole pieces.
__device__ __forceinline__ int token_bytes(int size_k) { return CEIL_DIV(size_k, PIECE) * PIECE_BYTES; }

// The first of `count` pairs, shared out evenly, that belongs to a block.
__device__ __forceinline__ int first_of_block(unsigned block, int count) {
    return static_cast<int>(static_cast<unsigned long long>(count) * block / gridDim.x);
}

// region: item
struct Item {
    int tile, piece;
    __device__ __forceinline__ void advance(int num_pieces) {  // to the warp's next one
        for (piece += NUM_WARPS; piece >= num_pieces; piece -= num_pieces) ++tile;
    }
};
// endregion

template <typename RowOf>
struct WeightStream {
    const ELEMENT* weight;  // (num_rows, size_k)
    int num_rows, size_k, first_pair, num_pairs;
    RowOf row_of;
    unsigned char* ring_smem;  // (NUM_STAGES, 8, PIECE), of this warp
    int num_pieces;            // of a row
    Item to_start;
    int stage_to_start, tile_of_rows;
    const ELEMENT* rows[COPIES];  // where this lane's rows of tile tile_of_rows begin; null: there is no such row

    // region: start_item
    __device__ __forceinline__ const ELEMENT* row(int tile, int local_row) const {
        const int pair = tile * PAIRS + local_row / 2, n = row_of(first_pair + pair, local_row % 2);
        return pair < num_pairs && n < num_rows ? weight + static_cast<long long>(n) * size_k : nullptr;
    }

    __device__ __forceinline__ void start_item() {
        const int lane = threadIdx.x % WARP_SIZE, lane_row = lane / CHUNKS, chunk = lane % CHUNKS;
        if (to_start.tile * PAIRS < num_pairs) {
            if (to_start.tile != tile_of_rows) {
                tile_of_rows = to_start.tile;
#pragma unroll
                for (int i = 0; i < COPIES; ++i) rows[i] = row(tile_of_rows, i * (WARP_SIZE / CHUNKS) + lane_row);
            }
            const int k = to_start.piece * PIECE + chunk * CHUNK;
            unsigned char* dst_smem = ring_smem + stage_to_start * ITEM_BYTES + lane_row * PIECE_BYTES + chunk_offset(lane_row, chunk);
#pragma unroll
            for (int i = 0; i < COPIES; ++i) {
                const bool exists = rows[i] && k < size_k;  // what does not becomes zeros
                cp_async_16_zfill(dst_smem + i * WARP_SIZE * 16, exists ? rows[i] + k : weight, exists ? 16 : 0);
            }
            to_start.advance(num_pieces);
            stage_to_start = stage_to_start + 1 < NUM_STAGES ? stage_to_start + 1 : 0;
        }
        cp_async_commit_group();
    }

    __device__ __forceinline__ void start() {
        num_pieces = CEIL_DIV(size_k, PIECE);
        to_start = {0, static_cast<int>(threadIdx.x) / WARP_SIZE - NUM_WARPS};
        to_start.advance(num_pieces);
        stage_to_start = 0, tile_of_rows = -1;
#pragma unroll
        for (int i = 0; i < NUM_STAGES - 1; ++i) start_item();
    }
    // endregion

    // region: multiply
    // acc += the tokens times the item. Lane 4 g + t has token g of operand a, row g of the tile of operand b, and of every 32
    // columns the eight from 8 t on: both operands in the same order, so it need not be the one of the instruction.
    static __device__ __forceinline__ void multiply(float (&acc)[2][4], const unsigned char* item_smem, const unsigned char* x_smem,
                                                    bool has_token) {
        const int g = threadIdx.x % WARP_SIZE / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int c = 0; c < CHUNKS; c += 4) {
            const uint4 w = *reinterpret_cast<const uint4*>(item_smem + g * PIECE_BYTES + chunk_offset(g, c + t));
            const uint4 x = has_token ? *reinterpret_cast<const uint4*>(x_smem + chunk_offset(g, c + t)) : make_uint4(0, 0, 0, 0);
            const unsigned a[2][4] = {{x.x, 0, x.y, 0}, {x.z, 0, x.w, 0}}, b[2][2] = {{w.x, w.y}, {w.z, w.w}};
            mma_m16n8k16(acc[0], a[0], b[0], ELEMENT());
            mma_m16n8k16(acc[1], a[1], b[1], ELEMENT());
        }
    }
    // endregion

    // region: run
    // x_smem (num_tokens, token_bytes(size_k)), rows as chunk_offset says, zeros beyond size_k; sum_smem (tiles, NUM_WARPS, num_tokens,
    // 8) gets the warps' parts. Barriers before, and before sum_smem is read, are the caller's.
    __device__ __forceinline__ void run(float* sum_smem, const unsigned char* x_smem, int num_tokens) {
        const int g = threadIdx.x % WARP_SIZE / 4, t = threadIdx.x % 4, warp = threadIdx.x / WARP_SIZE;
        Item item = {0, warp - NUM_WARPS};
        item.advance(num_pieces);
        x_smem += g * num_pieces * PIECE_BYTES;
        int stage = 0;
        for (int tile = 0; tile * PAIRS < num_pairs; ++tile) {
            float acc[2][4] = {};
            for (; item.tile == tile; item.advance(num_pieces)) {
                cp_async_wait_group<NUM_STAGES - 2>();  // this lane's copies of the oldest item have landed
                __syncwarp();                           // all lanes' have, and all lanes are done with the item before
                start_item();                           // into the buffer of the item before
                multiply(acc, ring_smem + stage * ITEM_BYTES, x_smem + item.piece * PIECE_BYTES, g < num_tokens);
                stage = stage + 1 < NUM_STAGES ? stage + 1 : 0;
            }
            if (g < num_tokens) {
                float2* part = reinterpret_cast<float2*>(sum_smem) + ((tile * NUM_WARPS + warp) * num_tokens + g) * PAIRS + t;
                *part = make_float2(acc[0][0] + acc[1][0], acc[0][1] + acc[1][1]);
            }
        }
    }
    // endregion
};

// region: pair_sum
// Both numbers of a pair of the block for a token: the warps' parts, in one order, so that the bits are the same in every run.
__device__ __forceinline__ float2 pair_sum(const float* sum_smem, int pair, int token, int num_tokens) {
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int w = 0; w < NUM_WARPS; ++w) {
        const int place = ((pair / PAIRS * NUM_WARPS + w) * num_tokens + token) * PAIRS + pair % PAIRS;
        const float2 part = reinterpret_cast<const float2*>(sum_smem)[place];
        sum.x += part.x;
        sum.y += part.y;
    }
    return sum;
}
// endregion
