"""Triton twins of kernels_cu/flash_attention_2_backward/01_two_walks: gradients by recomputation, without atomics.

Three launches. `row_dot_kernel` prepares two numbers a query; `dk_dv_kernel` owns a tile of keys and walks over the
queries of its whole group; `dq_kernel` owns a tile of queries and walks over the keys. Each sum has one owner.

May import: triton, the tiles and LOG2_E of flash_attention_2.
"""

import triton
import triton.language as tl

from .flash_attention_2 import LOG2_E, _key_limits, _load_rows, _tile_and_head


@triton.jit
def row_dot_kernel(
    out_ptr, d_out_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM), rows contiguous
    lse_ptr,  # (batch_size, num_heads, seq_len_q) float, contiguous, natural log
    row_dot_ptr, lse_log2_ptr,  # (batch_size, num_heads, padded_len) float
    num_heads, seq_len_q, padded_len,  # padded_len: seq_len_q rounded up to the longest tile of queries
    stride_out_batch, stride_out_head, stride_out_row, stride_d_out_batch, stride_d_out_head, stride_d_out_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,  # BLOCK_M: divides padded_len
):  # fmt: skip
    """01_two_walks/row_dot. D = rowsum(dO * O), and lse * log2(e).

    Grid (batch_size * num_heads * padded_len / BLOCK_M,). A row that saw no key (lse = -inf) and a row of the
    padding get +inf: exp2(score - inf) = 0, so both weigh nothing and the kernels below need no mask for queries.
    """
    # region: row_dot
    num_tiles = padded_len // BLOCK_M
    batch_head = (tl.program_id(0) // num_tiles).to(tl.int64)
    batch, head = batch_head // num_heads, batch_head % num_heads
    rows = (tl.program_id(0) % num_tiles * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    d, mask = tl.arange(0, HEAD_DIM)[None, :], rows < seq_len_q
    out_offsets = batch * stride_out_batch + head * stride_out_head + rows[:, None] * stride_out_row + d
    d_out_offsets = batch * stride_d_out_batch + head * stride_d_out_head + rows[:, None] * stride_d_out_row + d
    out = tl.load(out_ptr + out_offsets, mask=mask[:, None], other=0.0).to(tl.float32)
    d_out = tl.load(d_out_ptr + d_out_offsets, mask=mask[:, None], other=0.0).to(tl.float32)
    lse = tl.load(lse_ptr + batch_head * seq_len_q + rows, mask=mask, other=float("inf"))
    lse = tl.where(lse == -float("inf"), float("inf"), lse)
    tl.store(row_dot_ptr + batch_head * padded_len + rows, tl.sum(d_out * out, axis=1))
    tl.store(lse_log2_ptr + batch_head * padded_len + rows, lse * LOG2_E)
    # endregion


# fmt: off
@triton.jit
def _walk_queries(
    dk, dv, k, v, keys, q, d_out, lse_log2_ptr, row_dot_ptr, q_offsets, d_out_offsets, stride_q_row, stride_d_out_row,
    batch, head, start, end, seq_len_q, offset, scale_log2, MASKED: tl.constexpr, CHECKED: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, DESCRIPTORS: tl.constexpr
):
# fmt: on
    """Add what the queries start .. end of one head send to this tile of keys. All products are transposed."""
    for q_start in range(start, end, BLOCK_M):
        q_tile = _load_rows(
            q, q_offsets, q_start, stride_q_row, batch, head, seq_len_q, BLOCK_M, HEAD_DIM, CHECKED, DESCRIPTORS
        )
        d_out_tile = _load_rows(
            d_out, d_out_offsets, q_start, stride_d_out_row, batch, head, seq_len_q, BLOCK_M, HEAD_DIM, CHECKED,
            DESCRIPTORS
        )  # fmt: skip
        rows = q_start + tl.arange(0, BLOCK_M)

        # region: probs
        scores = tl.dot(k, tl.trans(q_tile), input_precision="ieee")  # (BLOCK_N, BLOCK_M), not yet scaled
        probs = tl.exp2(scores * scale_log2 - tl.load(lse_log2_ptr + rows)[None, :])
        if MASKED:
            probs = tl.where(keys[:, None] <= rows[None, :] + offset, probs, 0.0)
        # endregion

        # region: sums
        dv = tl.dot(probs.to(d_out_tile.dtype), d_out_tile, dv, input_precision="ieee")  # (BLOCK_N, HEAD_DIM)
        d_probs = tl.dot(v, tl.trans(d_out_tile), input_precision="ieee")  # (BLOCK_N, BLOCK_M)
        d_scores = probs * (d_probs - tl.load(row_dot_ptr + rows)[None, :])
        dk = tl.dot(d_scores.to(q_tile.dtype), q_tile, dk, input_precision="ieee")  # (BLOCK_N, HEAD_DIM)
        # endregion
    return dk, dv


# fmt: off
@triton.jit
def _over_group(
    dk, dv, k, v, keys, q, d_out, lse_log2_ptr, row_dot_ptr, stride_q_batch, stride_q_head, stride_q_row,
    stride_d_out_batch, stride_d_out_head, stride_d_out_row, batch, batch_head, kv_head, kv_start, num_q_per_kv,
    seq_len_q, seq_len_kv, padded_len, scale_log2, CAUSAL: tl.constexpr, EVEN_Q: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, DESCRIPTORS: tl.constexpr
):
# fmt: on
    """(dk, dv) of a tile of keys, k and v (BLOCK_N, HEAD_DIM), from the queries of every head of its group."""
    # region: dk_dv_loop
    offset, tile_row, d = seq_len_kv - seq_len_q, tl.arange(0, BLOCK_M)[:, None], tl.arange(0, HEAD_DIM)[None, :]
    q_offsets, d_out_offsets = tile_row * stride_q_row + d, tile_row * stride_d_out_row + d
    stride_q_row, stride_d_out_row = stride_q_row.to(tl.int64), stride_d_out_row.to(tl.int64)
    batch_64, start = batch.to(tl.int64), kv_start * 0
    if CAUSAL:  # queries before it see no key of this tile
        start = tl.maximum(kv_start - offset, 0) // BLOCK_M * BLOCK_M
    for turn in range(num_q_per_kv):
        head = kv_head * num_q_per_kv + turn
        row_0 = (batch_head.to(tl.int64) * num_q_per_kv + turn) * padded_len
        q_head, d_out_head = q, d_out
        if not DESCRIPTORS:
            q_head += batch_64 * stride_q_batch + head.to(tl.int64) * stride_q_head
            d_out_head += batch_64 * stride_d_out_batch + head.to(tl.int64) * stride_d_out_head
        # the mask in every tile: a second loop for those that need none costs more registers than it saves work
        dk, dv = _walk_queries(
            dk, dv, k, v, keys, q_head, d_out_head, lse_log2_ptr + row_0, row_dot_ptr + row_0, q_offsets, d_out_offsets,
            stride_q_row, stride_d_out_row, batch, head, start, seq_len_q, seq_len_q, offset, scale_log2, CAUSAL,
            not EVEN_Q, HEAD_DIM, BLOCK_M, DESCRIPTORS
        )  # fmt: skip
    # endregion
    return dk, dv


@triton.jit(do_not_specialize=["heads_per_turn"])
def dk_dv_kernel(
    q,  # (batch_size, num_heads, seq_len_q, HEAD_DIM), rows contiguous; a pointer or a descriptor
    k, v,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM), like q
    d_out,  # like q
    lse_log2_ptr, row_dot_ptr,  # (batch_size, num_heads, padded_len) float, from row_dot_kernel
    dk_ptr, dv_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM), contiguous
    batch_size, num_kv_heads, num_q_per_kv, seq_len_q, seq_len_kv, padded_len,
    stride_q_batch, stride_q_head, stride_q_row, stride_k_batch, stride_k_head, stride_k_row,
    stride_v_batch, stride_v_head, stride_v_row, stride_d_out_batch, stride_d_out_head, stride_d_out_row,
    softmax_scale,  # above 0
    CAUSAL: tl.constexpr, heads_per_turn,  # CAUSAL: bottom-right
    EVEN_Q: tl.constexpr,  # seq_len_q is a multiple of BLOCK_M
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,  # BLOCK_M: query rows of a tile; divides padded_len
    BLOCK_N: tl.constexpr,  # keys of a tile
    DESCRIPTORS: tl.constexpr,  # q, k, v and d_out are tensor descriptors
):  # fmt: skip
    """01_two_walks/dk_dv. Grid (batch_size * num_kv_heads * cdiv(seq_len_kv, BLOCK_N),)."""
    # region: dk_dv_load_kv
    num_tiles = tl.cdiv(seq_len_kv, BLOCK_N)
    tile, batch_head = _tile_and_head(num_tiles, batch_size * num_kv_heads, heads_per_turn)
    batch, kv_head = batch_head // num_kv_heads, batch_head % num_kv_heads
    batch_64, kv_head_64, kv_start = batch.to(tl.int64), kv_head.to(tl.int64), tile * BLOCK_N
    tile_key = tl.arange(0, BLOCK_N)[:, None]
    d, keys = tl.arange(0, HEAD_DIM)[None, :], kv_start + tl.arange(0, BLOCK_N)
    if not DESCRIPTORS:
        k += batch_64 * stride_k_batch + kv_head_64 * stride_k_head
        v += batch_64 * stride_v_batch + kv_head_64 * stride_v_head
    k_tile = _load_rows(
        k, tile_key * stride_k_row + d, kv_start, stride_k_row.to(tl.int64), batch, kv_head, seq_len_kv, BLOCK_N,
        HEAD_DIM, True, DESCRIPTORS
    )  # fmt: skip
    v_tile = _load_rows(
        v, tile_key * stride_v_row + d, kv_start, stride_v_row.to(tl.int64), batch, kv_head, seq_len_kv, BLOCK_N,
        HEAD_DIM, True, DESCRIPTORS
    )  # fmt: skip
    dk, dv = tl.zeros((BLOCK_N, HEAD_DIM), tl.float32), tl.zeros((BLOCK_N, HEAD_DIM), tl.float32)
    # endregion

    dk, dv = _over_group(
        dk, dv, k_tile, v_tile, keys, q, d_out, lse_log2_ptr, row_dot_ptr, stride_q_batch, stride_q_head, stride_q_row,
        stride_d_out_batch, stride_d_out_head, stride_d_out_row, batch, batch_head, kv_head, kv_start, num_q_per_kv,
        seq_len_q, seq_len_kv, padded_len, softmax_scale * LOG2_E, CAUSAL, EVEN_Q, HEAD_DIM, BLOCK_M, DESCRIPTORS
    )  # fmt: skip

    # region: dk_dv_store
    offsets = (batch_head.to(tl.int64) * seq_len_kv + keys[:, None]) * HEAD_DIM + d
    tl.store(dk_ptr + offsets, (dk * softmax_scale).to(dk_ptr.dtype.element_ty), mask=keys[:, None] < seq_len_kv)
    tl.store(dv_ptr + offsets, dv.to(dv_ptr.dtype.element_ty), mask=keys[:, None] < seq_len_kv)
    # endregion


