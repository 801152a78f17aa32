// 01_reshape_and_cache — the keys and values of new tokens, written into the pages where they belong
//
// Idea      a slot number says it all: token `slot` of the pool is slot % page_size of page slot / page_size
// Contract  k, v (num_tokens, num_kv_heads, head_dim) ELEMENT, any stride of tokens and heads, rows contiguous
//           k_pages, v_pages ELEMENT: page p, slot s, head h begins at p * stride_page + s * stride_slot + h * stride_kv_head
//           (both layouts, NHD and HND, are strides), the same strides for both pools
//           slot_mapping (num_tokens,) int64; a negative one says: this token is not stored · two tokens never share a slot
//           head_dim a multiple of 8, every row at a multiple of 16 bytes · everything else in the pool keeps its value
// Launch    grid (num_tokens) · block 128
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/paged.py: reshape_and_cache_kernel
// gate: -DELEMENT=__half
// gate: -DELEMENT=__nv_bfloat16
// Source    W. Kwon and others, "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023,
//           section 5.1 (fused reshape and block write), arXiv:2309.06180
#ifndef ELEMENT
#error "ELEMENT: type of keys and values; pass -DELEMENT=__half or __nv_bfloat16"
#endif
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define NUM_THREADS 128
#define CHUNK 8  // elements in 16 bytes: what a thread moves at once

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
reshape_and_cache_kernel(const ELEMENT* k, const ELEMENT* v, ELEMENT* k_pages, ELEMENT* v_pages,
                         const long long* slot_mapping, int num_kv_heads, int head_dim, int page_size,
                         long long stride_k_token, long long stride_k_head, long long stride_v_token, long long stride_v_head,
                         long long stride_page, long long stride_slot, long long stride_kv_head) {
    const long long token = blockIdx.x, slot = slot_mapping[token];
    if (slot < 0) return;  // padding of the batch
    // region: place
    const long long start = slot / page_size * stride_page + slot % page_size * stride_slot;
    // endregion

    // region: copy
    const int chunks = head_dim / CHUNK;  // in a row
    for (int i = threadIdx.x; i < num_kv_heads * chunks; i += NUM_THREADS) {
        const int kv_head = i / chunks, d = i % chunks * CHUNK;
        const long long offset = start + kv_head * stride_kv_head + d;
        *reinterpret_cast<uint4*>(k_pages + offset) =
            *reinterpret_cast<const uint4*>(k + token * stride_k_token + kv_head * stride_k_head + d);
        *reinterpret_cast<uint4*>(v_pages + offset) =
            *reinterpret_cast<const uint4*>(v + token * stride_v_token + kv_head * stride_v_head + d);
    }
    // endregion
}
