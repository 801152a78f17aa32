// row_chunks — a row of numbers, NUM of them an access (a chunk), and sums over the threads that share the row
//
// A chunk is kept as the words that were read: half as many registers as the same numbers in float. T is float, __half or
// __nv_bfloat16; NUM numbers are 2, 4, 8 or 16 bytes, and every address is a multiple of that.
// Device code only, no host headers.
#pragma once
#include "common/constants.cuh"
#include "common/half_chunk.cuh"  // unpack_pair, pack_pair

// region: chunk
template <int BYTES> struct ChunkWord;
template <> struct ChunkWord<2> { typedef unsigned short type; };
template <> struct ChunkWord<4> { typedef unsigned type; };
template <> struct ChunkWord<8> { typedef uint2 type; };
template <> struct ChunkWord<16> { typedef uint4 type; };

template <typename T, int NUM>
struct Chunk {
    typedef typename ChunkWord<NUM * sizeof(T)>::type Word;
    Word word;
};
// endregion

__device__ __forceinline__ void to_words(unsigned (&words)[1], unsigned short word) { words[0] = word; }
__device__ __forceinline__ void to_words(unsigned (&words)[1], unsigned word) { words[0] = word; }
__device__ __forceinline__ void to_words(unsigned (&words)[2], uint2 word) { words[0] = word.x, words[1] = word.y; }
__device__ __forceinline__ void to_words(unsigned (&words)[4], uint4 word) {
    words[0] = word.x, words[1] = word.y, words[2] = word.z, words[3] = word.w;
}
__device__ __forceinline__ void from_words(unsigned short& word, const unsigned (&words)[1]) {
    word = static_cast<unsigned short>(words[0]);
}
__device__ __forceinline__ void from_words(unsigned& word, const unsigned (&words)[1]) { word = words[0]; }
__device__ __forceinline__ void from_words(uint2& word, const unsigned (&words)[2]) { word = make_uint2(words[0], words[1]); }
__device__ __forceinline__ void from_words(uint4& word, const unsigned (&words)[4]) {
    word = make_uint4(words[0], words[1], words[2], words[3]);
}

template <typename T, int NUM>
struct Numbers {  // 16-bit types: two numbers a word, or one alone in the low half
    static constexpr int WORDS = (NUM + 1) / 2;
    static __device__ __forceinline__ void unpack(float (&x)[NUM], const unsigned (&words)[WORDS]) {
#pragma unroll
        for (int i = 0; i < NUM; ++i) {
            const float2 pair = unpack_pair(words[i / 2], T());
            x[i] = i % 2 == 0 ? pair.x : pair.y;
        }
    }
    static __device__ __forceinline__ void pack(unsigned (&words)[WORDS], const float (&x)[NUM]) {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) {
            words[i] = pack_pair(x[2 * i], 2 * i + 1 < NUM ? x[(2 * i + 1) % NUM] : 0.0f, T());
        }
    }
};
template <int NUM>
struct Numbers<float, NUM> {
    static constexpr int WORDS = NUM;
    static __device__ __forceinline__ void unpack(float (&x)[NUM], const unsigned (&words)[NUM]) {
#pragma unroll
        for (int i = 0; i < NUM; ++i) x[i] = __uint_as_float(words[i]);
    }
    static __device__ __forceinline__ void pack(unsigned (&words)[NUM], const float (&x)[NUM]) {
#pragma unroll
        for (int i = 0; i < NUM; ++i) words[i] = __float_as_uint(x[i]);
    }
};

// region: access
// Chunk number `chunk` of a row: read, as floats, rounded from floats, written.
template <typename T, int NUM>
__device__ __forceinline__ void read_chunk(Chunk<T, NUM>& x, const T* row, int chunk) {
    x.word = reinterpret_cast<const typename Chunk<T, NUM>::Word*>(row)[chunk];
}
template <typename T, int NUM>
__device__ __forceinline__ void write_chunk(T* row, int chunk, const Chunk<T, NUM>& x) {
    reinterpret_cast<typename Chunk<T, NUM>::Word*>(row)[chunk] = x.word;
}
template <typename T, int NUM>
__device__ __forceinline__ void as_floats(float (&numbers)[NUM], const Chunk<T, NUM>& x) {
    unsigned words[Numbers<T, NUM>::WORDS];
    to_words(words, x.word);
    Numbers<T, NUM>::unpack(numbers, words);
}
template <typename T, int NUM>
__device__ __forceinline__ void from_floats(Chunk<T, NUM>& x, const float (&numbers)[NUM]) {
    unsigned words[Numbers<T, NUM>::WORDS];
    Numbers<T, NUM>::pack(words, numbers);
    from_words(x.word, words);
}
// endregion

// Floats in global memory, in accesses of up to 16 bytes; the address is a multiple of that.
template <int NUM>
__device__ __forceinline__ void read_floats(float (&numbers)[NUM], const float* source) {
    constexpr int WIDTH = NUM < 4 ? NUM : 4;
#pragma unroll
    for (int i = 0; i < NUM / WIDTH; ++i) {
        Chunk<float, WIDTH> chunk;
        float part[WIDTH];
        read_chunk(chunk, source, i);
        as_floats(part, chunk);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) numbers[i * WIDTH + j] = part[j];
    }
}
template <int NUM>
__device__ __forceinline__ void write_floats(float* target, const float (&numbers)[NUM]) {
    constexpr int WIDTH = NUM < 4 ? NUM : 4;
#pragma unroll
    for (int i = 0; i < NUM / WIDTH; ++i) {
        Chunk<float, WIDTH> chunk;
        float part[WIDTH];
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) part[j] = numbers[i * WIDTH + j];
        from_floats(chunk, part);
        write_chunk(target, i, chunk);
    }
}

__host__ __device__ constexpr int power_of_two(int least) { return least <= 1 ? 1 : 2 * power_of_two((least + 1) / 2); }

// region: row_sums
// The sums of `values` over the ROW_THREADS threads of a row, for all of them. All threads of the block take part; rows
// are neighbouring groups of threads, a power of two up to 32 or whole warps. reduce_smem (COUNT, warps of the block) is used
// where a row has several warps, and may be used again after the next barrier.
template <int ROW_THREADS, int COUNT>
__device__ __forceinline__ void row_sums(float (&values)[COUNT], float* reduce_smem) {
    constexpr int LANES = ROW_THREADS < WARP_SIZE ? ROW_THREADS : WARP_SIZE;
    constexpr int WARPS = ROW_THREADS / LANES;  // of a row
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
#pragma unroll
        for (int offset = LANES / 2; offset > 0; offset /= 2) {  // all 32 lanes take part
            values[i] += __shfl_xor_sync(ALL_LANES, values[i], offset);
        }
    }
    if (WARPS == 1) return;
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE, num_warps = blockDim.x / WARP_SIZE;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        if (lane == 0) reduce_smem[i * num_warps + warp] = values[i];
    }
    __syncthreads();  // separates the warps' writes of their sums from the reads of all of them
    constexpr int SHARE = power_of_two(WARPS);    // lanes that add up the sums of the warps, each group of so many for itself
    const int first_warp = warp / WARPS * WARPS;  // of this row
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        values[i] = lane % SHARE < WARPS ? reduce_smem[i * num_warps + first_warp + lane % SHARE] : 0.0f;
#pragma unroll
        for (int offset = SHARE / 2; offset > 0; offset /= 2) {
            values[i] += __shfl_xor_sync(ALL_LANES, values[i], offset);
        }
    }
}
// endregion
