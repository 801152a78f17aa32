// 02_slot_mapping — the keys and values of new tokens, written into the slots of a pool of pages
//
// Idea      a warp for each head of each token: slot_mapping gives the slot, the strides of the pool its address
// Builds on paged/01_reshape_and_cache, whose block takes a whole token. Here the numbers are int, so that they can be compared.
// Contract  k, v (num_tokens, num_kv_heads, head_dim) int: token t begins at t * stride_k_token (k) or t * stride_v_token (v), and
//           the heads of a token are contiguous
//           k_pages, v_pages int: page p, slot s, head h begins at p * stride_page + s * stride_slot + h * stride_kv_head in both
//           slot_mapping (num_tokens,) 64-bit: page * page_size + slot; a token with a negative slot is not stored
//           everything else in the pool keeps its value · any sizes >= 1 · no Triton twin: paged/01_reshape_and_cache has one
// Launch    grid (num_kv_heads, num_tokens) · block 32
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
#include "common/constants.cuh"  // WARP_SIZE

extern "C" __global__ void __launch_bounds__(WARP_SIZE)
slot_mapping_kernel(const int* k, const int* v, int* k_pages, int* v_pages, const long long* slot_mapping, int head_dim,
                    int page_size, long long stride_k_token, long long stride_v_token, long long stride_page,
                    long long stride_slot, long long stride_kv_head) {
    const int kv_head = blockIdx.x, token = blockIdx.y;
    // BEGIN SOLUTION
    const long long slot = slot_mapping[token];
    if (slot < 0) return;
    const long long page = slot / page_size, offset = slot % page_size;
    const long long start = page * stride_page + offset * stride_slot + kv_head * stride_kv_head;
    const int* k_row = k + token * stride_k_token + kv_head * head_dim;  // (head_dim,)
    const int* v_row = v + token * stride_v_token + kv_head * head_dim;  // (head_dim,)
    for (int d = threadIdx.x; d < head_dim; d += WARP_SIZE) {
        k_pages[start + d] = k_row[d];
        v_pages[start + d] = v_row[d];
    }
    // END SOLUTION
}
