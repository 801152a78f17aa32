"""Triton twins of kernels_cu/attention/06 and 08: FlashAttention-1 order, K and V outside, Q inside.

Forward, a program owns one query head and keeps (m, l, out) of its rows in global memory between two tiles of K and V.
Backward, it owns one key-value head, holds dk and dv of a tile, and lets dq travel.

May import: triton.
"""

import triton
import triton.language as tl


# fmt: off
@triton.jit
def _update_rows(
    q_ptr, out_ptr, m_ptr, l_ptr, k, v, keys, q_row_0, q_start, not_first, seq_len_q, seq_len_kv, softmax_scale, causal,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr
):
# fmt: on
    """Fold a tile of keys, k and v (BLOCK_N, BLOCK_D), into (m, l, out) of the rows from `q_start` on, in place.

    `not_first`: an earlier tile has written (m, l, out); they are undefined before that.
    """
    rows, d = q_start + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)[None, :]  # (BLOCK_M,), (1, BLOCK_D)
    row_mask = rows < seq_len_q
    q_offsets = (q_row_0 + rows[:, None]) * HEAD_DIM + d  # (BLOCK_M, BLOCK_D)
    q_mask = row_mask[:, None] & (d < HEAD_DIM)
    q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)

    # region: scores
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * softmax_scale  # (BLOCK_M, BLOCK_N)
    visible = (keys[None, :] < seq_len_kv) & ((causal == 0) | (keys[None, :] <= rows[:, None] + seq_len_kv - seq_len_q))
    scores = tl.where(visible, scores, -float("inf"))
    # endregion

    # region: update
    m_old = tl.load(m_ptr + q_row_0 + rows, mask=row_mask & not_first, other=-float("inf"))  # (BLOCK_M,)
    l_old = tl.load(l_ptr + q_row_0 + rows, mask=row_mask & not_first, other=0.0)
    m_new = tl.maximum(m_old, tl.max(scores, axis=1))
    shift = tl.where(m_new == -float("inf"), 0.0, m_new)  # never -inf minus -inf
    probs_unnorm = tl.exp(scores - shift[:, None])  # (BLOCK_M, BLOCK_N)
    old_sum = l_old * tl.exp(m_old - shift)  # l_old * alpha
    l_new = old_sum + tl.sum(probs_unnorm, axis=1)
    # endregion

    # region: rescale
    acc = tl.load(out_ptr + q_offsets, mask=q_mask & not_first, other=0.0) * old_sum[:, None]
    acc += tl.dot(probs_unnorm, v, input_precision="ieee")  # (BLOCK_M, BLOCK_D)
    l_safe = tl.where(l_new == 0.0, 1.0, l_new)  # a fully masked row: 0 / 1
    tl.store(out_ptr + q_offsets, acc / l_safe[:, None], mask=q_mask)
    tl.store(m_ptr + q_row_0 + rows, m_new, mask=row_mask)
    tl.store(l_ptr + q_row_0 + rows, l_new, mask=row_mask)
    # endregion


@triton.jit
def _write_lse(m_ptr, l_ptr, lse_ptr, seq_len_q, BLOCK_M: tl.constexpr):
    """lse = m + log(l) of the rows of one head."""
    for q_start in range(0, seq_len_q, BLOCK_M):
        rows = q_start + tl.arange(0, BLOCK_M)
        l = tl.load(l_ptr + rows, mask=rows < seq_len_q, other=1.0)
        m = tl.load(m_ptr + rows, mask=rows < seq_len_q, other=0.0)
        lse = m + tl.log(tl.where(l == 0.0, 1.0, l))  # a fully masked row: m is -inf, and so is the sum
        tl.store(lse_ptr + rows, lse, mask=rows < seq_len_q)


