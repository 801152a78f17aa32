// 01_gemv — up to eight rows of activations times weights of four bits: the weights are read once, packed
//
// Idea      a GEMV is as fast as its weights are read: each warp has a ring of copies under way; as operands of mma, eight
//           activations a column, the weights cost no float each
// Contract  x (num_tokens, size_k) ELEMENT, rows stride_x apart, 1 to 8 of them · out (num_tokens, size_n) ELEMENT, contiguous
//           packed (size_n, words of a row) 32-bit words; scales (num_groups, size_n) ELEMENT; zeros (num_groups, size_n) bytes 0..15
//           out = x w^T with w[n, k] = (q[n, k] - zeros[k / GROUP, n]) * scales[k / GROUP, n], sums in float, rounded once
//           a row of packed has ceil(size_k / 128) stretches of 128 numbers; word 4 t + i of a stretch holds numbers
//           32 i + 8 t to 32 i + 8 t + 7, in the order 0 2 4 6 1 3 5 7 from its lowest four bits on; what size_k lacks is any number
//           any size_n >= 1; GROUP divides size_k; x, packed at multiples of 16 bytes, 8 divides stride_x; the bits depend on
//           NUM_WARPS, not on the grid or the other tokens
//           launched as a dependent of the kernel before (common/dependent_launch.cuh): that one must not write packed, scales, zeros
// Launch    grid 1 to ceil(size_n / 16): a block has a range of the tiles of 16 rows · block NUM_WARPS * 32 · dynamic shared memory of
//           NUM_WARPS * (NUM_STAGES * (1024 + 48 * (128 / GROUP)) + 128 * num_tokens) bytes
// Needs     compute capability 8.0 · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: there the compiler decides which lane takes which number
// gate: -DELEMENT=__half -DGROUP=128 -DNUM_WARPS=16 -DNUM_STAGES=3
// gate: -DELEMENT=__nv_bfloat16 -DGROUP=64 -DNUM_WARPS=16 -DNUM_STAGES=3
// gate: -DELEMENT=__nv_bfloat16 -DGROUP=32 -DNUM_WARPS=4 -DNUM_STAGES=2
// Source    common/four_bits.cuh
#if !defined(ELEMENT) || !defined(GROUP) || !defined(NUM_WARPS) || !defined(NUM_STAGES)
#error "pass -DELEMENT=__half -DGROUP=128 (weights of a scale) -DNUM_WARPS=16 (share size_k) -DNUM_STAGES=3 (of a warp's ring)"
#endif
#include "common/async_copy.cuh"
#include "common/block_share.cuh"  // first_of_block
#include "common/constants.cuh"
#include "common/dependent_launch.cuh"
#include "common/four_bits.cuh"  // pair_of
#include "common/half_types.cuh"
#define ROWS 16                 // of a tile: rows of the weights, those of an mma
#define STRETCH 128             // numbers of a row that four lanes read at once, 16 bytes each
#define GROUPS (STRETCH / GROUP)
#define WORD 8                  // numbers of a word
#define WORDS_BYTES (ROWS * STRETCH / 2)
#define GROUP_BYTES (ROWS * 3)  // 16 scales, then 16 zeros
#define ITEM_BYTES (WORDS_BYTES + GROUPS * GROUP_BYTES)  // a stretch of a tile: words, then its groups
#define RING_BYTES (NUM_STAGES * ITEM_BYTES)
#define NUM_THREADS (NUM_WARPS * WARP_SIZE)
static_assert(GROUP == 32 || GROUP == 64 || GROUP == 128, "GROUP: word i of four lanes is 32 numbers of one group");
static_assert(NUM_WARPS >= 1 && NUM_WARPS <= 32, "NUM_WARPS: a block has up to 1024 threads");
static_assert(NUM_STAGES >= 2, "NUM_STAGES: one item is multiplied while the next is under way");

// region: start_item
// What a warp's lanes ask for: words, scales and zeros of one stretch of a tile after the other. Zeros arrive where there is no row
// or group. What an item changes is counted up: in a kernel with so many items, addresses cost as much as weights.
struct Copies {
    const uint4* packed;
    const ELEMENT* scales;
    const unsigned char* zeros;
    int size_n, num_stretches, num_groups, end_tile;
    bool in_16_bytes;            // 16 scales and 16 zeros of a group lie at multiples of 16 bytes
    int tile, stretch;           // of the next item
    const uint4* words;          // this lane's 16 bytes of the tile's first eight rows
    int bytes[2];                // of this lane's rows: 16, or 0 where there is no row
    const unsigned char* group;  // this lane's 16 bytes of a group, three lanes each: eight scales, eight scales, 16 zeros
    long long group_stride;      // bytes to those of the next item

