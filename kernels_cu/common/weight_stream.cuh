// weight_stream — up to eight tokens times rows of weights, which stream through shared memory and are read once
//
// A block has a range of pairs of rows; `row_of(pair, part)` says which row of the weights part 0 or 1 of a pair is, so that what an
// epilogue combines (gate and up, the two numbers that RoPE turns together) ends in one thread. Four pairs are a tile, and PIECE
// columns of a tile an item. start() asks for the first weights, which do not depend on the kernel before: call it before
// griddepcontrol_wait(). It has few items under way at a time: the block of the kernel before is on the same multiprocessor, and what
// that reads, its tokens and the results of others, waits behind them. No warp waits for a copy of another warp.
// TILES 0   WeightRing: the items of a block, tile after tile, go round its warps, each of which has a ring of NUM_STAGES. A warp pays
//           every instruction of start_item and multiply once for each KiB of weights.
// TILES > 0 WeightTiles: the block has at most so many tiles, and all of its weights fit: NUM_STAGES is TILES times the pieces of a
//           row that a warp has. A warp multiplies a piece of the tokens with that piece of each tile, the products independent of
//           each other: where the weights are there before the tokens are, the length of the chain is what counts.
// The weights are operand b of mma (a row of weights is a column), tokens the rows of operand a.
// Needs     compute capability 8.0 · device code only, no host headers
#pragma once
#include "common/async_copy.cuh"
#include "common/block_share.cuh"
#include "common/constants.cuh"
#include "common/dependent_launch.cuh"
#include "common/half_types.cuh"
#if !defined(ELEMENT) || !defined(NUM_WARPS) || !defined(NUM_STAGES)
#error "pass -DELEMENT=__half -DNUM_WARPS=12 (of a block) -DNUM_STAGES=7 (items in a warp's ring)"
#endif
#ifndef PIECE
#define PIECE 64  // columns of an item: 64 or 128
#endif
#ifndef TILES
#define TILES 0  // of a block, at most, all of them under way at once; 0: any number, through a ring
#endif
#define MAX_TOKENS 8            // half of the rows of operand a
#define PAIRS 4                 // pairs of rows of a tile: the eight columns of operand b
#define CHUNK 8                 // numbers of 16 bytes
#define CHUNKS (PIECE / CHUNK)  // of a row of an item
#define PIECE_BYTES (PIECE * 2)
#define ITEM_BYTES (2 * PAIRS * PIECE_BYTES)
#define RING_BYTES (NUM_STAGES * ITEM_BYTES)     // of a warp
#define COPIES (2 * PAIRS * CHUNKS / WARP_SIZE)  // of a lane for an item
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)
#define NO_TOKEN (-(1 << 30))  // an offset that stays below 0
#ifndef NUM_EARLY
#define NUM_EARLY 3  // items that a warp has under way while it fills its ring: enough to keep memory busy
#endif
#define EARLY_PIECES 2  // the same of WeightTiles, in pieces of all tiles
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define BLOCKS_PER_SM 2  // there is room for a block of this kernel and for one of the next, which asks for its weights
#else
#define BLOCKS_PER_SM 1  // elsewhere the registers of two would spill
#endif
static_assert(NUM_WARPS >= MAX_TOKENS && NUM_WARPS <= 32, "NUM_WARPS: each token has a warp that loads it");
static_assert(TILES > 0 || NUM_STAGES >= 2, "NUM_STAGES: one item is multiplied while the next is under way");
static_assert(TILES == 0 || NUM_STAGES % TILES == 0, "NUM_STAGES: a warp has its pieces of every tile");
static_assert(PIECE == 64 || PIECE == 128, "PIECE: a row of an item is one or two lines of 128 bytes");

// Where chunk `chunk` of row `row` is kept: rows of odd number exchange the halves of 128 bytes, so that the eight lanes which
// read four chunks of two rows each touch every bank once.
__device__ __forceinline__ int chunk_offset(int row, int chunk) { return (chunk ^ (row % 2 * 4)) * 16; }

