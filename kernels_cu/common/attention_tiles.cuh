// attention_tiles — the sizes that the kernels with tensor cores share: a block of four warps, 32 query rows a warp
//
// A block has BLOCK_M query rows and walks over tiles of BLOCK_N keys. Each warp has WARP_M rows, ROW_TILES fragments of 16, of its
// own. A row of a tile in shared memory is HEAD_DIM 16-bit numbers, CHUNKS chunks of 16 bytes; a chunk is what a lane passes to
// ldmatrix, and what a thread copies at a time, so that the block copies COPY_ROWS rows in one pass.
// A caller may set BLOCK_N. Device code only, no host headers.
#pragma once
#include "common/attention_macros.cuh"
#include "common/constants.cuh"
#define BLOCK_M 128  // query rows of a block
#ifndef BLOCK_N
#define BLOCK_N (HEAD_DIM == 64 ? 64 : 32)  // keys of a tile; the registers spill with more
#endif
#define NUM_WARPS 4
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)
#define WARP_M (BLOCK_M / NUM_WARPS)  // query rows of a warp: no other warp touches them, so warps exchange nothing
#define ROW_TILES (WARP_M / 16)       // of 16 rows: each fragment of K or V from ldmatrix is multiplied twice
#define CHUNK 8                       // elements in 16 bytes
#define CHUNKS (HEAD_DIM / CHUNK)     // in a row
#define ROW_BYTES (HEAD_DIM * 2)
#define COPY_ROWS (NUM_THREADS / CHUNKS)
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "the accumulators of other head widths do not fit the registers");
