"""The state (m, l, acc) of an online softmax, as the twins of decode and paged keep it; m in units of log2.

m is the largest score so far, -inf for none; l the sum of the weights 2^(score - m), acc that of weights times values.

May import: triton.
"""

import triton
import triton.language as tl


@triton.jit
def take_in(m, l, acc, scores, values):
    """The state of one row after a tile: scores (BLOCK_N,), one of them finite; values (BLOCK_N, HEAD_DIM) float."""
    # region: update
    m_new = tl.maximum(m, tl.max(scores, axis=0))
    alpha, probs_unnorm = tl.exp2(m - m_new), tl.exp2(scores - m_new)
    l = l * alpha + tl.sum(probs_unnorm, axis=0)
    acc = acc * alpha + tl.sum(probs_unnorm[:, None] * values, axis=0)
    # endregion
    return m_new, l, acc


@triton.jit
def take_in_rows(m, l, acc, scores, values):
    """The same for several rows: scores (rows, BLOCK_N), and a product of tiles: values (BLOCK_N, HEAD_DIM) half."""
    # region: update
    m_new = tl.maximum(m, tl.max(scores, axis=1))
    alpha, probs_unnorm = tl.exp2(m - m_new), tl.exp2(scores - m_new[:, None])
    l = l * alpha + tl.sum(probs_unnorm, axis=1)
    acc = tl.dot(probs_unnorm.to(values.dtype), values, acc * alpha[:, None])
    # endregion
    return m_new, l, acc