    __device__ __forceinline__ void enter_tile() {
        const int lane = threadIdx.x % WARP_SIZE, row = tile * ROWS + lane / 4, part = lane % 3;
        words = packed + (static_cast<size_t>(row) * num_stretches + stretch) * 4 + lane % 4;
        bytes[0] = row < size_n ? 16 : 0, bytes[1] = row + 8 < size_n ? 16 : 0;
        const size_t place = static_cast<size_t>(stretch * GROUPS + lane / 3) * size_n + tile * ROWS;
        group = part < 2 ? reinterpret_cast<const unsigned char*>(scales + place + part * 8) : zeros + place;
        group_stride = static_cast<long long>(size_n) * NUM_WARPS * GROUPS * (part < 2 ? 2 : 1);
    }

    __device__ __forceinline__ void start_item(unsigned char* item) {
        const int lane = threadIdx.x % WARP_SIZE;
        if (tile < end_tile) {
            cp_async_16_zfill(item + lane * 16, words, bytes[0]);
            cp_async_16_zfill(item + WORDS_BYTES / 2 + lane * 16, words + 8 * 4 * num_stretches, bytes[1]);
            if (in_16_bytes) {
                const bool exists = stretch * GROUPS + lane / 3 < num_groups;
                if (lane < 3 * GROUPS) cp_async_16_zfill(item + WORDS_BYTES + lane * 16, group, exists ? 16 : 0);
            } else {
                load_groups(item + WORDS_BYTES);
            }
            stretch += NUM_WARPS, words += NUM_WARPS * 4, group += group_stride;
            if (stretch >= num_stretches) stretch = threadIdx.x / WARP_SIZE, ++tile, enter_tile();
        }
        cp_async_commit_group();  // after the last item an empty group, so that the count of groups stays right
    }
    // endregion

    // Scales and zeros that lie anywhere, one at a time.
    __device__ __forceinline__ void load_groups(unsigned char* groups_smem) const {
        for (int i = threadIdx.x % WARP_SIZE; i < GROUPS * ROWS; i += WARP_SIZE) {
            const int group = stretch * GROUPS + i / ROWS, row = tile * ROWS + i % ROWS;
            const bool exists = group < num_groups && row < size_n;
            const size_t place = exists ? static_cast<size_t>(group) * size_n + row : 0;
            unsigned char* group_smem = groups_smem + i / ROWS * GROUP_BYTES;
            reinterpret_cast<ELEMENT*>(group_smem)[i % ROWS] = exists ? scales[place] : static_cast<ELEMENT>(0.0f);
            group_smem[2 * ROWS + i % ROWS] = exists ? zeros[place] : 0;
        }
    }
};

