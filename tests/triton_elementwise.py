"""Triton kernels of one operation an element, which the tests of the interpreter and those of the GPU both run."""

import triton
import triton.language as tl


@triton.jit
def elementwise_kernel(x, y, out, BLOCK: tl.constexpr, OP: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + i), tl.load(y + i)
    if OP == "add":
        r = a + b
    elif OP == "sub":
        r = a - b
    elif OP == "mul":
        r = a * b
    elif OP == "div":
        r = a / b
    elif OP == "neg":
        r = -a
    elif OP == "abs":
        r = tl.abs(a)
    elif OP == "max":
        r = tl.maximum(a, b)
    elif OP == "min":
        r = tl.minimum(a, b)
    elif OP == "where":
        r = tl.where(a > b, a, b)
    elif OP == "scalar":
        r = a * 1.4426950408889634 + 1
    elif OP == "full":
        r = a + tl.full([BLOCK], 2.7, tl.bfloat16)
    elif OP == "inplace":
        a += b
        a *= 0.5
        r = a
    tl.store(out + i, r)


@triton.jit
def cast_kernel(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))