# fmt: off
@triton.jit
def _walk_keys(
    dq, q, d_out, lse_log2, row_dot, last_key, k, v, k_offsets, v_offsets, stride_k_row, stride_v_row, batch, kv_head,
    start, end, seq_len_kv, scale_log2, MASKED: tl.constexpr, CHECKED: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_N: tl.constexpr, DESCRIPTORS: tl.constexpr
):
# fmt: on
    """Add what the keys start .. end send to this tile of queries."""
    for kv_start in range(start, end, BLOCK_N):
        k_tile = _load_rows(
            k, k_offsets, kv_start, stride_k_row, batch, kv_head, seq_len_kv, BLOCK_N, HEAD_DIM, CHECKED, DESCRIPTORS
        )
        v_tile = _load_rows(
            v, v_offsets, kv_start, stride_v_row, batch, kv_head, seq_len_kv, BLOCK_N, HEAD_DIM, CHECKED, DESCRIPTORS
        )
        scores = tl.dot(q, tl.trans(k_tile), input_precision="ieee")  # (BLOCK_M, BLOCK_N), not yet scaled
        d_probs = tl.dot(d_out, tl.trans(v_tile), input_precision="ieee")  # (BLOCK_M, BLOCK_N)
        probs = tl.exp2(scores * scale_log2 - lse_log2[:, None])
        if MASKED:
            probs = tl.where((kv_start + tl.arange(0, BLOCK_N))[None, :] <= last_key[:, None], probs, 0.0)
        d_scores = probs * (d_probs - row_dot[:, None])
        dq = tl.dot(d_scores.to(k_tile.dtype), k_tile, dq, input_precision="ieee")  # (BLOCK_M, HEAD_DIM)
    return dq


