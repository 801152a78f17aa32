// 01_pivots — a token of every row by temperature, top-k, top-p and min-p, without sorting the vocabulary
//
// Idea      what is kept is all logits from a threshold on: the threads' largest logits bound it from below, PIVOTS pivots a
//           pass narrow it, and as soon as the logits in question are few they move to shared memory, where passes are short
// Contract  logits (num_rows, num_cols) ELEMENT, rows contiguous and stride_logits apart; -inf never comes; no NaN, a row has
//           a finite logit · temperature, noise (num_rows,) float, noise in [0, 1) · tokens (num_rows,) int64
//           top_k (num_rows,) int or null, 0 or less for all · top_p, min_p (num_rows,) float or null
//           temperature below 1e-5, or null: the first of the largest logits. Otherwise weights exp((x - max) / temperature);
//           kept are the top_k largest; of these the fewest whose weights sum to top_p of their total; of these those of min_p
//           of the largest weight at least. Equal logits stay or go together; a sum within 1e-6 of top_p is enough.
//           tokens = the first token, in their order, at which the running sum of kept weights exceeds noise * its total
//           a row's token does not depend on the other rows, nor on their number; the same bits in every run
//           counts (6 * num_rows) int and history (num_steps, num_rows) int64, or both null: counts is int (2, num_rows), then
//           int64 (2, num_rows); all of them grow by one, and then history[last count of a row][row] = the row's token
//           any num_rows, num_cols >= 1; VEC divides num_cols and the stride, every row starts at a multiple of VEC numbers
// Launch    grid num_rows · block NUM_WARPS * 32 · no dynamic shared memory, static COLUMN_BYTES a thread and 1 KB
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      none in Triton: the last part of a row is walked by the one warp whose part holds the token
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DNUM_WARPS=16
// gate: -DELEMENT=__half -DVEC=1 -DNUM_WARPS=16
// gate: -DELEMENT=float -DVEC=4 -DNUM_WARPS=1
// Source    S. Xing and others, "Sorting-Free GPU Kernels for LLM Sampling", 2025, flashinfer.ai/2025/03/10/sampling.html:
//           rejection by two pivots; here the pivots look for the threshold itself, so that one number a row is all noise
#if !defined(ELEMENT) || !defined(VEC) || !defined(NUM_WARPS)
#error "pass -DELEMENT=__half -DVEC=8 (numbers of an access) -DNUM_WARPS=16 (of a block)"
#endif
#define THREADS_PER_ROW (NUM_WARPS * WARP_SIZE)
#define ROWS_PER_BLOCK 1
#define CHUNKS 8  // accesses of a thread that are under way
#include "common/dependent_launch.cuh"
#include "common/fast_exp2.cuh"
#include "common/row_kernel.cuh"  // RowChunk
#include "common/warp_reduce.cuh"
#define PIVOTS 3         // thresholds of a pass: the interval becomes a quarter
#define COLUMN_BYTES 88  // shared memory of a thread for logits: 16 warps stay below the 48 KB of a static allocation
#define DEPTH (COLUMN_BYTES / static_cast<int>(sizeof(ELEMENT)))  // logits of a thread's column
#define NO_KEY 0xffffffffu  // above all keys: of an interval that holds nothing
#define GREEDY_TEMPERATURE 1e-5f
#define ENOUGH (1.0f - 1e-6f)  // of top_p: what rounding may take from a sum of floats
#define MAX_GROWTH 8.0f  // 2^8: a weight may exceed 1 by this factor before its thread takes a new reference
#define NUM_SUMS (2 * PIVOTS + 2)  // of a pass: sums of weights, numbers of logits; those in question, threads with too many
static_assert(NUM_SUMS == 8, "PIVOTS: block_sums gives each of 8 sums to 4 lanes");
static_assert(NUM_WARPS >= 1 && NUM_WARPS <= 16, "NUM_WARPS: a thread needs more registers than the 64 of a block of 1024");

// The chunks first + lane, then every `stride`, before `end`: those of a thread. And what makes logits weights.
struct Part {
    const ELEMENT* logits;
    int first, end, stride;
    float max, scale_log2;
};

// region: order
// Bits at the end of a float that a number of ELEMENT never uses.
__device__ constexpr int spare_bits(float) { return 0; }
__device__ constexpr int spare_bits(__half) { return 13; }
__device__ constexpr int spare_bits(__nv_bfloat16) { return 16; }

