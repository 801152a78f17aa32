import triton
import triton.language as tl


@triton.jit
def gate_kernel(
    both_ptr,  # (num_rows, 2 * num_cols), rows stride_row apart: gate, then up
    out_ptr,  # (num_rows, num_cols), contiguous
    num_cols, stride_row,
    GELU: tl.constexpr,  # tanh-GELU of the gate in place of SiLU
    BLOCK: tl.constexpr,  # numbers of a program
):  # fmt: skip
    """out = gate function(gate) * up. Grid (num_rows, ceil(num_cols / BLOCK))."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    ### BEGIN SOLUTION
    mask = cols < num_cols
    gate = tl.load(both_ptr + row * stride_row + cols, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(both_ptr + row * stride_row + num_cols + cols, mask=mask, other=0.0).to(tl.float32)
    slope = 1.0
    if GELU:  # 0.5 (1 + tanh(y)) is the sigmoid of 2 y
        slope = 1.5957691216057308 * (1.0 + 0.044715 * gate * gate)
    gated = gate / (1.0 + tl.exp(-slope * gate))
    tl.store(out_ptr + row * num_cols + cols, (gated * up).to(out_ptr.dtype.element_ty), mask=mask)
    ### END SOLUTION
