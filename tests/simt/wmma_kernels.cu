// nvcuda::wmma of every shape, layout and type: c + a b through fragments, every element halved, stored by columns
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#if !defined(SIZE_M) || !defined(SIZE_N) || !defined(A_LAYOUT) || !defined(B_LAYOUT) || !defined(OPERAND) || !defined(SUM) || !defined(A_LD) || !defined(B_LD)
#error "pass -DSIZE_M=16 -DSIZE_N=16 -DA_LAYOUT=row_major -DB_LAYOUT=col_major -DOPERAND=__half -DSUM=float -DA_LD=16 -DB_LD=16"
#endif
using namespace nvcuda;

// a and b: one 16-deep product in the layouts that the macros name, without gaps; c by rows
extern "C" __global__ void wmma_kernel(const unsigned short* a, const unsigned short* b, const SUM* c, SUM* out) {
    wmma::fragment<wmma::matrix_a, SIZE_M, SIZE_N, 16, OPERAND, wmma::A_LAYOUT> a_frag;
    wmma::fragment<wmma::matrix_b, SIZE_M, SIZE_N, 16, OPERAND, wmma::B_LAYOUT> b_frag;
    wmma::fragment<wmma::accumulator, SIZE_M, SIZE_N, 16, SUM> acc;
    wmma::load_matrix_sync(a_frag, reinterpret_cast<const OPERAND*>(a), A_LD);
    wmma::load_matrix_sync(b_frag, reinterpret_cast<const OPERAND*>(b), B_LD);
    wmma::load_matrix_sync(acc, c, SIZE_N, wmma::mem_row_major);
    wmma::mma_sync(acc, a_frag, b_frag, acc);
    for (int i = 0; i < acc.num_elements; ++i) acc.x[i] = acc.x[i] * static_cast<SUM>(0.5f);
    wmma::store_matrix_sync(out, acc, SIZE_M, wmma::mem_col_major);
}