// Floats as integers of the same order, so that an interval of thresholds can be divided whatever its size; no two numbers
// of ELEMENT have the same. 0 and -0 are one. of_key gives the least float that has the key.
__device__ __forceinline__ unsigned key_of(float x) {
    const unsigned bits = __float_as_uint(x + 0.0f);
    return (bits & 0x80000000u ? ~bits : bits | 0x80000000u) >> spare_bits(ELEMENT());
}
__device__ __forceinline__ float of_key(unsigned key) {
    const unsigned ordered = key << spare_bits(ELEMENT());
    return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}
// endregion

__device__ __forceinline__ float weight(const Part& part, float x) { return fast_exp2((x - part.max) * part.scale_log2); }

// region: walk
// visit(numbers, chunk) for each chunk of this thread, in ascending order, with CHUNKS reads under way.
template <typename Visit>
__device__ __forceinline__ void for_each_chunk(const Part& part, Visit visit) {
    for (int base = part.first + threadIdx.x % WARP_SIZE; base < part.end; base += CHUNKS * part.stride) {
        RowChunk chunks[CHUNKS];
#pragma unroll
        for (int c = 0; c < CHUNKS; ++c) {
            if (base + c * part.stride < part.end) read_chunk(chunks[c], part.logits, base + c * part.stride);
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; ++c) {
            if (base + c * part.stride >= part.end) break;
            float x[VEC];
            as_floats(x, chunks[c]);
            visit(x, base + c * part.stride);
        }
    }
}

__device__ __forceinline__ float largest_of(const float (&x)[VEC]) {
    float largest = x[0];
#pragma unroll
    for (int j = 1; j < VEC; ++j) largest = fmaxf(largest, x[j]);
    return largest;
}

// The warps of a block divide the chunks from `first` to `end` into neighbouring parts. Returns the chunks of a part.
__device__ __forceinline__ int divide(Part& part, int first, int end) {
    const int share = CEIL_DIV(CEIL_DIV(end - first, NUM_WARPS), WARP_SIZE) * WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    part.first = min(first + warp * share, end), part.end = min(first + (warp + 1) * share, end), part.stride = WARP_SIZE;
    return share;
}
// endregion

// region: argmax
// The first token that has the row's largest logit, for all threads.
__device__ __forceinline__ int argmax(const Part& part, float* value_smem, int* token_smem) {
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    float best = NEG_INF;
    int token = part.first * VEC;
    for_each_chunk(part, [&](const float (&x)[VEC], int chunk) {
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
            if (x[j] > best) best = x[j], token = chunk * VEC + j;
        }
    });
#pragma unroll
    for (int round = 0; round < 2; ++round) {  // the lanes of a warp, then the warps
#pragma unroll
        for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {
            const float other = __shfl_xor_sync(ALL_LANES, best, offset);
            const int other_token = __shfl_xor_sync(ALL_LANES, token, offset);
            if (other > best || (other == best && other_token < token)) best = other, token = other_token;
        }
        if (round == 0) {
            if (lane == 0) value_smem[warp] = best, token_smem[warp] = token;
            __syncthreads();  // separates the warps' writes of what they found from the reads of all of them
            best = lane < NUM_WARPS ? value_smem[lane] : NEG_INF;
            token = lane < NUM_WARPS ? token_smem[lane] : 0x7fffffff;
        }
    }
    return token;
}
// endregion

// region: first_pass
// The row's largest logit in part.max, its smallest finite one in `least`; mass_smem (NUM_WARPS,) = the sums of the weights
// in the warps' parts, written and not yet separated from reads. Returns this thread's largest logit.
// A thread's weights refer to a logit near its largest so far: each change of the reference costs a rounding, so it changes
// only when a weight would exceed 2^MAX_GROWTH.
__device__ __forceinline__ float first_pass(Part& part, float& least, float* mass_smem, float* reduce_smem) {
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    const float scale_log2 = part.scale_log2;
    float best = NEG_INF, lowest = -NEG_INF, reference = NEG_INF, sum[1] = {0.0f};
    for_each_chunk(part, [&](const float (&x)[VEC], int) {
        const float largest = largest_of(x);
        if (largest == NEG_INF) return;
        best = fmaxf(best, largest);
        if ((largest - reference) * scale_log2 > MAX_GROWTH) {
            sum[0] *= fast_exp2((reference - largest) * scale_log2), reference = largest;
        }
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
            sum[0] += fast_exp2((x[j] - reference) * scale_log2);
            if (x[j] > NEG_INF) lowest = fminf(lowest, x[j]);
        }
    });
    const float warp_best = warp_max(best), warp_lowest = -warp_max(-lowest);
    if (lane == 0) reduce_smem[warp] = warp_best, reduce_smem[NUM_WARPS + warp] = warp_lowest;
    __syncthreads();  // separates the warps' writes of their extremes from the reads of all of them
    part.max = warp_max(lane < NUM_WARPS ? reduce_smem[lane] : NEG_INF);
    least = -warp_max(lane < NUM_WARPS ? -reduce_smem[NUM_WARPS + lane] : NEG_INF);
    sum[0] *= fast_exp2((reference - part.max) * scale_log2);
    row_sums<WARP_SIZE>(sum, reduce_smem);  // of this warp's part
    if (lane == 0) mass_smem[warp] = sum[0];
    return best;
}
// endregion