// Bytes of a token in shared memory: whole pieces.
__device__ __forceinline__ int token_bytes(int size_k) { return CEIL_DIV(size_k, PIECE) * PIECE_BYTES; }

// The token of a block's output i, of `count` a token.
__device__ __forceinline__ int token_of(int i, int count, int num_tokens) { return num_tokens == 1 ? 0 : i / count; }

// region: multiply
// acc += eight columns of the tokens times those of a tile. Lane 4 g + t has row g of the tile, and of every 32 columns the eight from
// 8 t on: operand b of two products, four columns each. One operand a serves both: token g has the first four of the eight in row g,
// the last four in row g + 8 (load_tokens has put them so). The sums of the first product are in rows 0 to 7 of acc[0], those of the
// second in rows 8 to 15 of acc[1]; the other rows are never read, nor are those without a token: their lanes load nothing.
__device__ __forceinline__ void multiply(float (&acc)[2][4], const uint4& x, const uint4& w) {
    const unsigned a[4] = {x.x, x.y, x.z, x.w}, b[2][2] = {{w.x, w.y}, {w.z, w.w}};
    mma_m16n8k16(acc[0], a, b[0], ELEMENT());
    mma_m16n8k16(acc[1], a, b[1], ELEMENT());
}
// endregion

// sum_smem (tiles, NUM_WARPS, num_tokens, 8): this lane's two sums of a token and tile, its warp's part
__device__ __forceinline__ void store_part(float* sum_smem, const float (&acc)[2][4], int tile, int num_tokens) {
    const int g = threadIdx.x % WARP_SIZE / 4, t = threadIdx.x % 4, warp = threadIdx.x / WARP_SIZE;
    if (g >= num_tokens) return;
    float2* part = reinterpret_cast<float2*>(sum_smem) + ((tile * NUM_WARPS + warp) * num_tokens + g) * PAIRS + t;
    *part = make_float2(acc[0][0] + acc[1][2], acc[0][1] + acc[1][3]);
}

template <typename RowOf>
struct WeightRing {
    const ELEMENT* weight;  // (num_rows, size_k)
    int num_rows, size_k, first_pair, num_pairs;
    RowOf row_of;
    unsigned char* rings_smem;    // (NUM_WARPS, NUM_STAGES, 8, PIECE)
    int num_pieces, num_chunks;   // of a row: pieces, and chunks of 16 bytes
    int next_tile, next_chunk;    // what this lane copies next: the tile, and which chunk of its rows
    const ELEMENT* next[COPIES];  // that chunk of the rows of tile next_tile that this lane copies
    int row_chunks[COPIES];       // of such a row; of one that does not exist 0

