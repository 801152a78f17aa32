// 08_quantised_write — the keys and values of new tokens, rounded to one byte a number on their way into the pages
//
// Idea      a token is written once and read at every later step: rounding belongs to the write. One scale a head, known
//           beforehand, or one for every row: then the row's largest number decides it, which a warp finds with five shuffles
// Builds on 01_reshape_and_cache. Changed regions: place (the scale has its own), copy (now `scale` and `round`).
// Contract  k, v (num_tokens, num_kv_heads, D) ELEMENT (__half or __nv_bfloat16), D = 64 or 128, finite, any stride of tokens
//           and heads, rows contiguous, at multiples of 8 bytes
//           k_pages, v_pages KV (char: int8, or __nv_fp8_e4m3): page p, slot s, head h begins at
//           p * stride_page + s * stride_slot + h * stride_kv_head, the same strides for both pools, rows at multiples of 4 bytes
//           k_scales, v_scales float: that of page p, slot s, head h at p * stride_scale_page + s * stride_scale_slot +
//           h * stride_scale_head · PER_TOKEN=0: they are read; a number too large for the type becomes its largest
//           PER_TOKEN=1: written, max(largest |x| of the row / LARGEST, MIN_SCALE)
//           stored: x / scale (IEEE), to the nearest, ties to even, at most LARGEST: 127 in int8, 448 in e4m3
//           slot_mapping (num_tokens,) int64; a negative one says: this token is not stored · two tokens never share a slot
//           everything else in pools and scales keeps its value
// Launch    grid (num_tokens) · block 128
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/paged_quantised.py: quantised_write_kernel
// gate: -DHEAD_DIM=64 -DELEMENT=__half -DKV=char -DPER_TOKEN=1
// gate: -DHEAD_DIM=128 -DELEMENT=__nv_bfloat16 -DKV=__nv_fp8_e4m3 -DPER_TOKEN=0
// Source    P. Micikevicius and others, "FP8 Formats for Deep Learning", 2022, section 3 (saturation), arXiv:2209.05433
#ifndef HEAD_DIM
#error "HEAD_DIM: width of a head; pass -DHEAD_DIM=64 or 128"
#endif
#ifndef ELEMENT
#error "ELEMENT: type of keys and values; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#ifndef KV
#error "KV: type of the pages; pass -DKV=char (int8) or __nv_fp8_e4m3"
#endif
#ifndef PER_TOKEN
#error "PER_TOKEN: 1 finds a scale for every row and writes it, 0 reads the scale of the head"
#endif
#include "common/byte_pairs.cuh"   // to_byte, largest_number
#include "common/half_chunk.cuh"   // unpack_pair
#include "common/warp_reduce.cuh"  // warp_max
#define NUM_THREADS 128
#define NUM_WARPS (NUM_THREADS / WARP_SIZE)
#define PER_LANE (HEAD_DIM / WARP_SIZE)  // neighbours of a row that a lane rounds: 2 or 4
#define MIN_SCALE 1e-4f                  // a row of zeros has a scale too; and 06_quantised_kv asks for no less
static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "a lane reads 4 or 8 bytes of a row at once");

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
quantised_write_kernel(const ELEMENT* k, const ELEMENT* v, KV* k_pages, KV* v_pages, float* k_scales, float* v_scales,
                       const long long* slot_mapping, int num_kv_heads, int page_size, long long stride_k_token,
                       long long stride_k_head, long long stride_v_token, long long stride_v_head, long long stride_page,
                       long long stride_slot, long long stride_kv_head, long long stride_scale_page,
                       long long stride_scale_slot, long long stride_scale_head) {
    const int lane = threadIdx.x % WARP_SIZE;
    const long long token = blockIdx.x, slot = slot_mapping[token];
    if (slot < 0) return;  // padding of the batch
    // region: place
    const long long start = slot / page_size * stride_page + slot % page_size * stride_slot;
    const long long scale_start = slot / page_size * stride_scale_page + slot % page_size * stride_scale_slot;
    // endregion

    for (int i = threadIdx.x / WARP_SIZE; i < 2 * num_kv_heads; i += NUM_WARPS) {  // a warp takes a row of K, or of V
        const int kv_head = i / 2;
        const ELEMENT* row = i % 2 == 0 ? k + token * stride_k_token + kv_head * stride_k_head
                                        : v + token * stride_v_token + kv_head * stride_v_head;
        float* scale_place = (i % 2 == 0 ? k_scales : v_scales) + scale_start + kv_head * stride_scale_head;

        // region: scale
        float x[PER_LANE];
#pragma unroll
        for (int pair = 0; pair < PER_LANE / 2; ++pair) {
            const float2 both =
                unpack_pair(*reinterpret_cast<const unsigned*>(row + lane * PER_LANE + 2 * pair), ELEMENT());
            x[2 * pair] = both.x;
            x[2 * pair + 1] = both.y;
        }
#if PER_TOKEN
        float largest = 0.0f;
#pragma unroll
        for (int j = 0; j < PER_LANE; ++j) largest = fmaxf(largest, fabsf(x[j]));
        const float scale = fmaxf(warp_max(largest) / largest_number(KV()), MIN_SCALE);
        if (lane == 0) *scale_place = scale;
#else
        const float scale = *scale_place;
#endif
        // endregion

        // region: round
        unsigned bytes = 0;
#pragma unroll
        for (int j = 0; j < PER_LANE; ++j) bytes |= to_byte(x[j] / scale, KV()) << (8 * j);
        KV* pages = i % 2 == 0 ? k_pages : v_pages;
        unsigned char* place = reinterpret_cast<unsigned char*>(pages) + start + kv_head * stride_kv_head;
        if (PER_LANE == 4) *reinterpret_cast<unsigned*>(place + lane * 4) = bytes;
        if (PER_LANE == 2) *reinterpret_cast<unsigned short*>(place + lane * 2) = static_cast<unsigned short>(bytes);
        // endregion
    }
}