// region: block_sums
// The sums of `values` over the block, for all threads. Each exchange halves the sums that a lane still has to do with, so
// that 8 sums take 9 shuffles instead of 40. reduce_smem (NUM_WARPS, NUM_SUMS).
__device__ __forceinline__ void block_sums(float (&values)[NUM_SUMS], float* reduce_smem) {
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
#pragma unroll
    for (int half = NUM_SUMS / 2; half > 0; half /= 2) {  // all 32 lanes take part
        const bool upper = lane & (4 * half);
#pragma unroll
        for (int i = 0; i < half; ++i) {
            const float given = upper ? values[i] : values[i + half];
            values[i] = (upper ? values[i + half] : values[i]) + __shfl_xor_sync(ALL_LANES, given, 4 * half);
        }
    }
    float sum = values[0];  // number lane / 4, of every fourth lane
    sum += __shfl_xor_sync(ALL_LANES, sum, 2);
    sum += __shfl_xor_sync(ALL_LANES, sum, 1);
    __syncthreads();  // separates the reads of the sums before from the writes of these
    if (lane % 4 == 0) reduce_smem[warp * NUM_SUMS + lane / 4] = sum;
    __syncthreads();  // separates the warps' writes of their sums from the reads of all of them
    sum = 0.0f;
    for (int i = lane % 4; i < NUM_WARPS; i += 4) sum += reduce_smem[i * NUM_SUMS + lane / 4];
    sum += __shfl_xor_sync(ALL_LANES, sum, 2);
    sum += __shfl_xor_sync(ALL_LANES, sum, 1);
#pragma unroll
    for (int i = 0; i < NUM_SUMS; ++i) values[i] = __shfl_sync(ALL_LANES, sum, 4 * i);
}
// endregion

// A threshold: its key, the sum of the weights and the number of the logits from it on.
struct Threshold {
    unsigned key;
    float mass, count;
};

// region: near
// The row's logits from `low` on and below `high`, in shared memory. A thread reads what it has written itself: no barrier.
struct Near {
    ELEMENT* column;  // of this thread, of (DEPTH, NUM_THREADS)
    int own;          // numbers in it
    unsigned low;
    Threshold high;
};

__device__ __forceinline__ bool holds(const Near& near, unsigned low, unsigned high) {
    return near.low <= low && high <= near.high.key;
}
__device__ __forceinline__ void put(const Near& near, int i, float x) {
    const float number[1] = {x};
    Chunk<ELEMENT, 1> chunk;
    from_floats(chunk, number);
    write_chunk(near.column, i * NUM_THREADS, chunk);
}
__device__ __forceinline__ float get(const Near& near, int i) {
    Chunk<ELEMENT, 1> chunk;
    float number[1];
    read_chunk(chunk, near.column, i * NUM_THREADS);
    as_floats(number, chunk);
    return number[0];
}
// endregion

// region: above
// found: for each pivot the sum of the weights, then for each the number, of the logits from it on; then two more numbers.
__device__ __forceinline__ void add(float (&found)[NUM_SUMS], const float (&pivots)[PIVOTS], const Part& row, float x) {
    const float w = weight(row, x);
#pragma unroll
    for (int i = 0; i < PIVOTS; ++i) {
        if (x >= pivots[i]) found[i] += w, found[PIVOTS + i] += 1.0f;
    }
}