    // region: start_item
    __device__ __forceinline__ void enter_tile() {
        for (; next_chunk >= num_pieces * CHUNKS; next_chunk -= num_pieces * CHUNKS) ++next_tile;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            const int local = i * (WARP_SIZE / CHUNKS) + threadIdx.x % WARP_SIZE / CHUNKS, pair = next_tile * PAIRS + local / 2;
            const int n = row_of(first_pair + pair, local % 2);
            row_chunks[i] = pair < num_pairs && n < num_rows ? num_chunks : 0;
            next[i] = weight + static_cast<unsigned long long>(static_cast<unsigned>(n)) * static_cast<unsigned>(size_k) + next_chunk * CHUNK;
        }
    }

    // copy_offset: where in the rings this lane's first chunk goes
    __device__ __forceinline__ void start_item(int copy_offset) {
        if (next_tile * PAIRS < num_pairs) {
#pragma unroll
            for (int i = 0; i < COPIES; ++i) {  // what does not exist becomes zeros: nothing is read
                const int bytes = next_chunk < row_chunks[i] ? 16 : 0;
                cp_async_16_zfill(rings_smem + copy_offset + i * WARP_SIZE * 16, next[i], bytes);
                next[i] += NUM_WARPS * PIECE;
            }
            next_chunk += NUM_WARPS * CHUNKS;  // the warp's next piece, of this tile or of a later one
            if (next_chunk >= num_pieces * CHUNKS) enter_tile();
        }
        cp_async_commit_group();
    }

    // Where in the rings the first chunk is that this lane copies.
    static __device__ __forceinline__ int first_copy() {
        const int lane = threadIdx.x % WARP_SIZE, row = lane / CHUNKS;
        return threadIdx.x / WARP_SIZE * RING_BYTES + row * PIECE_BYTES + chunk_offset(row, lane % CHUNKS);
    }

    __device__ __forceinline__ void start() {
        num_pieces = CEIL_DIV(size_k, PIECE), num_chunks = size_k / CHUNK;
        next_tile = 0, next_chunk = threadIdx.x / WARP_SIZE * CHUNKS + threadIdx.x % CHUNKS;
        enter_tile();
#pragma unroll 1
        for (int stage = 0; stage < NUM_STAGES; ++stage) {
            start_item(first_copy() + stage * ITEM_BYTES);
            cp_async_wait_group<NUM_EARLY - 1>();
        }
    }
    // endregion

    // region: run
    // x_smem as load_tokens leaves it; sum_smem (tiles, NUM_WARPS, num_tokens, 8) gets the warps' parts. Barriers before, and before
    // sum_smem is read, are the caller's.
    __device__ __forceinline__ void run(float* sum_smem, const unsigned char* x_smem, int num_tokens) {
        const int g = threadIdx.x % WARP_SIZE / 4, t = threadIdx.x % 4, warp = threadIdx.x / WARP_SIZE;
        uint4 x[CHUNKS / 4] = {};  // of lanes without a token: zeros
        // Of the oldest item, in the rings. What a loop counts up, the compiler does not compute anew for each item.
        int w_offset = warp * RING_BYTES + g * PIECE_BYTES + chunk_offset(g, t), copy_offset = first_copy(), stage = 0;
        int piece = warp, x_offset = g < num_tokens ? g * token_bytes(size_k) + piece * PIECE_BYTES + chunk_offset(g, t) : NO_TOKEN;
        for (int tile = 0; tile * PAIRS < num_pairs; ++tile) {
            float acc[2][4] = {};
            for (; piece < num_pieces; piece += NUM_WARPS, x_offset += NUM_WARPS * PIECE_BYTES) {
                cp_async_wait_group<NUM_STAGES - 1>();  // this lane's copies of the oldest item have landed
                __syncwarp();                           // all lanes' have
#pragma unroll
                for (int i = 0; i < CHUNKS / 4; ++i) {  // chunk_offset of chunks 4 i + t differs from that of chunk t in the bits of 64 i
                    const uint4 w = *reinterpret_cast<const uint4*>(rings_smem + (w_offset ^ 64 * i));
                    if (x_offset >= 0) x[i] = *reinterpret_cast<const uint4*>(x_smem + (x_offset ^ 64 * i));
                    multiply(acc, x[i], w);
                }
                __syncwarp();  // all lanes are done with the item
                start_item(copy_offset);
                w_offset += ITEM_BYTES, copy_offset += ITEM_BYTES;
                if (++stage == NUM_STAGES) stage = 0, w_offset -= RING_BYTES, copy_offset -= RING_BYTES;
            }
            piece -= num_pieces, x_offset -= num_pieces * PIECE_BYTES;
            store_part(sum_smem, acc, tile, num_tokens);
        }
    }
    // endregion
};

#if TILES
template <typename RowOf>
struct WeightTiles {
    const ELEMENT* weight;  // (num_rows, size_k)
    int num_rows, size_k, first_pair, num_pairs;
    RowOf row_of;
    unsigned char* rings_smem;  // (NUM_WARPS, NUM_STAGES / TILES pieces, TILES, 8, PIECE)

