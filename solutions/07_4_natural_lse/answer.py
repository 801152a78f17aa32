import triton
import triton.language as tl


@triton.jit
def finish_kernel(
    acc_ptr,  # (num_rows, HEAD_DIM) float: sum of exp2(score_log2 - m_log2) * v, not divided
    m_log2_ptr,  # (num_rows,) float: largest score times log2(e); -inf for a row that saw no key
    l_ptr,  # (num_rows,) float: sum of exp2(score_log2 - m_log2); 0 for a row that saw no key
    out_ptr,  # (num_rows, HEAD_DIM) float
    lse_ptr,  # (num_rows,) float, natural log
    num_rows,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,  # HEAD_DIM rounded up to a power of two, at least 16
    BLOCK_M: tl.constexpr,  # rows of a tile
):
    """The end of a loop in base 2: (m_log2, l, acc) -> (out, lse). Grid (ceil(num_rows / BLOCK_M),)."""
    rows, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)[None, :]
    offsets, mask = rows[:, None] * HEAD_DIM + d, (rows[:, None] < num_rows) & (d < HEAD_DIM)  # (BLOCK_M, BLOCK_D)
    ln_2 = 0.6931471805599453  # natural logarithm of 2
    ### BEGIN SOLUTION
    m_log2 = tl.load(m_log2_ptr + rows, mask=rows < num_rows, other=0.0)  # (BLOCK_M,)
    l = tl.load(l_ptr + rows, mask=rows < num_rows, other=1.0)
    acc = tl.load(acc_ptr + offsets, mask=mask, other=0.0)
    l_safe = tl.where(l > 0.0, l, 1.0)  # a row that saw nothing: 0 / 1, and -inf + log(1)
    tl.store(out_ptr + offsets, acc / l_safe[:, None], mask=mask)
    tl.store(lse_ptr + rows, m_log2 * ln_2 + tl.log(l_safe), mask=rows < num_rows)
    ### END SOLUTION
