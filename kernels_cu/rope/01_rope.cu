// 01_rope — rotary positions of q and k in one launch: pairs of numbers turned by an angle that grows with the position
//
// Idea      a thread keeps the cosines and sines of its pairs and turns the same pairs of several heads: the table is read once
// Contract  q (num_tokens, num_heads, head_dim), k (num_tokens, num_kv_heads, head_dim) ELEMENT, any strides of tokens and heads,
//           rows contiguous; num_kv_heads may be 0, then k is not used · q_out, k_out: q and k themselves, or others like them
//           positions (num_tokens,) POSITION (int or long), in any order, 0 .. rows of cos_sin - 1
//           cos_sin (max_positions, rotary_dim) float: rotary_dim / 2 cosines, then as many sines; rotary_dim even, <= head_dim
//           pairs: numbers i and i + rotary_dim / 2 (half-split), or 2 i and 2 i + 1 (INTERLEAVED) · the rest is copied
//           direction 1.0f turns, -1.0f turns back, which is the gradient
//           VEC divides rotary_dim / 2 (half-split) or rotary_dim (INTERLEAVED), head_dim, and all strides
// Launch    grid (num_tokens, splits of the heads) · block units of a head times heads, at most 256 · no dynamic shared memory
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/rope.py: rope_kernel
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DINTERLEAVED=0 -DHEADS=2 -DPOSITION=int
// gate: -DELEMENT=__nv_bfloat16 -DVEC=8 -DINTERLEAVED=1 -DHEADS=2 -DPOSITION=int
// gate: -DELEMENT=float -DVEC=4 -DINTERLEAVED=0 -DHEADS=2 -DPOSITION=int
// gate: -DELEMENT=__half -DVEC=1 -DINTERLEAVED=1 -DHEADS=2 -DPOSITION=long
// Source    J. Su and others, "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021, equation 34, arXiv:2104.09864
#if !defined(ELEMENT) || !defined(VEC) || !defined(INTERLEAVED) || !defined(HEADS) || !defined(POSITION)
#error "pass -DELEMENT=__half -DVEC=8 (numbers of an access) -DINTERLEAVED=0 -DHEADS=4 (of a thread at once) -DPOSITION=int"
#endif
#include "common/row_chunks.cuh"
#define MAX_THREADS 256
#define UNIT (INTERLEAVED && VEC == 1 ? 2 : VEC)  // numbers of one access; of two where a pair needs them
#define PAIRS (INTERLEAVED ? UNIT / 2 : UNIT)     // whose angles a thread keeps
static_assert(VEC * sizeof(ELEMENT) <= 16 && (VEC & (VEC - 1)) == 0, "VEC: an access is 2, 4, 8 or 16 bytes");

// Numbers that a thread reads of one head: two units of the two halves, or one unit of neighbours.
struct Pairs {
    Chunk<ELEMENT, VEC> part[2];
};

// region: read
__device__ __forceinline__ void read_pairs(Pairs& x, const ELEMENT* head, int unit, int half) {
    read_chunk(x.part[0], head + unit * UNIT, 0);
    if (!INTERLEAVED) read_chunk(x.part[1], head + half + unit * UNIT, 0);
    if (INTERLEAVED && VEC == 1) read_chunk(x.part[1], head + unit * UNIT, 1);
}

__device__ __forceinline__ void write_pairs(ELEMENT* head, int unit, int half, const Pairs& x) {
    write_chunk(head + unit * UNIT, 0, x.part[0]);
    if (!INTERLEAVED) write_chunk(head + half + unit * UNIT, 0, x.part[1]);
    if (INTERLEAVED && VEC == 1) write_chunk(head + unit * UNIT, 1, x.part[1]);
}
// endregion

