"""Rows of keys and values between pages and one buffer, or between the pages of two ranks, as one Triton kernel:
index_copy_ of torch reads no faster than a link between two GPUs.

May import: triton, torch.
"""

import triton
import triton.language as tl

TOKENS = 8  # of a program; a thread then has several accesses of 16 bytes under way, which a link needs to be full


@triton.jit
def copy_kernel(
    src_ptr,  # (num_parts, num_src, row_len)
    dst_ptr,  # (num_parts, num_dst, row_len), here or in the memory of a peer
    src_slots_ptr,  # (num_tokens,) int64; None: rows in order
    dst_slots_ptr,  # the same for dst
    num_src,
    num_dst,
    num_tokens,
    row_len,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,  # at least row_len
):
    """Grid (ceil(num_tokens / TOKENS), num_parts)."""
    part = tl.program_id(1).to(tl.int64)
    tokens = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)  # (TOKENS,)
    src, dst = tokens, tokens
    if src_slots_ptr is not None:
        src = tl.load(src_slots_ptr + tokens, mask=tokens < num_tokens, other=0)
    if dst_slots_ptr is not None:
        dst = tl.load(dst_slots_ptr + tokens, mask=tokens < num_tokens, other=0)
    cols = tl.arange(0, BLOCK)[None, :]
    mask = (tokens < num_tokens)[:, None] & (cols < row_len)
    rows = tl.load(src_ptr + (part * num_src + src[:, None]) * row_len + cols, mask=mask)  # (TOKENS, BLOCK)
    tl.store(dst_ptr + (part * num_dst + dst[:, None]) * row_len + cols, rows, mask=mask)


def copy(src, dst, *, src_slots=None, dst_slots=None):
    """Copy the rows of some tokens; src and dst (layers, 2, number of rows, num_kv_heads, head_dim), contiguous.

    src_slots, dst_slots : (num_tokens,) int64, their rows in src and dst, or None: all rows, in order
    """
    num_tokens = src.shape[2] if src_slots is None else len(src_slots)
    num_parts, row_len = src.shape[0] * src.shape[1], src.shape[3] * src.shape[4]
    copy_kernel[triton.cdiv(num_tokens, TOKENS), num_parts](
        src, dst, src_slots, dst_slots, src.shape[2], dst.shape[2], num_tokens, row_len,
        TOKENS=TOKENS, BLOCK=triton.next_power_of_2(row_len), num_warps=8,
    )  # fmt: skip
