// 01_pivots — a token of every row by temperature, top-k, top-p and min-p, without sorting the vocabulary
//
// Idea      what is kept is all logits from a threshold on: PIVOTS thresholds are tried in each pass over the row
// Contract  logits (num_rows, num_cols) ELEMENT, rows contiguous and stride_logits apart; -inf never comes; no NaN, a row has
//           a finite logit · temperature, noise (num_rows,) float, noise in [0, 1) · tokens (num_rows,) int64
//           top_k (num_rows,) int or null, 0 or less for all · top_p, min_p (num_rows,) float or null
//           temperature below 1e-5: the first of the largest logits. Otherwise weights exp((x - max) / temperature); kept are
//           the top_k largest; of these the fewest whose weights sum to top_p of their total; of these those of min_p of the
//           largest weight at least. Equal logits stay or go together; a sum within 1e-6 of top_p is enough.
//           tokens = the first token, in their order, at which the running sum of kept weights exceeds noise * its total
//           a row's token does not depend on the other rows, nor on their number; the same bits in every run
//           any num_rows, num_cols >= 1; VEC divides num_cols and the stride, every row starts at a multiple of VEC numbers
// Launch    grid num_rows · block NUM_WARPS * 32 · no dynamic shared memory
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
#include "common/fast_exp2.cuh"
#include "common/row_chunks.cuh"
#define THREADS_PER_ROW (NUM_WARPS * WARP_SIZE)
#define ROWS_PER_BLOCK 1
#define CHUNKS 4  // accesses of a thread that are under way
CHECK_ROW_MACROS
#define PIVOTS 3  // thresholds of a pass: the interval becomes a quarter
#define GREEDY_TEMPERATURE 1e-5f
#define ENOUGH (1.0f - 1e-6f)  // of top_p: what rounding may take from a sum of floats
static_assert(NUM_WARPS >= 1 && NUM_WARPS <= 16, "NUM_WARPS: a thread needs more registers than the 64 of a block of 1024");
typedef Chunk<ELEMENT, VEC> RowChunk;

// The part of a row that belongs to a warp, and what makes its logits weights.
struct Part {
    const ELEMENT* logits;
    int first, end;  // chunks of this warp
    float max, scale_log2;
};