// found for all threads, by a pass over the row, for pivots from `low` on. Logits from `low` on and below `high` are counted,
// and kept in `near` where no thread has more than DEPTH. Returns the number of logits from `low` on.
__device__ __forceinline__ float above_in_row(float (&found)[NUM_SUMS], Near& near, const float (&pivots)[PIVOTS],
                                              const Part& row, unsigned low, const Threshold& high, float* reduce_smem) {
    const float from = of_key(low), below = of_key(high.key);
    near.own = 0;
    for_each_chunk(row, [&](const float (&x)[VEC], int) {
        if (largest_of(x) < from) return;
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
            if (x[j] >= from && x[j] < below) {
                if (near.own < DEPTH) put(near, near.own, x[j]);
                ++near.own;
            }
            add(found, pivots, row, x[j]);
        }
    });
    found[2 * PIVOTS] = static_cast<float>(near.own), found[2 * PIVOTS + 1] = near.own > DEPTH ? 1.0f : 0.0f;
    block_sums(found, reduce_smem);
    near.low = found[2 * PIVOTS + 1] > 0.0f ? NO_KEY : low, near.high = high;
    return high.count + found[2 * PIVOTS];
}

// The same from the logits in shared memory, and what is known of those from near.high on.
__device__ __forceinline__ void above_in_near(float (&found)[NUM_SUMS], const Near& near, const float (&pivots)[PIVOTS],
                                              const Part& row, float* reduce_smem) {
    for (int i = 0; i < near.own; ++i) add(found, pivots, row, get(near, i));
    block_sums(found, reduce_smem);
#pragma unroll
    for (int i = 0; i < PIVOTS; ++i) found[i] += near.high.mass, found[PIVOTS + i] += near.high.count;
}
// endregion

// region: place
// Pivots that divide an interval evenly: that of the values, as a sum of weights suggests, or that of the keys, which ends
// for every input. At least one above `low`, all of them below `high`.
__device__ __forceinline__ void place(unsigned (&keys)[PIVOTS], unsigned low, unsigned high, bool by_value) {
#pragma unroll
    for (int i = 0; i < PIVOTS; ++i) {
        const float share = (i + 1.0f) / (PIVOTS + 1);
        const unsigned key = by_value ? key_of(of_key(low) * (1.0f - share) + of_key(high - 1) * share)
                                      : low + (high - low) / (PIVOTS + 1) * (i + 1);
        keys[i] = min(max(key, low + 1), high - 1);
    }
}
// endregion

// region: search
// Raise the threshold as far as `wanted` allows: a number of logits, or a sum of weights. `kept` fulfils it at the start; its
// count may be too large.
__device__ __forceinline__ void search(Threshold& kept, Near& near, const Part& row, bool by_count, float wanted,
                                       float* reduce_smem) {
    Threshold high = {key_of(row.max) + 1, 0.0f, 0.0f};  // does not fulfil it
    for (int round = 0; high.key - kept.key > 1 && kept.count - high.count > 1.0f; ++round) {
        unsigned keys[PIVOTS];
        float pivots[PIVOTS], found[NUM_SUMS] = {};
        place(keys, kept.key, high.key, round % 2 == 0);
#pragma unroll
        for (int i = 0; i < PIVOTS; ++i) pivots[i] = of_key(keys[i]);
        if (holds(near, kept.key, high.key)) {
            above_in_near(found, near, pivots, row, reduce_smem);
        } else {
            kept.count = above_in_row(found, near, pivots, row, kept.key, high, reduce_smem);
        }
#pragma unroll
        for (int i = 0; i < PIVOTS; ++i) {  // the lowest pivot that is too high, the highest that is not
            const Threshold pivot = {keys[i], found[i], found[PIVOTS + i]};
            const bool too_high = (by_count ? pivot.count : pivot.mass) < wanted;
            if (too_high && pivot.key < high.key) high = pivot;
            if (!too_high && pivot.key > kept.key) kept = pivot;
        }
    }
}

// The same, with a first bound without a pass: if some threads' largest logits are enough, so are all from the least of
// these on.
__device__ __forceinline__ void raise(Threshold& kept, Near& near, const Part& row, float best, bool by_count, float wanted,
                                      float* reduce_smem) {
    const Threshold high = {key_of(row.max) + 1, 0.0f, 0.0f};
    if (!holds(near, kept.key, high.key)) {
        Threshold bound = {kept.key, 0.0f, static_cast<float>(NUM_THREADS)};
        near.own = 1, near.low = bound.key, near.high = high;
        put(near, 0, best);
        search(bound, near, row, by_count, wanted, reduce_smem);
        kept.key = bound.key, near.low = NO_KEY;
    }
    search(kept, near, row, by_count, wanted, reduce_smem);
}
// endregion

