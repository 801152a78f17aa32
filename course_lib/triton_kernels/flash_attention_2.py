"""Triton twins of kernels_cu/flash_attention_2: the Q tile outside, (m, l, acc) in registers for the whole walk.

`forward_kernel` is the version to read aloud, twin of 01_loop_order. `tuned_forward_kernel`, twin of 10_heavy_first,
walks in the same order and adds what a launcher can know: which tiles need no mask, where a tile's rows lie, which tile
is long.

May import: triton, notation.
"""

import triton
import triton.language as tl

from .. import notation

LOG2_E = tl.constexpr(notation.LOG2_E)


@triton.jit
def forward_kernel(
    q_ptr,  # (batch_size, num_heads, seq_len_q, HEAD_DIM) float or half, contiguous
    k_ptr, v_ptr,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM), like q
    out_ptr,  # like q
    lse_ptr,  # (batch_size, num_heads, seq_len_q) float, natural log
    num_q_per_kv, seq_len_q, seq_len_kv, softmax_scale, causal,  # causal: 0 or 1; bottom-right
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,  # BLOCK_D: HEAD_DIM rounded up to a power of two, at least 16
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_M: query rows of a tile; BLOCK_N: keys of a tile
):  # fmt: skip
    """01_loop_order. Grid (batch_size * num_heads * cdiv(seq_len_q, BLOCK_M),)."""
    # region: heads
    num_tiles = tl.cdiv(seq_len_q, BLOCK_M)
    head = (tl.program_id(0) // num_tiles).to(tl.int64)  # of q, over all batches
    rows = tl.program_id(0) % num_tiles * BLOCK_M + tl.arange(0, BLOCK_M)  # (BLOCK_M,)
    keys, d = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)[None, :]  # (BLOCK_N,), (1, BLOCK_D)
    # endregion

    # region: load_q
    q_offsets = (head * seq_len_q + rows[:, None]) * HEAD_DIM + d  # (BLOCK_M, BLOCK_D)
    q_mask = (rows[:, None] < seq_len_q) & (d < HEAD_DIM)
    q = tl.load(q_ptr + q_offsets, mask=q_mask, other=0.0)
    m, l = tl.full((BLOCK_M,), -float("inf"), tl.float32), tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    # endregion

    # region: loop
    last_key = rows + tl.where(causal != 0, seq_len_kv - seq_len_q, seq_len_kv)  # that each row may see
    for kv_start in range(0, tl.minimum(tl.max(last_key) + 1, seq_len_kv), BLOCK_N):
        kv_offsets = (head // num_q_per_kv * seq_len_kv + kv_start + keys[:, None]) * HEAD_DIM + d  # (BLOCK_N, BLOCK_D)
        kv_mask = (kv_start + keys[:, None] < seq_len_kv) & (d < HEAD_DIM)
        k = tl.load(k_ptr + kv_offsets, mask=kv_mask, other=0.0)
        v = tl.load(v_ptr + kv_offsets, mask=kv_mask, other=0.0)
        # endregion

        # region: scores
        visible = kv_start + keys[None, :] <= tl.minimum(last_key, seq_len_kv - 1)[:, None]
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (softmax_scale * LOG2_E)  # (BLOCK_M, BLOCK_N)
        scores = tl.where(visible, scores, -float("inf"))
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
    l_safe = tl.where(l == 0.0, 1.0, l)  # a fully masked row: 0 / 1, and m stays -inf
    tl.store(out_ptr + q_offsets, (acc / l_safe[:, None]).to(out_ptr.dtype.element_ty), mask=q_mask)
    tl.store(lse_ptr + head * seq_len_q + rows, (m + tl.log2(l_safe)) / LOG2_E, mask=rows < seq_len_q)
    # endregion


@triton.jit
def _tile_and_head(num_tiles, num_heads, heads_per_turn):
    """(tile, head) of this program: a turn of heads takes all its first tiles, then all its second ones, and so on."""
    first_head = tl.program_id(0) // (num_tiles * heads_per_turn) * heads_per_turn
    width = tl.minimum(heads_per_turn, num_heads - first_head)
    rest = tl.program_id(0) - first_head * num_tiles
    return rest // width, first_head + rest % width


@triton.jit
def _load_rows(
    x,  # a pointer to the head's own rows, or a descriptor of the whole tensor
    offsets,  # (BLOCK, HEAD_DIM) offsets inside a tile; a descriptor knows them
    start,
    stride_row,
    batch,
    head,
    seq_len,
    BLOCK: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    CHECKED: tl.constexpr,  # some rows of this tile may lie at or beyond seq_len: they read as 0
    DESCRIPTORS: tl.constexpr,
):
    """Rows start .. start + BLOCK of one head, (BLOCK, HEAD_DIM)."""
    if DESCRIPTORS:  # the copy engine of a Hopper card computes the addresses and fills with zeros
        rows = tl.reshape(x.load([batch, head, start, 0]), [BLOCK, HEAD_DIM])
    elif CHECKED:
        mask = (start + tl.arange(0, BLOCK))[:, None] < seq_len
        rows = tl.load(x + start * stride_row + offsets, mask=mask, other=0.0)
    else:
        rows = tl.load(x + start * stride_row + offsets)
    return rows


# fmt: off
@triton.jit
def _walk(
    acc, m, l, q, k, v, k_offsets, v_offsets, stride_k_row, stride_v_row, batch, kv_head, start, end, last_key,
    seq_len_kv, scale_log2, MASKED: tl.constexpr, CHECKED: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr,
    DESCRIPTORS: tl.constexpr
):
# fmt: on
    """Fold the keys start .. end into (acc, m, l); m is in units of log2."""
    for kv_start in range(start, end, BLOCK_N):
        k_tile = _load_rows(
            k, k_offsets, kv_start, stride_k_row, batch, kv_head, seq_len_kv, BLOCK_N, HEAD_DIM, CHECKED, DESCRIPTORS
        )

        # region: scores
        scores = tl.dot(q, tl.trans(k_tile), input_precision="ieee")  # (BLOCK_M, BLOCK_N), not yet scaled
        if MASKED:
            visible = (kv_start + tl.arange(0, BLOCK_N))[None, :] <= last_key[:, None]
            scores = tl.where(visible, scores, -float("inf"))
        # endregion

        # region: update
        m_new = tl.maximum(m, tl.max(scores, axis=1) * scale_log2)
        shift = tl.where(m_new == -float("inf"), 0.0, m_new) if MASKED else m_new  # never -inf minus -inf
        alpha = tl.exp2(m - shift)
        probs_unnorm = tl.exp2(scores * scale_log2 - shift[:, None])  # one multiply-add and one exp2 each
        l = l * alpha + tl.sum(probs_unnorm, axis=1)
        m = m_new
        v_tile = _load_rows(
            v, v_offsets, kv_start, stride_v_row, batch, kv_head, seq_len_kv, BLOCK_N, HEAD_DIM, CHECKED, DESCRIPTORS
        )
        acc = tl.dot(probs_unnorm.to(v_tile.dtype), v_tile, acc * alpha[:, None], input_precision="ieee")
        # endregion
    return acc, m, l


@triton.jit
def _key_limits(
    q_start, seq_len_q, seq_len_kv, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """(last_key, full, end): the last key of each row; tiles before `full` need no mask, no row sees `end` or later."""
    last_key, end, full = tl.full((BLOCK_M,), seq_len_kv - 1, tl.int32), seq_len_kv, seq_len_kv
    if CAUSAL:
        offset = seq_len_kv - seq_len_q
        last_key = tl.minimum(q_start + tl.arange(0, BLOCK_M) + offset, seq_len_kv - 1)
        end = tl.minimum(q_start + BLOCK_M + offset, seq_len_kv)
        full = tl.minimum(tl.maximum(q_start + offset + 1, 0), seq_len_kv)  # the keys that every row may see
    return last_key, full // BLOCK_N * BLOCK_N, end


# fmt: off
@triton.jit
def _attend(
    q, k, v, stride_k_row, stride_v_row, batch, kv_head, q_start, seq_len_q, seq_len_kv, scale_log2,
    CAUSAL: tl.constexpr, EVEN_KV: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    DESCRIPTORS: tl.constexpr
):
# fmt: on
    """(acc, m, l) of a tile of queries, `q` (BLOCK_M, HEAD_DIM), over all keys that it may see."""
    tile_key, d = tl.arange(0, BLOCK_N)[:, None], tl.arange(0, HEAD_DIM)[None, :]
    k_offsets, v_offsets = tile_key * stride_k_row + d, tile_key * stride_v_row + d
    stride_k_row, stride_v_row = stride_k_row.to(tl.int64), stride_v_row.to(tl.int64)
    m, l = tl.full((BLOCK_M,), -float("inf"), tl.float32), tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    # region: loop
    last_key, full, end = _key_limits(q_start, seq_len_q, seq_len_kv, CAUSAL, BLOCK_M, BLOCK_N)
    acc, m, l = _walk(
        acc, m, l, q, k, v, k_offsets, v_offsets, stride_k_row, stride_v_row, batch, kv_head, 0, full, last_key,
        seq_len_kv, scale_log2, False, False, HEAD_DIM, BLOCK_N, DESCRIPTORS
    )  # fmt: skip
    if CAUSAL or not EVEN_KV:  # the diagonal, and a last tile that the keys do not fill
        acc, m, l = _walk(
            acc, m, l, q, k, v, k_offsets, v_offsets, stride_k_row, stride_v_row, batch, kv_head, full, end, last_key,
            seq_len_kv, scale_log2, True, not EVEN_KV, HEAD_DIM, BLOCK_N, DESCRIPTORS
        )  # fmt: skip
    # endregion
    return acc, m, l


@triton.jit(do_not_specialize=["heads_per_turn"])
def tuned_forward_kernel(
    q,  # (batch_size, num_heads, seq_len_q, HEAD_DIM), rows contiguous; a pointer or a descriptor
    k, v,  # (batch_size, num_kv_heads, seq_len_kv, HEAD_DIM), like q
    out_ptr,  # like q, always a pointer
    lse_ptr,  # (batch_size, num_heads, seq_len_q) float, contiguous, natural log
    batch_size, num_heads, num_q_per_kv, seq_len_q, seq_len_kv,
    stride_q_batch, stride_q_head, stride_q_row, stride_k_batch, stride_k_head, stride_k_row,
    stride_v_batch, stride_v_head, stride_v_row, stride_out_batch, stride_out_head, stride_out_row,
    softmax_scale,  # above 0
    CAUSAL: tl.constexpr, heads_per_turn,  # CAUSAL: bottom-right
    EVEN_KV: tl.constexpr,  # seq_len_kv is a multiple of BLOCK_N
    HEAD_DIM: tl.constexpr,  # a power of two, at least 16
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # BLOCK_M: query rows of a tile; BLOCK_N: keys of a tile
    DESCRIPTORS: tl.constexpr,  # q, k and v are tensor descriptors
):  # fmt: skip
    """10_heavy_first. Grid (batch_size * num_heads * cdiv(seq_len_q, BLOCK_M),)."""
    # region: heads
    num_tiles = tl.cdiv(seq_len_q, BLOCK_M)
    tile, batch_head = _tile_and_head(num_tiles, batch_size * num_heads, heads_per_turn)
    if CAUSAL:
        tile = num_tiles - 1 - tile  # the long tiles first, so that short ones fill the end
    batch, head = batch_head // num_heads, batch_head % num_heads
    batch_64, head_64, kv_head = batch.to(tl.int64), head.to(tl.int64), head // num_q_per_kv
    q_start = tile * BLOCK_M
    rows = q_start + tl.arange(0, BLOCK_M)  # (BLOCK_M,)
    tile_row, d = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, HEAD_DIM)[None, :]
    # endregion

    # region: load_q
    if not DESCRIPTORS:
        q += batch_64 * stride_q_batch + head_64 * stride_q_head
        k += batch_64 * stride_k_batch + kv_head.to(tl.int64) * stride_k_head
        v += batch_64 * stride_v_batch + kv_head.to(tl.int64) * stride_v_head
    q_tile = _load_rows(
        q, tile_row * stride_q_row + d, q_start, stride_q_row.to(tl.int64), batch, head, seq_len_q, BLOCK_M, HEAD_DIM,
        True, DESCRIPTORS
    )  # fmt: skip
    # endregion
    acc, m, l = _attend(
        q_tile, k, v, stride_k_row, stride_v_row, batch, kv_head, q_start, seq_len_q, seq_len_kv,
        softmax_scale * LOG2_E, CAUSAL, EVEN_KV, HEAD_DIM, BLOCK_M, BLOCK_N, DESCRIPTORS
    )  # fmt: skip

    # region: finish
    l_safe = tl.where(l == 0.0, 1.0, l)  # a fully masked row: 0 / 1, and m stays -inf
    out = (acc * (1.0 / l_safe)[:, None]).to(out_ptr.dtype.element_ty)
    out_ptr += batch_64 * stride_out_batch + head_64 * stride_out_head + q_start * stride_out_row.to(tl.int64)
    tl.store(out_ptr + tile_row * stride_out_row + d, out, mask=rows[:, None] < seq_len_q)
    lse_ptr += (batch_64 * num_heads + head) * seq_len_q
    tl.store(lse_ptr + rows, (m + tl.log2(l_safe)) / LOG2_E, mask=rows < seq_len_q)
    # endregion
