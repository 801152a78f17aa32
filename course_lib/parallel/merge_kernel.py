"""The merge of two attention states as one Triton kernel, in place.

It reads both states and writes one: (2 itemsize_out + itemsize_part) * head_dim + 12 bytes a row, no intermediate.

May import: triton, torch.
"""

import triton
import triton.language as tl

ROWS = 16  # of a program


@triton.jit
def merge_kernel(
    out_ptr,  # (num_heads, seq_len, HEAD_DIM), heads out_head apart, rows HEAD_DIM apart
    lse_ptr,  # (num_heads, seq_len) float32, heads lse_head apart
    part_ptr,  # like out, heads part_head apart
    part_lse_ptr,  # like lse, heads part_lse_head apart
    seq_len,
    out_head,
    lse_head,
    part_head,
    part_lse_head,
    HEAD_DIM: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Grid (ceil(seq_len / ROWS), num_heads)."""
    head = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # (ROWS,)
    mask = rows < seq_len
    cells = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]  # (ROWS, HEAD_DIM)
    lse_a = tl.load(lse_ptr + head * lse_head + rows, mask=mask, other=0.0)
    lse_b = tl.load(part_lse_ptr + head * part_lse_head + rows, mask=mask, other=0.0)
    out_a = tl.load(out_ptr + head * out_head + cells, mask=mask[:, None], other=0.0).to(tl.float32)
    out_b = tl.load(part_ptr + head * part_head + cells, mask=mask[:, None], other=0.0).to(tl.float32)
    m = tl.maximum(lse_a, lse_b)
    shift = tl.where(m == float("-inf"), 0.0, m)  # never -inf minus -inf
    weight_a, weight_b = tl.exp(lse_a - shift), tl.exp(lse_b - shift)
    l = weight_a + weight_b
    l_safe = tl.where(l == 0.0, 1.0, l)  # a row without keys: 0 / 1
    out = out_a * (weight_a / l_safe)[:, None] + out_b * (weight_b / l_safe)[:, None]
    tl.store(out_ptr + head * out_head + cells, out.to(out_ptr.dtype.element_ty), mask=mask[:, None])
    tl.store(lse_ptr + head * lse_head + rows, m + tl.log(l_safe), mask=mask)


def launch(out, lse, part, part_lse):
    """Merge (part, part_lse) into (out, lse); shapes as in `states.merge_into`, batch_size 1 where they are views."""
    out, part = _by_head(out), _by_head(part)
    lse, part_lse = (x.flatten(0, 1) if x.shape[0] > 1 else x[0] for x in (lse, part_lse))
    num_heads, seq_len, head_dim = out.shape
    strides = (out.stride(0), lse.stride(0), part.stride(0), part_lse.stride(0))
    merge_kernel[triton.cdiv(seq_len, ROWS), num_heads](
        out, lse, part, part_lse, seq_len, *strides, HEAD_DIM=head_dim, ROWS=ROWS
    )


def _by_head(x):
    """(batch_size * num_heads, seq_len, head_dim) of rows that follow each other, without a copy."""
    if x.stride()[2:] != (x.shape[3], 1) or (x.shape[0] > 1 and x.stride(0) != x.shape[1] * x.stride(1)):
        raise ValueError(f"the strides {x.stride()} of a state of the shape {tuple(x.shape)}; rows must be contiguous")
    return x.as_strided((x.shape[0] * x.shape[1], *x.shape[2:]), (x.stride(1), x.stride(2), 1))
