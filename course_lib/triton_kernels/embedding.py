"""Triton twins of kernels_cu/embedding/: BLOCK_N numbers of a token a program.

May import: triton.
"""

import triton
import triton.language as tl


@triton.jit
def lookup_kernel(
    ids_ptr,  # (num_tokens,) int32 or int64
    table_ptr,  # (num_ids, num_cols), rows stride_table apart
    positions_ptr, position_table_ptr,  # like ids; (num_positions, num_cols); not read where HAS_POSITIONS is 0
    out_ptr,  # (num_tokens, num_cols), rows stride_out apart
    num_tokens, num_cols, num_ids, num_positions, stride_table, stride_out,
    BLOCK_N: tl.constexpr, HAS_POSITIONS: tl.constexpr,
):  # fmt: skip
    """01_lookup. Grid (num_tokens, ceil(num_cols / BLOCK_N))."""
    token = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    row = tl.load(ids_ptr + token).to(tl.int64)
    mask = (cols < num_cols) & (row >= 0) & (row < num_ids)
    out = tl.load(table_ptr + row * stride_table + cols, mask=mask, other=0.0)
    if HAS_POSITIONS:
        position = tl.load(positions_ptr + token).to(tl.int64)
        mask = (cols < num_cols) & (position >= 0) & (position < num_positions)
        added = tl.load(position_table_ptr + position * num_cols + cols, mask=mask, other=0.0)
        out = out.to(tl.float32) + added.to(tl.float32)
    tl.store(out_ptr + token * stride_out + cols, out.to(out_ptr.dtype.element_ty), mask=cols < num_cols)


@triton.jit
def _finish(d_table_ptr, sums, cols, mask, accumulate):
    """Write the sums, added to what the row holds if `accumulate`."""
    sums += tl.load(d_table_ptr + cols, mask=mask & (accumulate != 0), other=0.0).to(tl.float32)
    tl.store(d_table_ptr + cols, sums.to(d_table_ptr.dtype.element_ty), mask=mask)


@triton.jit
def sorted_backward_kernel(
    sorted_ids_ptr, order_ptr, ends_ptr,  # (num_tokens,) int64: id, token and end of each place
    d_out_ptr,  # (num_tokens, num_cols), rows stride_d_out apart
    d_table_ptr,  # (num_ids, num_cols), rows stride_d_table apart
    partial_ptr,  # (2 ceil(num_tokens / PIECE), num_cols) float
    num_tokens, num_cols, num_ids, stride_d_out, stride_d_table, accumulate,
    BLOCK_N: tl.constexpr, PIECE: tl.constexpr,
):  # fmt: skip
    """02_sorted_backward, the tokens of a piece. Grid (num_tokens, ceil(num_cols / BLOCK_N))."""
    place = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = cols < num_cols
    row = tl.load(sorted_ids_ptr + place)
    first = row != tl.load(sorted_ids_ptr + place - 1, mask=place > 0, other=-1)  # no id is negative
    if (row >= 0) & (row < num_ids) & (first | (place % PIECE == 0)):
        piece, end = place // PIECE, tl.load(ends_ptr + place).to(tl.int32)
        stop = tl.minimum(end, (piece + 1) * PIECE)
        sums = tl.zeros((BLOCK_N,), tl.float32)
        for i in range(place, stop):
            token = tl.load(order_ptr + i)
            sums += tl.load(d_out_ptr + token * stride_d_out + cols, mask=mask, other=0.0).to(tl.float32)
        if first & (stop == end):
            _finish(d_table_ptr + row * stride_d_table, sums, cols, mask, accumulate)
        else:
            slot = 2 * piece.to(tl.int64) + first.to(tl.int64)
            tl.store(partial_ptr + slot * num_cols + cols, sums, mask=mask)


@triton.jit
def join_pieces_kernel(
    sorted_ids_ptr, ends_ptr,  # (num_tokens,) int64
    partial_ptr,  # (2 ceil(num_tokens / PIECE), num_cols) float
    d_table_ptr,  # (num_ids, num_cols), rows stride_d_table apart
    num_tokens, num_cols, num_ids, stride_d_table, accumulate,
    BLOCK_N: tl.constexpr, PIECE: tl.constexpr,
):  # fmt: skip
    """02_sorted_backward, ids of several pieces. Grid (ceil(num_tokens / PIECE), ceil(num_cols / BLOCK_N))."""
    piece = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask, last = cols < num_cols, piece * PIECE + PIECE - 1
    row = tl.load(sorted_ids_ptr + last, mask=last < num_tokens, other=-1)
    end = tl.load(ends_ptr + last, mask=last < num_tokens, other=0).to(tl.int32)
    before = tl.load(sorted_ids_ptr + piece * PIECE - 1, mask=piece > 0, other=-1)
    if (row >= 0) & (row < num_ids) & (end > last + 1) & (before != row):
        at = piece.to(tl.int64)
        sums = tl.load(partial_ptr + (2 * at + 1) * num_cols + cols, mask=mask, other=0.0)
        for next_piece in range(piece + 1, tl.cdiv(end, PIECE)):
            at = tl.cast(next_piece, tl.int64)
            sums += tl.load(partial_ptr + 2 * at * num_cols + cols, mask=mask, other=0.0)
        _finish(d_table_ptr + row * stride_d_table, sums, cols, mask, accumulate)
