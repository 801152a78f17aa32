"""Triton twin of kernels_cu/flash_attention_3/03_producer_consumer: one warpgroup loads, two compute.

`tl.range(..., warp_specialize=True)` asks the compiler for what the CUDA step writes by hand: roles, the ring of tiles,
its mbarriers, and setmaxnreg. On compute capability 9.0 the pinned Triton does so under these conditions only:

- num_warps is 4: one warpgroup loads, and the compiler adds two more that take half of the rows each;
- no branch with an else in the function, so every tile applies the mask;
- each tile of the products comes from a descriptor. That of Q, which is cut in halves, has two dimensions and is made
  in the kernel; those of K and V, which both halves read whole, are made by the launcher.

With BLOCK_M=64 there is nothing to cut, and both warpgroups compute the same rows.

May import: triton, notation.
"""

import triton
import triton.language as tl

from .. import notation

LOG2_E = tl.constexpr(notation.LOG2_E)


@triton.jit
def warp_specialised_forward_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) half or bfloat16, rows contiguous, on 16 bytes
    k, v,  # descriptors of (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM), like q; boxes (1, 1, BLOCK_N, HEAD_DIM)
    out_ptr,  # like q, contiguous
    lse_ptr,  # (batch_size, num_heads, seq_len_q) float, contiguous, natural log
    num_heads, num_q_per_kv, seq_len_q, seq_len_kv, stride_q_batch, stride_q_head, stride_q_row,
    softmax_scale_log2,  # above 0: softmax_scale * log2(e)
    causal,  # 0 or 1; bottom-right
    HEAD_DIM: tl.constexpr,  # 64 or 128
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_M: query rows of a tile; BLOCK_N: keys of a tile
):  # fmt: skip
    """03_producer_consumer. Grid (batch_size * num_heads * cdiv(seq_len_q, BLOCK_M),)."""
    # region: heads
    num_tiles = tl.cdiv(seq_len_q, BLOCK_M)
    batch_head = tl.program_id(0) // num_tiles
    q_start = (num_tiles - 1 - tl.program_id(0) % num_tiles) * BLOCK_M  # the longest walks of a causal head first
    batch, head = batch_head // num_heads, batch_head % num_heads
    kv_head = head // num_q_per_kv
    rows, tile_key = q_start + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)  # (BLOCK_M,), (BLOCK_N,)
    # endregion

    # region: load_q
    q_ptr += batch.to(tl.int64) * stride_q_batch + head.to(tl.int64) * stride_q_head
    q = tl.make_tensor_descriptor(q_ptr, [seq_len_q, HEAD_DIM], [stride_q_row, 1], [BLOCK_M, HEAD_DIM])
    q_tile = q.load([q_start, 0])  # (BLOCK_M, HEAD_DIM); rows from seq_len_q on are 0
    m, l = tl.full((BLOCK_M,), -float("inf"), tl.float32), tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    # endregion

    # region: loop
    offset = tl.where(causal != 0, seq_len_kv - seq_len_q, seq_len_kv)
    last_key = tl.minimum(rows + offset, seq_len_kv - 1)  # that each row may see
    num_kv_tiles = tl.cdiv(tl.maximum(tl.minimum(q_start + BLOCK_M + offset, seq_len_kv), 0), BLOCK_N)
    for j in tl.range(0, num_kv_tiles, warp_specialize=True):
        kv_start = (num_kv_tiles - 1 - j) * BLOCK_N
        k_tile = tl.reshape(k.load([batch, kv_head, kv_start, 0]), [BLOCK_N, HEAD_DIM])
        # endregion

        # region: scores
        scores = tl.dot(q_tile, tl.trans(k_tile)) * softmax_scale_log2  # (BLOCK_M, BLOCK_N)
        scores = tl.where((kv_start + tile_key)[None, :] <= last_key[:, None], scores, -float("inf"))
        # endregion

        # region: weights
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)  # never -inf minus -inf
        alpha, probs_unnorm = tl.exp2(m - shift), tl.exp2(scores - shift[:, None])
        l = l * alpha + tl.sum(probs_unnorm, axis=1)
        v_tile = tl.reshape(v.load([batch, kv_head, kv_start, 0]), [BLOCK_N, HEAD_DIM])
        acc = tl.dot(probs_unnorm.to(v_tile.dtype), v_tile, acc * alpha[:, None])
        m = m_new
        # endregion

    # region: store
    l_safe = tl.where(l > 0.0, l, 1.0)  # a fully masked row: 0 / 1, and m stays -inf
    head_rows = batch_head.to(tl.int64) * seq_len_q + rows
    out_offsets = head_rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]  # (BLOCK_M, HEAD_DIM)
    out = (acc / l_safe[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + out_offsets, out, mask=rows[:, None] < seq_len_q)
    tl.store(lse_ptr + head_rows, (m + tl.log2(l_safe)) / LOG2_E, mask=rows < seq_len_q)
    # endregion