# fmt: off
@triton.jit
def _dq_over_keys(
    q, d_out, lse_log2, row_dot, k, v, stride_k_row, stride_v_row, batch, kv_head, q_start, seq_len_q, seq_len_kv,
    scale_log2, CAUSAL: tl.constexpr, EVEN_KV: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, DESCRIPTORS: tl.constexpr
):
# fmt: on
    """dq, not yet scaled, of a tile of queries from all keys that it may see; q and d_out (BLOCK_M, HEAD_DIM)."""
    # region: dq_loop
    tile_key, d = tl.arange(0, BLOCK_N)[:, None], tl.arange(0, HEAD_DIM)[None, :]
    k_offsets, v_offsets = tile_key * stride_k_row + d, tile_key * stride_v_row + d
    stride_k_row, stride_v_row = stride_k_row.to(tl.int64), stride_v_row.to(tl.int64)
    dq = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    last_key, full, end = _key_limits(q_start, seq_len_q, seq_len_kv, CAUSAL, BLOCK_M, BLOCK_N)
    dq = _walk_keys(
        dq, q, d_out, lse_log2, row_dot, last_key, k, v, k_offsets, v_offsets, stride_k_row, stride_v_row, batch,
        kv_head, 0, full, seq_len_kv, scale_log2, False, False, HEAD_DIM, BLOCK_N, DESCRIPTORS
    )  # fmt: skip
    if CAUSAL or not EVEN_KV:  # the diagonal, and a last tile that the keys do not fill
        dq = _walk_keys(
            dq, q, d_out, lse_log2, row_dot, last_key, k, v, k_offsets, v_offsets, stride_k_row, stride_v_row, batch,
            kv_head, full, end, seq_len_kv, scale_log2, True, not EVEN_KV, HEAD_DIM, BLOCK_N, DESCRIPTORS
        )  # fmt: skip
    # endregion
    return dq


