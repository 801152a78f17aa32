"""Triton twins of kernels_cu/flash_attention_2: the Q tile outside, (m, l, acc) in registers for the whole walk.

`forward_kernel` is the version to read aloud, twin of 01_loop_order.

May import: triton, notation.
"""

import triton
import triton.language as tl

from .. import notation

LOG2_E = tl.constexpr(notation.LOG2_E)


@triton.jit
def forward_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float or half, contiguous
    k_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM), like q
    v_ptr,  # like k
    out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads, seq_len_q) float, natural log
    num_q_per_kv,
    seq_len_q,
    seq_len_kv,
    softmax_scale,
    causal,  # 0 or 1; bottom-right
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,  # HEAD_DIM rounded up to a power of two, at least 16
    BLOCK_M: tl.constexpr,  # query rows of a tile
    BLOCK_N: tl.constexpr,  # keys of a tile
):
    """01_loop_order. Grid (batch_size * num_heads * cdiv(seq_len_q, BLOCK_M),)."""
    # region: heads
    num_tiles = tl.cdiv(seq_len_q, BLOCK_M)
    head = (tl.program_id(0) // num_tiles).to(tl.int64)  # of q, over all batches
    rows = tl.program_id(0) % num_tiles * BLOCK_M + tl.arange(0, BLOCK_M)  # (BLOCK_M,)
    keys, d = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)[None, :]  # (BLOCK_N,), (1, BLOCK_D)
    # endregion

    # region: load_q
    q_at = (head * seq_len_q + rows[:, None]) * HEAD_DIM + d  # (BLOCK_M, BLOCK_D)
    q_there = (rows[:, None] < seq_len_q) & (d < HEAD_DIM)
    q = tl.load(q_ptr + q_at, mask=q_there, other=0.0)
    m, l = tl.full((BLOCK_M,), -float("inf"), tl.float32), tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    # endregion

    # region: loop
    last_key = rows + tl.where(causal != 0, seq_len_kv - seq_len_q, seq_len_kv)  # that each row may see
    for kv_start in range(0, tl.minimum(tl.max(last_key) + 1, seq_len_kv), BLOCK_N):
        kv_at = (head // num_q_per_kv * seq_len_kv + kv_start + keys[:, None]) * HEAD_DIM + d  # (BLOCK_N, BLOCK_D)
        kv_there = (kv_start + keys[:, None] < seq_len_kv) & (d < HEAD_DIM)
        k = tl.load(k_ptr + kv_at, mask=kv_there, other=0.0)
        v = tl.load(v_ptr + kv_at, mask=kv_there, other=0.0)
        # endregion

        # region: scores
        seen = kv_start + keys[None, :] <= tl.minimum(last_key, seq_len_kv - 1)[:, None]
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (softmax_scale * LOG2_E)  # (BLOCK_M, BLOCK_N)
        scores = tl.where(seen, scores, -float("inf"))
        # endregion

        # region: update
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)  # never -inf minus -inf
        alpha, probs_unnorm = tl.exp2(m - shift), tl.exp2(scores - shift[:, None])
        l = l * alpha + tl.sum(probs_unnorm, axis=1)
        acc = tl.dot(probs_unnorm.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
        m = m_new
        # endregion

    # region: finish
    l_safe = tl.where(l > 0.0, l, 1.0)  # a fully masked row: 0 / 1, and m stays -inf
    tl.store(out_ptr + q_at, (acc / l_safe[:, None]).to(out_ptr.dtype.element_ty), mask=q_there)
    tl.store(lse_ptr + head * seq_len_q + rows, (m + tl.log2(l_safe)) / LOG2_E, mask=rows < seq_len_q)
    # endregion