// region: multiply
// acc += scale * (q - zero) x over one stretch. Lane 4 g + t has rows g and g + 8 of the weights, token g, and of every 32
// numbers the eight from 8 t on.
__device__ __forceinline__ void multiply(float (&acc)[4], const unsigned char* item, const uint4 (&x)[4]) {
    const int lane = threadIdx.x % WARP_SIZE;
    const uint4 words[2] = {reinterpret_cast<const uint4*>(item)[lane], reinterpret_cast<const uint4*>(item)[WARP_SIZE + lane]};
    float sum[2][4], scale[2];  // two chains of products: each waits for itself alone
    unsigned zero[2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (32 * i % GROUP == 0) {
            const unsigned char* group_smem = item + WORDS_BYTES + 32 * i / GROUP * GROUP_BYTES;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                scale[half] = as_float(reinterpret_cast<const ELEMENT*>(group_smem)[lane / 4 + 8 * half]);
                zero[half] = group_smem[2 * ROWS + lane / 4 + 8 * half];
            }
#pragma unroll
            for (int e = 0; e < 8; ++e) sum[e / 4][e % 4] = 0.0f;
        }
#pragma unroll
        for (int p = 0; p < 4; p += 2) {
            unsigned a[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) a[e] = pair_of(word_of(words[e % 2], i), p + e / 2, zero[e % 2], ELEMENT());
            const unsigned b[2] = {word_of(x[i], p), word_of(x[i], p + 1)};
            mma_m16n8k16(sum[p / 2], a, b, ELEMENT());
        }
        if ((32 * i + 32) % GROUP == 0) {
#pragma unroll
            for (int e = 0; e < 4; ++e) acc[e] += scale[e / 2] * (sum[0][e] + sum[1][e]);
        }
    }
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
gemv_kernel(const ELEMENT* x, const uint4* packed, const ELEMENT* scales, const unsigned char* zeros, ELEMENT* out,
            int num_tokens, int size_n, int size_k, long long stride_x) {
    extern __shared__ __align__(128) unsigned char smem[];  // the warps' rings; then two buffers (warp, token, row) of sums
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE, group = lane / 4;
    // region: share
    const int num_tiles = CEIL_DIV(size_n, ROWS), num_stretches = CEIL_DIV(size_k, STRETCH);
    const int first_tile = first_of_block(blockIdx.x, num_tiles), end_tile = first_of_block(blockIdx.x + 1, num_tiles);
    unsigned char *ring_smem = smem + warp * RING_BYTES, *item = ring_smem;
    float* sum_smem = reinterpret_cast<float*>(smem + NUM_WARPS * RING_BYTES);
    // endregion

    // region: start
    const bool in_16_bytes = (reinterpret_cast<size_t>(scales) | reinterpret_cast<size_t>(zeros) | size_n) % 16 == 0;
    const int end = warp < num_stretches ? end_tile : 0;  // a warp without a stretch asks for nothing
    Copies copies = {packed, scales, zeros, size_n, num_stretches, size_k / GROUP, end, in_16_bytes, first_tile, warp};
    griddepcontrol_launch_dependents();  // the next kernel may begin to ask for its weights as well
    copies.enter_tile();
#pragma unroll 1
    for (int stage = 0; stage < NUM_STAGES; ++stage) copies.start_item(ring_smem + stage * ITEM_BYTES);
    griddepcontrol_wait();  // from here on the results of the kernel before are read, and memory is written
    // endregion

    const ELEMENT* x_row = x + (group < num_tokens ? group * stride_x : 0) + WORD * (lane % 4);
    const int num_numbers = group < num_tokens ? size_k - WORD * (lane % 4) : 0;  // that x_row has from here
    for (int tile = first_tile; tile < end_tile; ++tile) {
        // region: main_loop
        float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int k = warp * STRETCH; k < size_k; k += NUM_WARPS * STRETCH) {
            uint4 x_reg[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {  // from cache after the block's first tile; under way during the wait
                const bool exists = k + 32 * i < num_numbers;
                x_reg[i] = exists ? *reinterpret_cast<const uint4*>(x_row + k + 32 * i) : make_uint4(0, 0, 0, 0);
            }
            cp_async_wait_group<NUM_STAGES - 1>();  // this lane's copies of the oldest item have landed
            __syncwarp();                           // all lanes' have
            multiply(acc, item, x_reg);
            __syncwarp();  // all lanes are done with the item
            copies.start_item(item);
            item = item + ITEM_BYTES == ring_smem + RING_BYTES ? ring_smem : item + ITEM_BYTES;
        }
        // endregion

        // region: sum
        float* tile_smem = sum_smem + (tile - first_tile) % 2 * NUM_WARPS * ROWS * num_tokens;  // (warp, token, row)
#pragma unroll
        for (int e = 0; e < 4; ++e) {  // row g or g + 8, tokens 2 t and 2 t + 1
            const int token = lane % 4 * 2 + e % 2, row = group + e / 2 * 8;
            if (token < num_tokens) tile_smem[(warp * num_tokens + token) * ROWS + row] = acc[e];
        }
        __syncthreads();  // separates the warps' writes of their sums from the reads of all, and those reads from the tile after next
#pragma unroll 1
        for (int i = threadIdx.x; i < num_tokens * ROWS; i += NUM_THREADS) {
            const int token = i / ROWS, row = tile * ROWS + i % ROWS;
            if (row >= size_n) continue;
            float sum = 0.0f;
#pragma unroll
            for (int w = 0; w < NUM_WARPS; ++w) sum += tile_smem[w * num_tokens * ROWS + i];  // one order: the same bits
            out[static_cast<size_t>(token) * size_n + row] = static_cast<ELEMENT>(sum);
        }
        // endregion
    }
}