@triton.jit(do_not_specialize=["heads_per_turn"])
def dq_kernel(
    q,  # (batch_size, num_heads, seq_len_q, HEAD_DIM), rows contiguous; a pointer or a descriptor
    k, v,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM), like q
    d_out,  # like q
    lse_log2_ptr, row_dot_ptr,  # (batch_size, num_heads, padded_len) float, from row_dot_kernel
    dq_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM), contiguous
    batch_size, num_heads, num_q_per_kv, seq_len_q, seq_len_kv, padded_len,
    stride_q_batch, stride_q_head, stride_q_row, stride_k_batch, stride_k_head, stride_k_row,
    stride_v_batch, stride_v_head, stride_v_row, stride_d_out_batch, stride_d_out_head, stride_d_out_row,
    softmax_scale,  # above 0
    CAUSAL: tl.constexpr, heads_per_turn,  # CAUSAL: bottom-right
    EVEN_KV: tl.constexpr,  # seq_len_kv is a multiple of BLOCK_N
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,  # BLOCK_M: query rows of a tile; divides padded_len
    BLOCK_N: tl.constexpr,  # keys of a tile
    DESCRIPTORS: tl.constexpr,  # q, k, v and d_out are tensor descriptors
):  # fmt: skip
    """01_two_walks/dq. Grid (batch_size * num_heads * cdiv(seq_len_q, BLOCK_M),)."""
    # region: dq_load_q
    num_tiles = tl.cdiv(seq_len_q, BLOCK_M)
    tile, batch_head = _tile_and_head(num_tiles, batch_size * num_heads, heads_per_turn)
    if CAUSAL:
        tile = num_tiles - 1 - tile  # the long tiles first
    batch, head = batch_head // num_heads, batch_head % num_heads
    batch_64, head_64, kv_head, q_start = batch.to(tl.int64), head.to(tl.int64), head // num_q_per_kv, tile * BLOCK_M
    tile_row = tl.arange(0, BLOCK_M)[:, None]
    d, rows = tl.arange(0, HEAD_DIM)[None, :], q_start + tl.arange(0, BLOCK_M)
    if not DESCRIPTORS:
        q += batch_64 * stride_q_batch + head_64 * stride_q_head
        d_out += batch_64 * stride_d_out_batch + head_64 * stride_d_out_head
        k += batch_64 * stride_k_batch + kv_head.to(tl.int64) * stride_k_head
        v += batch_64 * stride_v_batch + kv_head.to(tl.int64) * stride_v_head
    q_tile = _load_rows(
        q, tile_row * stride_q_row + d, q_start, stride_q_row.to(tl.int64), batch, head, seq_len_q, BLOCK_M,
        HEAD_DIM, True, DESCRIPTORS
    )  # fmt: skip
    d_out_tile = _load_rows(
        d_out, tile_row * stride_d_out_row + d, q_start, stride_d_out_row.to(tl.int64), batch, head, seq_len_q, BLOCK_M,
        HEAD_DIM, True, DESCRIPTORS
    )  # fmt: skip
    lse_log2 = tl.load(lse_log2_ptr + batch_head.to(tl.int64) * padded_len + rows)  # (BLOCK_M,)
    row_dot = tl.load(row_dot_ptr + batch_head.to(tl.int64) * padded_len + rows)  # (BLOCK_M,)
    # endregion

    dq = _dq_over_keys(
        q_tile, d_out_tile, lse_log2, row_dot, k, v, stride_k_row, stride_v_row, batch, kv_head, q_start, seq_len_q,
        seq_len_kv, softmax_scale * LOG2_E, CAUSAL, EVEN_KV, HEAD_DIM, BLOCK_M, BLOCK_N, DESCRIPTORS
    )  # fmt: skip

    # region: dq_store
    offsets = (batch_head.to(tl.int64) * seq_len_q + rows[:, None]) * HEAD_DIM + d
    tl.store(dq_ptr + offsets, (dq * softmax_scale).to(dq_ptr.dtype.element_ty), mask=rows[:, None] < seq_len_q)
    # endregion
