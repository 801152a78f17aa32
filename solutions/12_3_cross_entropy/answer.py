import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(
    logits_ptr,  # (num_rows, num_cols) float, rows stride_row apart; becomes the gradient
    targets_ptr,  # (num_rows,) int64; a row whose target is ignore_index counts for nothing
    loss_ptr,  # (num_rows,) float
    num_cols, stride_row, ignore_index, grad_scale,
    BLOCK_N: tl.constexpr,  # logits of a tile
):  # fmt: skip
    """Cross-entropy and its gradient, in place. Grid (num_rows,): a program has one row."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    row_ptr = logits_ptr + row * stride_row
    target = tl.load(targets_ptr + row)
    ### BEGIN SOLUTION
    if target == ignore_index:
        for start in range(0, num_cols, BLOCK_N):
            tl.store(row_ptr + start + cols, tl.zeros((BLOCK_N,), tl.float32), mask=start + cols < num_cols)
        tl.store(loss_ptr + row, 0.0)
    else:
        logit = tl.load(row_ptr + target)  # before the gradient takes its place
        m, l = -float("inf"), 0.0
        for start in range(0, num_cols, BLOCK_N):
            x = tl.load(row_ptr + start + cols, mask=start + cols < num_cols, other=-float("inf"))
            m_new = tl.maximum(m, tl.max(x, axis=0))
            shift = tl.where(m_new == -float("inf"), 0.0, m_new)  # a tile of nothing but -inf
            l = l * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), axis=0)
            m = m_new
        tl.store(loss_ptr + row, (m - logit) + tl.log(l))
        for start in range(0, num_cols, BLOCK_N):
            mask = start + cols < num_cols
            x = tl.load(row_ptr + start + cols, mask=mask, other=0.0)
            probs = tl.exp(x - m) / l
            gradient = probs - tl.where(start + cols == target, 1.0, 0.0)
            tl.store(row_ptr + start + cols, gradient * grad_scale, mask=mask)
    ### END SOLUTION
