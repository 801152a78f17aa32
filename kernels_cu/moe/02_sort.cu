// 02_sort — pairs of token and expert in the order of the experts, by counting, and the row tiles of a product over them
//
// Idea      a counting sort needs no comparison: count the pairs of each expert, run over the counts, put each pair in its place
// Contract  experts (num_pairs,) int, 0 .. NUM_EXPERTS - 1; pair token * top_k + choice · offsets (NUM_EXPERTS + 1,) int: the
//           pairs of expert e are at places offsets[e] to offsets[e + 1] - 1, in their order · order (num_pairs,) int: the pair
//           at a place · places (num_pairs,) int: the place of a pair
//           tiles (max_tiles, 2) int: an expert and the place of its first row, BLOCK_M rows or what is left of the expert;
//           expert -1 after the last · max_tiles >= ceil(num_pairs / BLOCK_M) + NUM_EXPERTS is always enough · any num_pairs >= 1
// Launch    grid 1 · block 512 · no dynamic shared memory
// Needs     compute capability 7.0 · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: its programs have no match of lanes
// gate: -DNUM_EXPERTS=256 -DBLOCK_M=64
// gate: -DNUM_EXPERTS=8 -DBLOCK_M=64
// Source    D. E. Knuth, "The Art of Computer Programming", volume 3, section 5.2, algorithm D (distribution counting);
//           tiles that belong to one expert: T. Gale and others, "MegaBlocks", 2022, arXiv:2211.15841
#if !defined(NUM_EXPERTS) || !defined(BLOCK_M)
#error "pass -DNUM_EXPERTS=128 -DBLOCK_M=64 (rows of a tile)"
#endif
#include "common/constants.cuh"
#define NUM_WARPS 16
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)
static_assert(NUM_EXPERTS >= 1 && NUM_EXPERTS <= 512, "NUM_EXPERTS: a thread for each, and counts of all warps in 48 KiB");

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
sort_kernel(const int* experts, int* offsets, int* order, int* places, int* tiles, int num_pairs, int max_tiles) {
    __shared__ int next_smem[NUM_WARPS * NUM_EXPERTS];  // (warp, expert): first a count, then the next place
    __shared__ int start_smem[NUM_EXPERTS + 1], tile_smem[NUM_EXPERTS + 1];
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    const int share = CEIL_DIV(CEIL_DIV(num_pairs, NUM_WARPS), WARP_SIZE) * WARP_SIZE;  // a warp's pairs are neighbours: stable
    const int first = min(warp * share, num_pairs), end = min(first + share, num_pairs);
    int* next = next_smem + warp * NUM_EXPERTS;

    // region: count
    for (int i = threadIdx.x; i < NUM_WARPS * NUM_EXPERTS; i += NUM_THREADS) next_smem[i] = 0;
    __syncthreads();  // separates the zeros from the counts
    for (int pair = first + lane; pair < end; pair += WARP_SIZE) atomicAdd(&next[experts[pair]], 1);
    __syncthreads();  // separates the counts of the warps from their sums
    // endregion

    // region: run
    for (int e = threadIdx.x; e < NUM_EXPERTS; e += NUM_THREADS) {
        int count = 0;
        for (int w = 0; w < NUM_WARPS; ++w) count += next_smem[w * NUM_EXPERTS + e];
        start_smem[e] = count;
    }
    __syncthreads();  // separates the writes of the counts from the one thread that reads them
    if (threadIdx.x == 0) {
        int start = 0, tile = 0;
        for (int e = 0; e < NUM_EXPERTS; ++e) {
            const int count = start_smem[e];
            start_smem[e] = start, tile_smem[e] = tile;
            start += count, tile += CEIL_DIV(count, BLOCK_M);
        }
        start_smem[NUM_EXPERTS] = start, tile_smem[NUM_EXPERTS] = tile;
    }
    __syncthreads();  // separates the writes of the starts from their reads
    // endregion

    // region: tiles
    for (int e = threadIdx.x; e <= NUM_EXPERTS; e += NUM_THREADS) {
        offsets[e] = start_smem[e];
        if (e == NUM_EXPERTS) continue;
        for (int i = tile_smem[e]; i < tile_smem[e + 1]; ++i) {
            tiles[2 * i] = e, tiles[2 * i + 1] = start_smem[e] + (i - tile_smem[e]) * BLOCK_M;
        }
        int place = start_smem[e];
        for (int w = 0; w < NUM_WARPS; ++w) {  // counts become the first place of each warp
            const int count = next_smem[w * NUM_EXPERTS + e];
            next_smem[w * NUM_EXPERTS + e] = place;
            place += count;
        }
    }
    for (int i = tile_smem[NUM_EXPERTS] + threadIdx.x; i < max_tiles; i += NUM_THREADS) tiles[2 * i] = -1, tiles[2 * i + 1] = 0;
    __syncthreads();  // separates the writes of the places from their use
    // endregion

    // region: place
    for (int base = first; base < end; base += WARP_SIZE) {
        const int pair = base + lane;
        const int expert = pair < end ? experts[pair] : -1;
        const unsigned same = __match_any_sync(ALL_LANES, expert);  // lanes with this expert
        const int rank = __popc(same & ((1u << lane) - 1u));
        if (expert >= 0) {
            const int place = next[expert] + rank;
            order[place] = pair;
            places[pair] = place;
        }
        __syncwarp();  // separates the reads of the next places from their writes
        if (expert >= 0 && rank == 0) next[expert] += __popc(same);
        __syncwarp();  // separates the writes of the next places from the reads of the next 32 pairs
    }
    // endregion
}
