"""Rows of keys and values between pages and one buffer, as one Triton kernel: index_copy_ of torch reads no faster than
a link between two GPUs.

May import: triton, torch.
"""

import triton
import triton.language as tl

TOKENS = 8  # of a program


@triton.jit
def move_kernel(
    pool_ptr,  # (num_parts, num_slots, row_len)
    slots_ptr,  # (num_tokens,) int64
    values_ptr,  # (num_parts, num_tokens, row_len)
    num_slots,
    num_tokens,
    row_len,
    TO_POOL: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,  # at least row_len
):
    """Grid (ceil(num_tokens / TOKENS), num_parts)."""
    part = tl.program_id(1).to(tl.int64)
    tokens = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)  # (TOKENS,)
    slots = tl.load(slots_ptr + tokens, mask=tokens < num_tokens, other=0)
    cols = tl.arange(0, BLOCK)[None, :]
    mask = (tokens < num_tokens)[:, None] & (cols < row_len)
    in_pool = pool_ptr + (part * num_slots + slots[:, None]) * row_len + cols  # (TOKENS, BLOCK)
    in_values = values_ptr + (part * num_tokens + tokens[:, None]) * row_len + cols
    if TO_POOL:
        tl.store(in_pool, tl.load(in_values, mask=mask), mask=mask)
    else:
        tl.store(in_values, tl.load(in_pool, mask=mask), mask=mask)


def launch(pool, slots, values, to_pool):
    """Copy rows: pool (layers, 2, num_slots, num_kv_heads, head_dim), values with num_tokens in place of num_slots."""
    num_parts, num_slots, row_len = pool.shape[0] * pool.shape[1], pool.shape[2], pool.shape[3] * pool.shape[4]
    move_kernel[triton.cdiv(len(slots), TOKENS), num_parts](
        pool, slots, values, num_slots, len(slots), row_len,
        TO_POOL=to_pool, TOKENS=TOKENS, BLOCK=triton.next_power_of_2(row_len), num_warps=8,
    )  # fmt: skip