// region: limits
// The sum of the weights of what is kept, where top_k comes before top_p.
__device__ __forceinline__ float mass_from(const Threshold& kept, Near& near, const Part& row, float* reduce_smem) {
    const Threshold high = {key_of(row.max) + 1, 0.0f, 0.0f};
    const float pivots[PIVOTS] = {of_key(kept.key), of_key(kept.key), of_key(kept.key)};
    float found[NUM_SUMS] = {};
    if (holds(near, kept.key, high.key)) {
        above_in_near(found, near, pivots, row, reduce_smem);
    } else {
        above_in_row(found, near, pivots, row, kept.key, high, reduce_smem);
    }
    return found[0];
}

// The threshold of top_p = p among what is kept, `kept.mass` being known.
__device__ __forceinline__ void raise_to_mass(Threshold& kept, Near& near, const Part& row, float best, float p, int num_cols,
                                              float* reduce_smem) {
    const float wanted = kept.mass * fmaxf(p, 0.0f) * ENOUGH;
    // logits so small that num_cols of them, twice, are not missed
    const float small = row.max + log2f((kept.mass - wanted) / num_cols * 0.5f) / row.scale_log2;
    kept.key = max(kept.key, key_of(small));
    raise(kept, near, row, best, false, wanted, reduce_smem);
}
// endregion

// region: draw
// The first token at which the running sum of kept weights exceeds `target`, in the part of one warp; `before` is the sum
// up to it. The last kept token where rounding leaves none.
__device__ __forceinline__ int draw(const Part& part, float threshold, float least, float before, float target) {
    const int lane = threadIdx.x % WARP_SIZE;
    int token = -1;
    for (int base = part.first; base < part.end; base += WARP_SIZE) {
        float weights[VEC], upto = 0.0f;
        RowChunk x_reg;
        if (base + lane < part.end) read_chunk(x_reg, part.logits, base + lane), as_floats(weights, x_reg);
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
            const float w = base + lane < part.end && weights[j] >= threshold ? weight(part, weights[j]) : 0.0f;
            weights[j] = w >= least ? w : 0.0f;
            upto += weights[j];
        }
        const float own = upto;
#pragma unroll
        for (int offset = 1; offset < WARP_SIZE; offset *= 2) {  // inclusive sums over the lanes
            const float left = __shfl_up_sync(ALL_LANES, upto, offset);
            if (lane >= offset) upto += left;
        }
        const unsigned hits = __ballot_sync(ALL_LANES, own > 0.0f && before + upto > target);
        const unsigned last = hits ? hits & -hits : __ballot_sync(ALL_LANES, own > 0.0f);
        if (last) {  // the hit, or, for want of one so far, the last kept token
            const int from = 31 - __clz(last);
            float sum = before + (upto - own);
            int found = -1;
#pragma unroll
            for (int j = 0; j < VEC; ++j) {
                const bool over = found >= 0 && sum > target;
                sum += weights[j];
                if (weights[j] > 0.0f && !over) found = (base + lane) * VEC + j;
            }
            token = __shfl_sync(ALL_LANES, found, from);
        }
        if (hits) return token;
        before += __shfl_sync(ALL_LANES, upto, WARP_SIZE - 1);
    }
    return token;
}
// endregion

// region: sums
// mass_smem (NUM_WARPS,) = the sums of the kept weights in the warps' parts, for all threads.
__device__ __forceinline__ void part_sums(float* mass_smem, const Part& part, float threshold, float least) {
    float sum[1] = {0.0f};
    for_each_chunk(part, [&](const float (&x)[VEC], int) {
        if (largest_of(x) < threshold) return;
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
            const float w = weight(part, x[j]);
            if (x[j] >= threshold && w >= least) sum[0] += w;
        }
    });
    row_sums<WARP_SIZE>(sum, nullptr);  // of this warp's part
    __syncthreads();                    // separates the reads of the sums before from the writes of these
    if (threadIdx.x % WARP_SIZE == 0) mass_smem[threadIdx.x / WARP_SIZE] = sum[0];
    __syncthreads();  // separates the warps' writes of their sums from the reads of all of them
}
// endregion

