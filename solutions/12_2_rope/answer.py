import triton
import triton.language as tl


@triton.jit
def rope_kernel(
    x_ptr,  # float: token t, head h begins at t * stride_token + h * stride_head; turned in place
    positions_ptr,  # (num_tokens,) int32, in any order
    stride_token, stride_head, head_dim, rotary_dim, log2_base,
    INTERLEAVED: tl.constexpr,  # pair i is (2 i, 2 i + 1), else (i, i + rotary_dim / 2)
    BLOCK_PAIRS: tl.constexpr,  # a power of two, at least rotary_dim / 2
):  # fmt: skip
    """RoPE. Grid (num_heads, num_tokens): a program has one head of one token."""
    head, token = tl.program_id(0), tl.program_id(1)
    pair = tl.arange(0, BLOCK_PAIRS)
    ### BEGIN SOLUTION
    half = rotary_dim // 2
    mask = pair < half
    position = tl.load(positions_ptr + token).to(tl.float32)
    angle = position * tl.exp2(-log2_base * (2.0 * pair) / rotary_dim)  # position * base^(-2 i / rotary_dim)
    cosine, sine = tl.cos(angle), tl.sin(angle)
    row_ptr = x_ptr + token * stride_token + head * stride_head
    first = row_ptr + (2 * pair if INTERLEAVED else pair)
    second = row_ptr + (2 * pair + 1 if INTERLEAVED else pair + half)
    a = tl.load(first, mask=mask, other=0.0)
    b = tl.load(second, mask=mask, other=0.0)
    tl.store(first, a * cosine - b * sine, mask=mask)
    tl.store(second, b * cosine + a * sine, mask=mask)
    ### END SOLUTION