@triton.jit
def flash_attention_1_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float, contiguous
    k_ptr, v_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM) float, contiguous
    out_ptr,  # like q
    m_ptr, l_ptr, lse_ptr,  # (batch_size, num_heads, seq_len_q) float; lse: natural log
    num_q_per_kv, seq_len_q, seq_len_kv, softmax_scale, causal,  # causal: 0 or 1; bottom-right
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,  # BLOCK_D: HEAD_DIM rounded up to a power of two, at least 16
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_M: query rows of a tile; BLOCK_N: keys of a tile
):  # fmt: skip
    """06_flash_attention_1. Grid (num_heads, batch_size)."""
    # region: heads
    num_heads = tl.num_programs(0)
    head = tl.program_id(1).to(tl.int64) * num_heads + tl.program_id(0)  # of q, over all batches
    kv_head = tl.program_id(1).to(tl.int64) * (num_heads // num_q_per_kv) + tl.program_id(0) // num_q_per_kv
    q_row_0, kv_row_0 = head * seq_len_q, kv_head * seq_len_kv  # rows before this head's own
    d = tl.arange(0, BLOCK_D)[None, :]  # (1, BLOCK_D)
    # endregion
    offset = seq_len_kv - seq_len_q  # causal: query q_row sees the keys up to q_row + offset

    # region: outer
    for kv_start in range(0, seq_len_kv, BLOCK_N):
        keys = kv_start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        kv_offsets = (kv_row_0 + keys[:, None]) * HEAD_DIM + d  # (BLOCK_N, BLOCK_D)
        kv_mask = (keys[:, None] < seq_len_kv) & (d < HEAD_DIM)
        k = tl.load(k_ptr + kv_offsets, mask=kv_mask, other=0.0)
        v = tl.load(v_ptr + kv_offsets, mask=kv_mask, other=0.0)
        first_row = tl.where((causal != 0) & (kv_start > 0), tl.maximum(kv_start - offset, 0), 0)
        tl.debug_barrier()  # separates the writes of (m, l, out) in the tile before from the reads below
        # endregion

        # region: inner
        for q_start in range(first_row // BLOCK_M * BLOCK_M, seq_len_q, BLOCK_M):
            _update_rows(
                q_ptr, out_ptr, m_ptr, l_ptr, k, v, keys, q_row_0, q_start, kv_start > 0, seq_len_q, seq_len_kv,
                softmax_scale, causal, HEAD_DIM, BLOCK_D, BLOCK_M,
            )  # fmt: skip
            # endregion

    tl.debug_barrier()  # separates the last writes of m and l from the reads in _write_lse
    _write_lse(m_ptr + q_row_0, l_ptr + q_row_0, lse_ptr + q_row_0, seq_len_q, BLOCK_M)


@triton.jit
def row_dot_kernel(
    out_ptr, d_out_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float, contiguous
    row_dot_ptr,  # (batch_size, num_heads, seq_len_q) float
    num_rows,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,  # BLOCK_D: HEAD_DIM rounded up to a power of two
    BLOCK_M: tl.constexpr,  # rows of a program
):  # fmt: skip
    """08_flash_attention_1_backward/row_dot. Grid (ceil(num_rows / BLOCK_M),)."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # (BLOCK_M,)
    d = tl.arange(0, BLOCK_D)[None, :]  # (1, BLOCK_D)
    mask = (rows[:, None] < num_rows) & (d < HEAD_DIM)
    offsets = rows[:, None] * HEAD_DIM + d  # (BLOCK_M, BLOCK_D)
    product = tl.load(out_ptr + offsets, mask=mask, other=0.0) * tl.load(d_out_ptr + offsets, mask=mask, other=0.0)
    tl.store(row_dot_ptr + rows, tl.sum(product, axis=1), mask=rows < num_rows)


# fmt: off
@triton.jit
def _add_rows(
    dk, dv, q_ptr, d_out_ptr, lse_ptr, row_dot_ptr, dq_ptr, k, v, keys, head_row, q_start, not_first, seq_len_q,
    seq_len_kv, softmax_scale, causal, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr
):
# fmt: on
    """(dk, dv), each (BLOCK_N, BLOCK_D), with what the rows from `q_start` on add; dq of these rows in place.

    `not_first`: an earlier tile of keys has written dq; it is undefined before that.
    """
    rows, d = q_start + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)[None, :]  # (BLOCK_M,), (1, BLOCK_D)
    q_offsets = (head_row + rows[:, None]) * HEAD_DIM + d  # (BLOCK_M, BLOCK_D)
    q_mask = (rows[:, None] < seq_len_q) & (d < HEAD_DIM)
    q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)
    d_out = tl.load(d_out_ptr + q_offsets, mask=q_mask, other=0.0)
    lse = tl.load(lse_ptr + head_row + rows, mask=rows < seq_len_q, other=0.0)
    row_dot = tl.load(row_dot_ptr + head_row + rows, mask=rows < seq_len_q, other=0.0)

    # region: probs
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * softmax_scale  # (BLOCK_M, BLOCK_N)
    visible = (keys[None, :] < seq_len_kv) & (rows[:, None] < seq_len_q)
    visible = visible & ((causal == 0) | (keys[None, :] <= rows[:, None] + seq_len_kv - seq_len_q))
    shift = tl.where(lse == -float("inf"), 0.0, lse)  # never -inf minus -inf
    probs = tl.exp(tl.where(visible, scores, -float("inf")) - shift[:, None])  # (BLOCK_M, BLOCK_N)
    d_probs = tl.dot(d_out, tl.trans(v), input_precision="ieee")
    d_scores = probs * (d_probs - row_dot[:, None]) * softmax_scale
    # endregion

    # region: products
    dq = tl.load(dq_ptr + q_offsets, mask=q_mask & not_first, other=0.0)
    dq += tl.dot(d_scores, k, input_precision="ieee")
    tl.store(dq_ptr + q_offsets, dq, mask=q_mask)
    dk += tl.dot(tl.trans(d_scores), q, input_precision="ieee")
    dv += tl.dot(tl.trans(probs), d_out, input_precision="ieee")
    # endregion
    return dk, dv


@triton.jit
def flash_attention_1_backward_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float, contiguous
    k_ptr, v_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM) float, contiguous
    d_out_ptr,  # like q
    lse_ptr, row_dot_ptr,  # (batch_size, num_heads, seq_len_q) float, natural log
    dq_ptr,  # like q
    dk_ptr,  # like k
    dv_ptr,  # like k
    num_q_per_kv, seq_len_q, seq_len_kv, softmax_scale, causal,  # causal: 0 or 1; bottom-right
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,  # BLOCK_D: HEAD_DIM rounded up to a power of two, at least 16
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_M: query rows of a tile; BLOCK_N: keys of a tile
):  # fmt: skip
    """08_flash_attention_1_backward/backward. Grid (num_kv_heads, batch_size)."""
    kv_head = tl.program_id(1).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)  # over all batches
    d = tl.arange(0, BLOCK_D)[None, :]  # (1, BLOCK_D)
    offset = seq_len_kv - seq_len_q  # causal: query q_row sees the keys up to q_row + offset

    # region: outer
    for kv_start in range(0, seq_len_kv, BLOCK_N):
        keys = kv_start + tl.arange(0, BLOCK_N)  # (BLOCK_N,)
        kv_offsets = (kv_head * seq_len_kv + keys[:, None]) * HEAD_DIM + d  # (BLOCK_N, BLOCK_D)
        kv_mask = (keys[:, None] < seq_len_kv) & (d < HEAD_DIM)
        k = tl.load(k_ptr + kv_offsets, mask=kv_mask, other=0.0)
        v = tl.load(v_ptr + kv_offsets, mask=kv_mask, other=0.0)
        dk = tl.zeros((BLOCK_N, BLOCK_D), dtype=tl.float32)
        dv = tl.zeros((BLOCK_N, BLOCK_D), dtype=tl.float32)
        first_row = tl.where((causal != 0) & (kv_start > 0), tl.maximum(kv_start - offset, 0), 0)
        tl.debug_barrier()  # separates the writes of dq in the tile before from the reads below
        # endregion

        # region: inner
        for turn in range(0, num_q_per_kv):
            head_row = (kv_head * num_q_per_kv + turn) * seq_len_q  # rows before this query head's own
            # num_stages=1: tiles fetched ahead of their turn would not fit into the registers
            for q_start in tl.range(first_row // BLOCK_M * BLOCK_M, seq_len_q, BLOCK_M, num_stages=1):
                dk, dv = _add_rows(
                    dk, dv, q_ptr, d_out_ptr, lse_ptr, row_dot_ptr, dq_ptr, k, v, keys, head_row, q_start, kv_start > 0,
                    seq_len_q, seq_len_kv, softmax_scale, causal, HEAD_DIM, BLOCK_D, BLOCK_M,
                )  # fmt: skip
                # endregion

        # region: store
        tl.store(dk_ptr + kv_offsets, dk, mask=kv_mask)
        tl.store(dv_ptr + kv_offsets, dv, mask=kv_mask)
        # endregion
