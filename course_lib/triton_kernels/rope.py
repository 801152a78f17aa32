"""Triton twin of kernels_cu/rope/: BLOCK_H heads of one token a program.

May import: triton.
"""

import triton
import triton.language as tl


@triton.jit
def _turn(
    x_ptr, out_ptr, stride_x_head, stride_out_head, heads, num_heads, cosines, sines, head_dim, rotary_dim,
    INTERLEAVED: tl.constexpr, IN_PLACE: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_PAIRS: tl.constexpr, BLOCK_REST: tl.constexpr,
):  # fmt: skip
    """Turn the pairs of heads (BLOCK_H, 1) by cosines and sines (1, BLOCK_PAIRS); copy what is beyond rotary_dim."""
    element = out_ptr.dtype.element_ty
    x_ptr += heads * stride_x_head
    out_ptr += heads * stride_out_head
    if INTERLEAVED:  # neighbours are read and written together, and parted in registers
        cols = tl.arange(0, 2 * BLOCK_PAIRS)[None, :]
        mask = (heads < num_heads) & (cols < rotary_dim)
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)  # (BLOCK_H, 2 * BLOCK_PAIRS)
        a, b = tl.split(tl.reshape(x, (BLOCK_H, BLOCK_PAIRS, 2)))  # (BLOCK_H, BLOCK_PAIRS)
        pairs = tl.join(a * cosines - b * sines, b * cosines + a * sines)
        tl.store(out_ptr + cols, tl.reshape(pairs, (BLOCK_H, 2 * BLOCK_PAIRS)).to(element), mask=mask)
    else:
        half = rotary_dim // 2
        pair = tl.arange(0, BLOCK_PAIRS)[None, :]
        mask = (heads < num_heads) & (pair < half)
        a = tl.load(x_ptr + pair, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(x_ptr + half + pair, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + pair, (a * cosines - b * sines).to(element), mask=mask)
        tl.store(out_ptr + half + pair, (b * cosines + a * sines).to(element), mask=mask)
    if not IN_PLACE:
        rest = rotary_dim + tl.arange(0, BLOCK_REST)[None, :]
        kept = (heads < num_heads) & (rest < head_dim)
        tl.store(out_ptr + rest, tl.load(x_ptr + rest, mask=kept), mask=kept)


@triton.jit
def rope_kernel(
    q_ptr, k_ptr,  # (num_tokens, num_heads or num_kv_heads, head_dim), any strides of tokens and heads
    positions_ptr,  # (num_tokens,) int32 or int64
    cos_sin_ptr,  # (max_positions, rotary_dim) float: cosines, then sines
    q_out_ptr, k_out_ptr,  # q and k themselves, or others like them
    num_heads, num_kv_heads, head_dim, rotary_dim,
    stride_q_token, stride_q_head, stride_k_token, stride_k_head,
    stride_q_out_token, stride_q_out_head, stride_k_out_token, stride_k_out_head,
    direction,  # 1.0 turns, -1.0 turns back
    INTERLEAVED: tl.constexpr, IN_PLACE: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_PAIRS: tl.constexpr, BLOCK_REST: tl.constexpr,  # tiles: heads, pairs, copied numbers
):  # fmt: skip
    """01_rope. Grid (num_tokens, ceil(larger number of heads / BLOCK_H))."""
    token = tl.program_id(0).to(tl.int64)
    heads = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)[:, None]
    pair = tl.arange(0, BLOCK_PAIRS)[None, :]
    half = rotary_dim // 2
    pairs = pair < half
    angles = cos_sin_ptr + tl.load(positions_ptr + token).to(tl.int64) * rotary_dim
    cosines = tl.load(angles + pair, mask=pairs, other=0.0)
    sines = tl.load(angles + half + pair, mask=pairs, other=0.0) * direction
    _turn(
        q_ptr + token * stride_q_token, q_out_ptr + token * stride_q_out_token, stride_q_head, stride_q_out_head, heads,
        num_heads, cosines, sines, head_dim, rotary_dim, INTERLEAVED, IN_PLACE, BLOCK_H, BLOCK_PAIRS, BLOCK_REST,
    )  # fmt: skip
    _turn(
        k_ptr + token * stride_k_token, k_out_ptr + token * stride_k_out_token, stride_k_head, stride_k_out_head, heads,
        num_kv_heads, cosines, sines, head_dim, rotary_dim, INTERLEAVED, IN_PLACE, BLOCK_H, BLOCK_PAIRS, BLOCK_REST,
    )  # fmt: skip
