"""Triton twins of kernels_cu/activation/: a tile of BLOCK_M rows and BLOCK_N columns a program.

May import: triton.
"""

import triton
import triton.language as tl


@triton.jit
def _tile(num_rows, num_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """(rows (BLOCK_M, 1) int64, cols (1, BLOCK_N), mask) of this program."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    return rows, cols, (rows < num_rows) & (cols < num_cols)


@triton.jit
def _gate_sigmoid(x, GATE: tl.constexpr):
    """s with GATE(x) = x * s."""
    if GATE == "silu":
        return tl.sigmoid(x)
    return tl.sigmoid(1.5957691216057308 * x * (1.0 + 0.044715 * x * x))  # 2 * sqrt(2 / pi)


@triton.jit
def _gate_slope(x, GATE: tl.constexpr):
    """The derivative of GATE at x."""
    s = _gate_sigmoid(x, GATE)
    if GATE == "silu":
        return s * (1.0 + x * (1.0 - s))
    return s + s * (1.0 - s) * 1.5957691216057308 * x * (1.0 + 3.0 * 0.044715 * x * x)


@triton.jit
def gelu_tanh_kernel(
    x_ptr, out_ptr,  # (num_rows, num_cols), rows stride_x, stride_out apart; out may be x
    num_rows, num_cols, stride_x, stride_out,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """01_gelu_tanh. Grid (row tiles, column tiles)."""
    rows, cols, mask = _tile(num_rows, num_cols, BLOCK_M, BLOCK_N)
    x = tl.load(x_ptr + rows * stride_x + cols, mask=mask, other=0.0).to(tl.float32)
    out = x * _gate_sigmoid(x, "gelu_tanh")
    tl.store(out_ptr + rows * stride_out + cols, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def swiglu_kernel(
    gate_ptr, up_ptr, out_ptr,  # (num_rows, num_cols), rows of any stride each; out may be gate or up
    num_rows, num_cols, stride_gate, stride_up, stride_out,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GATE: tl.constexpr,  # GATE: "silu" or "gelu_tanh"
):  # fmt: skip
    """02_swiglu. Grid (row tiles, column tiles)."""
    rows, cols, mask = _tile(num_rows, num_cols, BLOCK_M, BLOCK_N)
    gate = tl.load(gate_ptr + rows * stride_gate + cols, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + rows * stride_up + cols, mask=mask, other=0.0).to(tl.float32)
    out = gate * _gate_sigmoid(gate, GATE) * up
    tl.store(out_ptr + rows * stride_out + cols, out.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def gelu_tanh_backward_kernel(
    d_out_ptr, x_ptr, dx_ptr,  # (num_rows, num_cols), rows of any stride each; dx may be d_out or x
    num_rows, num_cols, stride_d_out, stride_x, stride_dx,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """03_gelu_tanh_backward. Grid (row tiles, column tiles)."""
    rows, cols, mask = _tile(num_rows, num_cols, BLOCK_M, BLOCK_N)
    d_out = tl.load(d_out_ptr + rows * stride_d_out + cols, mask=mask, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + rows * stride_x + cols, mask=mask, other=0.0).to(tl.float32)
    dx = d_out * _gate_slope(x, "gelu_tanh")
    tl.store(dx_ptr + rows * stride_dx + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def swiglu_backward_kernel(
    d_out_ptr, gate_ptr, up_ptr, d_gate_ptr, d_up_ptr,  # (num_rows, num_cols), rows of any stride each
    num_rows, num_cols, stride_d_out, stride_gate, stride_up, stride_d_gate, stride_d_up,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GATE: tl.constexpr,
):  # fmt: skip
    """04_swiglu_backward; d_gate may be gate, d_up may be up. Grid (row tiles, column tiles)."""
    rows, cols, mask = _tile(num_rows, num_cols, BLOCK_M, BLOCK_N)
    d_out = tl.load(d_out_ptr + rows * stride_d_out + cols, mask=mask, other=0.0).to(tl.float32)
    gate = tl.load(gate_ptr + rows * stride_gate + cols, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + rows * stride_up + cols, mask=mask, other=0.0).to(tl.float32)
    d_gate = d_out * up * _gate_slope(gate, GATE)
    d_up = d_out * gate * _gate_sigmoid(gate, GATE)
    tl.store(d_gate_ptr + rows * stride_d_gate + cols, d_gate.to(d_gate_ptr.dtype.element_ty), mask=mask)
    tl.store(d_up_ptr + rows * stride_d_up + cols, d_up.to(d_up_ptr.dtype.element_ty), mask=mask)