    // region: start_tiles
    __device__ __forceinline__ void start() {
        const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE, row = lane / CHUNKS, num_chunks = size_k / CHUNK;
        int chunk = warp * CHUNKS + lane % CHUNKS;  // of the rows: what this lane copies next
        const ELEMENT* next[TILES * COPIES];        // that chunk of its rows, some of each tile
        int row_chunks[TILES * COPIES];             // of such a row; of one that does not exist 0
#pragma unroll
        for (int i = 0; i < TILES * COPIES; ++i) {
            const int local = i * (WARP_SIZE / CHUNKS) + row, n = row_of(first_pair + local / 2, local % 2);
            row_chunks[i] = local / 2 < num_pairs && n < num_rows ? num_chunks : 0;
            next[i] = weight + static_cast<unsigned long long>(static_cast<unsigned>(n)) * static_cast<unsigned>(size_k) + chunk * CHUNK;
        }
        unsigned char* dst_smem = rings_smem + warp * RING_BYTES + row * PIECE_BYTES + chunk_offset(row, lane % CHUNKS);
#pragma unroll 1
        for (int piece = 0; piece < NUM_STAGES / TILES; ++piece, chunk += NUM_WARPS * CHUNKS) {
#pragma unroll
            for (int i = 0; i < TILES * COPIES; ++i) {  // what does not exist becomes zeros: nothing is read
                const int bytes = chunk < row_chunks[i] ? 16 : 0;
                cp_async_16_zfill(dst_smem, next[i], bytes);
                next[i] += NUM_WARPS * PIECE;
                dst_smem += WARP_SIZE * 16;
            }
            cp_async_commit_group();
            cp_async_wait_group<EARLY_PIECES - 1>();
        }
    }
    // endregion

    // region: run_tiles
    // As WeightRing::run.
    __device__ __forceinline__ void run(float* sum_smem, const unsigned char* x_smem, int num_tokens) {
        const int g = threadIdx.x % WARP_SIZE / 4, t = threadIdx.x % 4, warp = threadIdx.x / WARP_SIZE;
        const int num_pieces = CEIL_DIV(size_k, PIECE);
        int w_offset = warp * RING_BYTES + g * PIECE_BYTES + chunk_offset(g, t);
        int x_offset = g * token_bytes(size_k) + warp * PIECE_BYTES + chunk_offset(g, t);
        float acc[TILES][2][4] = {};
        cp_async_wait_group<0>();  // this lane's copies have landed
        __syncwarp();              // all lanes' have
#pragma unroll
        for (int j = 0; j < NUM_STAGES / TILES; ++j) {
            if (warp + j * NUM_WARPS >= num_pieces) break;
            uint4 x[CHUNKS / 4] = {};  // of lanes without a token: zeros
#pragma unroll
            for (int i = 0; i < CHUNKS / 4; ++i) {  // chunk_offset of chunks 4 i + t differs from that of chunk t in the bits of 64 i
                if (g < num_tokens) x[i] = *reinterpret_cast<const uint4*>(x_smem + (x_offset ^ 64 * i));
            }
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
                for (int i = 0; i < CHUNKS / 4; ++i) {
                    multiply(acc[tile], x[i], *reinterpret_cast<const uint4*>(rings_smem + (w_offset ^ 64 * i)));
                }
                w_offset += ITEM_BYTES;
            }
            x_offset += NUM_WARPS * PIECE_BYTES;
        }
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) {
            if (tile * PAIRS < num_pairs) store_part(sum_smem, acc[tile], tile, num_tokens);
        }
    }
    // endregion
};

template <typename RowOf>
using WeightStream = WeightTiles<RowOf>;
#else
template <typename RowOf>
using WeightStream = WeightRing<RowOf>;
#endif

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