// region: owner
// The first part whose running sum exceeds the target, or the last that keeps anything; `before` becomes the sum up to it.
__device__ __forceinline__ int owner_of(float& before, const float* mass_smem, float target) {
    int owner = 0;
    float upto = before;
    for (int i = 0; i < NUM_WARPS; ++i) {
        if (mass_smem[i] > 0.0f) owner = i, before = upto;
        upto += mass_smem[i];
        if (mass_smem[i] > 0.0f && upto > target) break;
    }
    return owner;
}
// endregion

// region: keep
// By one thread of a row: its token, and where a decoder counts and keeps them, that too.
__device__ __forceinline__ void keep(long long* tokens, int* counts, long long* history, int token) {
    const int row = blockIdx.x, num_rows = gridDim.x;
    tokens[row] = token;
    if (counts == nullptr) return;
    long long* wide_counts = reinterpret_cast<long long*>(counts + 2 * num_rows);
    for (int i = 0; i < 2; ++i) {
        counts[i * num_rows + row] += 1;
        wide_counts[i * num_rows + row] += 1;
    }
    history[wide_counts[num_rows + row] * num_rows + row] = token;
}
// endregion

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
sample_kernel(const ELEMENT* logits, const float* temperature, const int* top_k, const float* top_p, const float* min_p,
              const float* noise, long long* tokens, int* counts, long long* history, int num_cols, long long stride_logits) {
    __shared__ ELEMENT near_smem[DEPTH * NUM_THREADS];   // (DEPTH, NUM_THREADS)
    __shared__ float reduce_smem[NUM_WARPS * NUM_SUMS];  // (NUM_WARPS, NUM_SUMS)
    __shared__ float mass_smem[NUM_WARPS];
    __shared__ int token_smem[NUM_WARPS];
    const int row = blockIdx.x, lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    const int num_chunks = num_cols / VEC;
    Part part = {logits + row * stride_logits};
    int share = divide(part, 0, num_chunks);
    griddepcontrol_wait();  // the logits are written by the kernel before

    // region: greedy
    if (temperature == nullptr || temperature[row] < GREEDY_TEMPERATURE) {
        const int greedy = argmax(part, mass_smem, token_smem);
        if (threadIdx.x == 0) keep(tokens, counts, history, greedy);
        return;
    }
    part.scale_log2 = LOG2_E / temperature[row];
    // endregion

    // region: thresholds
    float lowest, total = 0.0f;
    const float best = first_pass(part, lowest, mass_smem, reduce_smem);
    __syncthreads();  // separates the warps' writes of their sums from the reads of all of them
    for (int i = 0; i < NUM_WARPS; ++i) total += mass_smem[i];

    const int k = top_k ? top_k[row] : 0;
    const float p = top_p ? top_p[row] : 1.0f, least = min_p ? fminf(min_p[row], 1.0f) : 0.0f;
    const bool by_count = k > 0 && k < num_cols, by_mass = p < 1.0f;
    const Part whole = {part.logits, warp * WARP_SIZE, num_chunks, NUM_THREADS, part.max, part.scale_log2};
    Near near = {near_smem + threadIdx.x, 0, NO_KEY};
    Threshold kept = {key_of(lowest), total, static_cast<float>(num_cols)};
    if (by_count) raise(kept, near, whole, best, true, static_cast<float>(k), reduce_smem);
    if (by_count && by_mass) kept.mass = mass_from(kept, near, whole, reduce_smem);
    if (by_mass) raise_to_mass(kept, near, whole, best, p, num_cols, reduce_smem);
    const float threshold = of_key(kept.key);
    // endregion

    // region: choose
    if (by_count || by_mass || least > 0.0f) {  // the first pass has summed more than is kept
        part_sums(mass_smem, part, threshold, least);
        total = 0.0f;
        for (int i = 0; i < NUM_WARPS; ++i) total += mass_smem[i];
    }
    const float target = noise[row] * total;
    float before = 0.0f;
    int owner = owner_of(before, mass_smem, target), first = owner * share, end = min(first + share, num_chunks);
    while (share > WARP_SIZE * CHUNKS) {  // the owner's part is the next that all warps divide
        share = divide(part, first, end);
        part_sums(mass_smem, part, threshold, least);
        owner = owner_of(before, mass_smem, target), first += owner * share, end = min(first + share, end);
    }
    if (warp == owner) {
        const int token = draw(part, threshold, least, before, target);
        if (lane == 0) keep(tokens, counts, history, token);
    }
    // endregion
}
