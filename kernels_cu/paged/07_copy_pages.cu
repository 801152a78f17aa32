// 07_copy_pages — whole pages copied inside the pool, before somebody writes into one that others still read
//
// Idea      copy-on-write asks for a list of (from, to) pages; all of them, keys and values, go in one launch
// Contract  k_pages, v_pages (num_pages, page_size, num_kv_heads, head_dim) or any other order within the page: a page is
//           page_chunks * 16 contiguous bytes, page p begins at p * stride_page_chunks * 16, the same for both pools
//           copies (num_copies, 2) int64: from page, to page · no page is written twice, and none is both read and written
//           everything else in the pool keeps its value
// Launch    grid (num_copies, 2): keys, values · block 256
// Needs     any compute capability · compiled by NVRTC: device code only, no host headers
// Twin      triton_kernels/paged.py: copy_pages_kernel
// gate: -DELEMENT=__half
// Source    W. Kwon and others, "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023,
//           sections 4.4 and 5.1 (fused block copy), arXiv:2309.06180
#ifndef ELEMENT
#error "ELEMENT: type of keys and values, of any width; pass -DELEMENT=__half"
#endif
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define NUM_THREADS 256

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
copy_pages_kernel(ELEMENT* k_pages, ELEMENT* v_pages, const long long* copies, long long page_chunks,
                  long long stride_page_chunks) {
    uint4* pages = reinterpret_cast<uint4*>(blockIdx.y == 0 ? k_pages : v_pages);
    // region: copy
    const uint4* source = pages + copies[2 * blockIdx.x] * stride_page_chunks;
    uint4* target = pages + copies[2 * blockIdx.x + 1] * stride_page_chunks;
    for (long long i = threadIdx.x; i < page_chunks; i += NUM_THREADS) target[i] = source[i];
    // endregion
}