// region: order
// Floats as integers of the same order, so that an interval of thresholds can be divided whatever its size.
__device__ __forceinline__ unsigned key_of(float x) {
    const unsigned bits = __float_as_uint(x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float of_key(unsigned key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}
// endregion

__device__ __forceinline__ float weight(const Part& part, float x) { return fast_exp2((x - part.max) * part.scale_log2); }

// region: argmax
// The largest logit of the row and the first token that has it, for all threads.
__device__ __forceinline__ int argmax(Part& part, float* value_smem, int* token_smem) {
    const int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    float best = NEG_INF;
    int token = part.first * VEC;
    for (int chunk = part.first + lane; chunk < part.end; chunk += WARP_SIZE) {
        RowChunk x_reg;
        float x[VEC];
        read_chunk(x_reg, part.logits, chunk);
        as_floats(x, x_reg);
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
            if (x[j] > best) best = x[j], token = chunk * VEC + j;
        }
    }
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
    part.max = best;
    return token;
}
// endregion

// region: above
// found = sum of the weights, then number, of the logits from each threshold on, in the whole row, for all threads.
template <int COUNT>
__device__ __forceinline__ void above(float (&found)[2 * COUNT], const Part& part, const float (&pivots)[COUNT],
                                      float* reduce_smem) {
#pragma unroll
    for (int i = 0; i < 2 * COUNT; ++i) found[i] = 0.0f;
    for (int base = part.first + threadIdx.x % WARP_SIZE; base < part.end; base += WARP_SIZE * CHUNKS) {
        RowChunk chunks[CHUNKS];
#pragma unroll
        for (int c = 0; c < CHUNKS; ++c) {
            if (base + c * WARP_SIZE < part.end) read_chunk(chunks[c], part.logits, base + c * WARP_SIZE);
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; ++c) {
            if (base + c * WARP_SIZE >= part.end) break;
            float x[VEC];
            as_floats(x, chunks[c]);
#pragma unroll
            for (int j = 0; j < VEC; ++j) {
                const float w = weight(part, x[j]);
#pragma unroll
                for (int i = 0; i < COUNT; ++i) {
                    if (x[j] >= pivots[i]) found[i] += w, found[COUNT + i] += 1.0f;
                }
            }
        }
    }
    __syncthreads();  // separates the reads of the result before from the writes of this one
    row_sums<NUM_THREADS>(found, reduce_smem);
}
// endregion

// What all logits from a threshold on are: its key, the sum of their weights, their number.
struct Kept {
    unsigned key;
    float mass, count;
};

// region: search
// Raise the threshold as far as `wanted` allows: a number of logits, or a sum of weights. `kept` fulfils it at the start.
__device__ __forceinline__ void search(Kept& kept, const Part& part, bool by_count, float wanted, float* reduce_smem) {
    unsigned high = key_of(part.max) + 1;  // fulfils nothing
    float count_high = 0.0f;
    while (high - kept.key > 1 && kept.count - count_high > 1.0f) {
        const unsigned low = kept.key, step = max((high - low) / (PIVOTS + 1), 1u);
        float pivots[PIVOTS], found[2 * PIVOTS];
#pragma unroll
        for (int i = 0; i < PIVOTS; ++i) pivots[i] = of_key(min(low + (i + 1) * step, high - 1));
        above(found, part, pivots, reduce_smem);
#pragma unroll
        for (int i = PIVOTS - 1; i >= 0; --i) {  // the lowest pivot that is too high, the highest that is not
            const unsigned key = min(low + (i + 1) * step, high - 1);
            if ((by_count ? found[PIVOTS + i] : found[i]) < wanted) {
                high = key, count_high = found[PIVOTS + i];
            } else if (key > kept.key) {
                kept = {key, found[i], found[PIVOTS + i]};
            }
        }
    }
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

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
sample_kernel(const ELEMENT* logits, const float* temperature, const int* top_k, const float* top_p, const float* min_p,
              const float* noise, long long* tokens, int num_cols, long long stride_logits) {
    __shared__ float reduce_smem[2 * PIVOTS * NUM_WARPS];  // (2 * PIVOTS, NUM_WARPS)
    __shared__ float mass_smem[NUM_WARPS];
    __shared__ int token_smem[NUM_WARPS];
    const int row = blockIdx.x, lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    const int num_chunks = num_cols / VEC, share = CEIL_DIV(CEIL_DIV(num_chunks, NUM_WARPS), WARP_SIZE) * WARP_SIZE;
    Part part = {logits + row * stride_logits, min(warp * share, num_chunks), min((warp + 1) * share, num_chunks)};

    // region: greedy
    const int greedy = argmax(part, mass_smem, token_smem);
    if (temperature[row] < GREEDY_TEMPERATURE) {
        if (threadIdx.x == 0) tokens[row] = greedy;
        return;
    }
    part.scale_log2 = LOG2_E / temperature[row];
    // endregion

    // region: thresholds
    const int k = top_k ? top_k[row] : 0;
    const float p = top_p ? top_p[row] : 1.0f;
    const bool by_count = k > 0 && k < num_cols, by_mass = p < 1.0f;
    Kept kept = {key_of(NEG_INF), 0.0f, static_cast<float>(num_cols)};
    if (by_count) search(kept, part, true, static_cast<float>(k), reduce_smem);
    if (by_mass && kept.key == key_of(NEG_INF)) {  // all are kept so far, and nothing has summed them
        const float everything[1] = {NEG_INF};
        float found[2];
        above(found, part, everything, reduce_smem);
        kept.mass = found[0];
    }
    if (by_mass) search(kept, part, false, kept.mass * p * ENOUGH, reduce_smem);
    const float threshold = of_key(kept.key), least = min_p ? fminf(min_p[row], 1.0f) : 0.0f;
    // endregion

    // region: sums
    float sum[1] = {0.0f};
    for (int chunk = part.first + lane; chunk < part.end; chunk += WARP_SIZE) {
        RowChunk x_reg;
        float x[VEC];
        read_chunk(x_reg, part.logits, chunk);
        as_floats(x, x_reg);
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
            const float w = weight(part, x[j]);
            if (x[j] >= threshold && w >= least) sum[0] += w;
        }
    }
    row_sums<WARP_SIZE>(sum, reduce_smem);  // of this warp's part
    __syncthreads();  // separates the reads of the largest logits from the writes of the sums
    if (lane == 0) mass_smem[warp] = sum[0];
    __syncthreads();  // separates the warps' writes of their sums from the reads of all of them
    // endregion

    // region: choose
    float total = 0.0f, before = 0.0f;
    for (int i = 0; i < NUM_WARPS; ++i) total += mass_smem[i];
    const float target = noise[row] * total;
    int owner = -1;  // the first part whose running sum exceeds the target, or the last that keeps anything
    float upto = 0.0f;
    for (int i = 0; i < NUM_WARPS; ++i) {
        if (owner >= 0 && upto > target) break;
        if (mass_smem[i] > 0.0f) owner = i, before = upto;
        upto += mass_smem[i];
    }
    if (warp == owner) {
        const int token = draw(part, threshold, least, before, target);
        if (lane == 0) tokens[row] = token;
    }
    // endregion
}