__device__ __forceinline__ void turn(Pairs& x, const float (&cosines)[PAIRS], const float (&sines)[PAIRS]) {
    float a[VEC], b[VEC] = {};
    as_floats(a, x.part[0]);
    if (!INTERLEAVED || VEC == 1) {
        as_floats(b, x.part[1]);
        // region: turn
#pragma unroll
        for (int j = 0; j < VEC; ++j) {
            const float first = a[j], second = b[j];  // both are read before either is replaced
            a[j] = first * cosines[j] - second * sines[j];
            b[j] = second * cosines[j] + first * sines[j];
        }
        // endregion
        from_floats(x.part[1], b);
    } else {
#pragma unroll
        for (int j = 0; j < VEC / 2; ++j) {
            const float first = a[2 * j], second = a[(2 * j + 1) % VEC];
            a[2 * j] = first * cosines[j] - second * sines[j];
            a[(2 * j + 1) % VEC] = second * cosines[j] + first * sines[j];
        }
    }
    from_floats(x.part[0], a);
}

extern "C" __global__ void __launch_bounds__(MAX_THREADS, 1)
rope_kernel(const ELEMENT* q, const ELEMENT* k, const POSITION* positions, const float* cos_sin, ELEMENT* q_out, ELEMENT* k_out,
            int num_heads, int num_kv_heads, int head_dim, int rotary_dim, long long stride_q_token, long long stride_q_head,
            long long stride_k_token, long long stride_k_head, long long stride_q_out_token, long long stride_q_out_head,
            long long stride_k_out_token, long long stride_k_out_head, float direction) {
    const long long token = blockIdx.x;
    const int half = rotary_dim / 2, units = half / PAIRS, total_heads = num_heads + num_kv_heads;
    const int unit = threadIdx.x % units, heads_at_once = blockDim.x / units;
    const int first_head = blockIdx.y * heads_at_once + threadIdx.x / units, step = gridDim.y * heads_at_once;
    q += token * stride_q_token, q_out += token * stride_q_out_token;
    k += token * stride_k_token, k_out += token * stride_k_out_token;

    const POSITION position = positions[token];
    float cosines[PAIRS] = {}, sines[PAIRS] = {};
    for (int base = first_head; base < total_heads; base += step * HEADS) {
        // region: heads
        Pairs x[HEADS];
#pragma unroll
        for (int i = 0; i < HEADS; ++i) {  // all reads are under way before the first number is used
            const int head = base + i * step, kv_head = head - num_heads;
            if (head < total_heads) {
                read_pairs(x[i], kv_head < 0 ? q + head * stride_q_head : k + kv_head * stride_k_head, unit, half);
            }
        }
        // endregion
        if (base == first_head) {  // the table's address waits for the position, the reads of the first heads do not
            // region: table
            const float* angles = cos_sin + static_cast<long long>(position) * rotary_dim + unit * PAIRS;
            read_floats(cosines, angles);
            read_floats(sines, angles + half);
#pragma unroll
            for (int j = 0; j < PAIRS; ++j) sines[j] *= direction;
            // endregion
        }
        // region: store
#pragma unroll
        for (int i = 0; i < HEADS; ++i) {
            const int head = base + i * step, kv_head = head - num_heads;
            if (head < total_heads) {
                turn(x[i], cosines, sines);
                write_pairs(kv_head < 0 ? q_out + head * stride_q_out_head : k_out + kv_head * stride_k_out_head, unit, half, x[i]);
            }
        }
        // endregion
    }

    // region: rest
    const int rest = q_out == q ? 0 : (head_dim - rotary_dim) / VEC;  // accesses of a head that are copied
    const int threads = gridDim.y * blockDim.x;
    for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < total_heads * rest; i += threads) {
        const int head = i / rest, kv_head = head - num_heads, chunk = rotary_dim / VEC + i % rest;
        Chunk<ELEMENT, VEC> x;
        read_chunk(x, kv_head < 0 ? q + head * stride_q_head : k + kv_head * stride_k_head, chunk);
        write_chunk(kv_head < 0 ? q_out + head * stride_q_out_head : k_out + kv_head * stride_k_out_head, chunk, x);
    }
    // endregion
}
