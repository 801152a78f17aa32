"""A recorded launch says of each tl.dot which types it multiplied, in which it added, and how large it was."""

import inspect
import json

import pytest
import torch
import triton
import triton.language as tl

from course_lib import profile_triton
from course_lib.triton import TritonReport


@triton.jit
def products(a, b, acc):
    return tl.dot(a, b, acc)


@triton.jit
def three_dots_kernel(x, y, z, OPERANDS: tl.constexpr, IN_HALF: tl.constexpr):
    i, j = tl.arange(0, 16), tl.arange(0, 32)
    a = tl.load(x + i[:, None] * 32 + j[None, :]).to(OPERANDS)
    b = tl.load(y + j[:, None] * 16 + i[None, :]).to(OPERANDS)
    acc = tl.zeros((16, 16), tl.float32)
    for _ in range(3):
        acc = products(a, b, acc)
    if IN_HALF:
        acc += tl.dot(a, b, out_dtype=tl.float16)
    tl.store(z + i[:, None] * 16 + i[None, :], acc)


@triton.jit
def square_kernel(x, z, WITH_DOT: tl.constexpr):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    a = tl.load(x + at)
    tl.store(z + at, tl.dot(a, a, input_precision="ieee") if WITH_DOT else a * a)


def three_dots(programs, **constants):
    return profile_triton(
        three_dots_kernel, programs, torch.ones(16, 32), torch.ones(32, 16), torch.zeros(16, 16), **constants
    )


@pytest.mark.parametrize(("dtype", "name"), [(tl.float16, "fp16"), (tl.float32, "fp32"), (tl.bfloat16, "bf16")])
def test_each_dot_says_its_types_and_its_shape(dtype, name):
    report = three_dots(2, OPERANDS=dtype, IN_HALF=False)
    (dot,) = report.dots
    lines, first = inspect.getsourcelines(products.fn)
    assert (dot.lhs, dot.rhs, dot.accumulator, dot.input_precision) == (name, name, "fp32", "tf32")
    assert (dot.shape, dot.count, dot.line) == ((16, 16, 32), 6, first + len(lines) - 1)
    assert json.loads(json.dumps(report.ledger()))["dots"][0]["shape"] == [16, 16, 32]


def test_a_dot_with_a_half_accumulator_is_another_one():
    report = three_dots(1, OPERANDS=tl.float16, IN_HALF=True)
    assert sorted((dot.accumulator, dot.count) for dot in report.dots) == [("fp16", 1), ("fp32", 3)]
    assert TritonReport.from_dict(json.loads(json.dumps(report.to_dict()))).dots == report.dots


def test_a_precision_is_noted_and_a_kernel_without_a_dot_has_none():
    x, z = torch.randn(16, 16), torch.zeros(16, 16)
    assert [dot.input_precision for dot in profile_triton(square_kernel, 1, x, z, WITH_DOT=True).dots] == ["ieee"]
    assert profile_triton(square_kernel, 1, x, z, WITH_DOT=False).dots == []
