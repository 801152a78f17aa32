"""bfloat16 in Triton's interpreter: every operation that an attention kernel uses, bit for bit against torch.

The oracle computes in float32 and rounds once; torch's own rounding is the judge of ours.
"""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton_elementwise import cast_kernel, elementwise_kernel

from course_lib.errors import CourseError
from course_lib.triton import _bf16

N = 4096


@triton.jit
def compare_kernel(x, y, flag, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(flag + i, ((a < b).to(tl.int32) + 2 * (a == b) + 4 * (a >= b) + 8 * (a != b)).to(tl.int8))


def every_value():
    """All 65536 bfloat16 patterns, NaN, infinities and subnormals among them, in a fixed random order."""
    bits = torch.arange(65536, dtype=torch.int32).to(torch.int16)
    return bits[torch.randperm(65536, generator=torch.Generator().manual_seed(0))].view(torch.bfloat16)


def pairs():
    generator = torch.Generator().manual_seed(1)
    special = every_value()[: N // 2], every_value()[N // 2 : N]
    normal = [(torch.randn(N // 2, generator=generator) * scale).bfloat16() for scale in (3, 1)]
    return torch.cat([special[0], normal[0]]), torch.cat([special[1], normal[1]])


def same(got, expected):
    """Equal bit patterns; any NaN equals any NaN."""
    both_nan = got.isnan() & expected.isnan()
    return bool((both_nan | (got.view(torch.int16) == expected.view(torch.int16))).all())


def rounded(values):
    return values.to(torch.bfloat16)


ORACLES = {
    "add": lambda a, b: rounded(a + b),
    "sub": lambda a, b: rounded(a - b),
    "mul": lambda a, b: rounded(a * b),
    "div": lambda a, b: rounded(a / b),
    "neg": lambda a, b: rounded(0 - a),
    "abs": lambda a, b: rounded(a.abs()),
    "max": lambda a, b: rounded(torch.where(b.isnan(), a, torch.where(a.isnan(), b, torch.maximum(a, b)))),
    "min": lambda a, b: rounded(torch.where(b.isnan(), a, torch.where(a.isnan(), b, torch.minimum(a, b)))),
    "where": lambda a, b: rounded(torch.where(a > b, a, b)),
    "scalar": lambda a, b: rounded(rounded(a * rounded(torch.tensor(1.4426950408889634)).float()).float() + 1),
    "full": lambda a, b: rounded(a + rounded(torch.tensor(2.7)).float()),
    "inplace": lambda a, b: rounded(rounded(a + b).float() * 0.5),
}


@pytest.mark.parametrize("operation", ORACLES)
def test_elementwise(operation):
    x, y = pairs()
    out = torch.empty_like(x)
    with np.errstate(all="ignore"):
        elementwise_kernel[(1,)](x, y, out, BLOCK=N, OP=operation)
    a, b = x.float(), y.float()
    if operation in ("max", "min"):  # which zero wins is not defined
        keep = ~((a == 0) & (b == 0))
        assert same(out[keep], ORACLES[operation](a, b)[keep])
    else:
        assert same(out, ORACLES[operation](a, b))


def test_comparisons():
    x, y = pairs()
    flag = torch.empty(N, dtype=torch.int8)
    compare_kernel[(1,)](x, y, flag, BLOCK=N)
    a, b = x.float(), y.float()
    expected = (a < b).int() + 2 * (a == b) + 4 * (a >= b) + 8 * (a != b)
    assert torch.equal(flag.int(), expected.int())


def cast(x, dtype):
    out = torch.empty(x.shape, dtype=dtype)
    with np.errstate(all="ignore"):
        cast_kernel[(x.numel() // 4096,)](x, out, BLOCK=4096)
    return out


def test_widening_is_exact_for_every_pattern():
    x = every_value()
    assert torch.equal(cast(x, torch.float32).nan_to_num(7), x.float().nan_to_num(7))


@pytest.mark.parametrize("source", [torch.float32, torch.float64, torch.float16, torch.int32, torch.int8])
def test_rounding_to_bfloat16(source):
    generator = torch.Generator().manual_seed(2)
    if source.is_floating_point:
        bits = torch.randint(-(2**31), 2**31 - 1, (16384,), generator=generator).to(torch.int32)
        ties = (every_value()[:4096].view(torch.int16).int() << 16) | 0x8000  # halfway between two bfloat16
        carry = torch.tensor([0x3FFFFFFF, 0x40FFFFFF, 0x3F7FFFFF, 0x7F7FFFFF], dtype=torch.int32).repeat(1024)
        x = torch.cat([bits, ties, carry]).view(torch.float32).to(source)
    else:
        x = torch.randint(-128, 127, (4096,), generator=generator, dtype=torch.int32)
        x = (x * (1 if source == torch.int8 else 77773)).to(source)
    assert same(cast(x, torch.bfloat16), x.to(torch.float32).to(torch.bfloat16))


@pytest.mark.parametrize("target", [torch.int32, torch.float16, torch.float64])
def test_from_bfloat16(target):
    x = (torch.randn(4096, generator=torch.Generator().manual_seed(3)) * 100).bfloat16()
    assert torch.equal(cast(x, target), x.float().to(target))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float16])
def test_fp8_rounds_to_nearest_even_and_saturates(name, source):
    dtype, largest = getattr(torch, name), {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}[name]
    x = (torch.randn(4096, generator=torch.Generator().manual_seed(4)) * 30).to(source)
    x[:4] = torch.tensor([1e6, -1e6, 1.9999, 0.0]).to(source)
    got = cast(x, dtype)
    assert torch.equal(got.float(), x.float().clamp(-largest, largest).to(dtype).float())
    assert torch.equal(cast(got, torch.float32), got.float())


@triton.jit
def first_of(a, b):
    return tl.maximum(a, b)


@triton.jit
def reduce_kernel(x, out, index, ROWS: tl.constexpr, COLS: tl.constexpr, OP: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, COLS)
    a = tl.load(x + r[:, None] * COLS + c[None, :])
    if OP == "sum":
        v = tl.sum(a, axis=1)
    elif OP == "max":
        v = tl.max(a, axis=1)
    elif OP == "min":
        v = tl.min(a, axis=1)
    elif OP == "custom":
        v = tl.reduce(a, 1, first_of)
    elif OP == "elementwise_max":
        v = tl.reduce(a, 1, tl.standard._elementwise_max)
    tl.store(out + r, v.to(tl.float32))
    tl.store(index + r, tl.argmax(a, axis=1))


@pytest.mark.parametrize("operation", ["sum", "max", "min", "custom", "elementwise_max"])
def test_reductions(operation):
    rows, cols = (4, 16) if operation == "custom" else (16, 64)
    x = torch.randn(rows, cols, generator=torch.Generator().manual_seed(5)).bfloat16()
    out, index = torch.empty(rows), torch.empty(rows, dtype=torch.int32)
    reduce_kernel[(1,)](x, out, index, ROWS=rows, COLS=cols, OP=operation)
    wide = x.float()
    if operation == "sum":
        assert torch.equal(out, wide.sum(1).bfloat16().float())
    else:
        assert torch.equal(out, wide.min(1).values if operation == "min" else wide.max(1).values)
    assert torch.equal(index.long(), wide.argmax(1))


@triton.jit
def scan_kernel(x, out, N_: tl.constexpr):
    i = tl.arange(0, N_)
    tl.store(out + i, tl.cumsum(tl.load(x + i)).to(tl.float32))


def test_cumulative_sum():
    x = torch.randint(-8, 8, (64,), generator=torch.Generator().manual_seed(6)).bfloat16()
    out = torch.empty(64)
    scan_kernel[(1,)](x, out, N_=64)
    assert torch.equal(out, x.float().cumsum(0))


@triton.jit
def dot_kernel(a, b, out, M: tl.constexpr):
    i = tl.arange(0, M)
    at = i[:, None] * M + i[None, :]
    acc = tl.full([M, M], 0.5, tl.float32)
    tl.store(out + at, tl.dot(tl.load(a + at), tl.trans(tl.load(b + at)), acc))


def test_dot():
    generator = torch.Generator().manual_seed(7)
    a, b = (torch.randn(32, 32, generator=generator).bfloat16() for _ in range(2))
    out = torch.empty(32, 32)
    dot_kernel[(1,)](a, b, out, M=32)
    assert torch.allclose(out, a.float() @ b.float().T + 0.5, rtol=1e-6, atol=1e-5)


@triton.jit
def softmax_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    a = a.to(tl.float32)
    e = tl.exp(a - tl.max(a, 0))
    tl.store(out + tl.program_id(0) * n + i, (e / tl.sum(e, 0)).to(tl.bfloat16), mask=i < n)


def test_softmax_matches_torch_to_the_last_bit_but_one():
    x = torch.randn(5, 53, generator=torch.Generator().manual_seed(8)).bfloat16()
    out = torch.empty_like(x)
    softmax_kernel[(5,)](x, out, 53, BLOCK=64)
    steps = (out.view(torch.int16).int() - x.float().softmax(-1).bfloat16().view(torch.int16).int()).abs()
    assert steps.max() <= 1


@triton.jit
def refused_kernel(x, out, BLOCK: tl.constexpr, OP: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    if OP == "exp":
        a = tl.exp(a)
    elif OP == "exp2":
        a = tl.exp2(a)
    elif OP == "log":
        a = tl.log(a)
    elif OP == "atomic":
        tl.atomic_add(out + i, a)
    tl.store(out + i, a)


@pytest.mark.parametrize("operation", ["exp", "exp2", "log", "atomic"])
def test_what_the_gpu_or_the_course_refuses(operation):
    """exp, exp2, log take float32 only, on both engines; an atomic on bfloat16 is refused by the course."""
    x = torch.ones(16, dtype=torch.bfloat16)
    with pytest.raises(Exception, match="(?i)expected dtype|float32"):
        refused_kernel[(1,)](x, x.clone(), BLOCK=16, OP=operation)


def test_an_unlisted_operation_is_refused(monkeypatch):
    interpreter = triton.runtime.interpreter
    handle = interpreter.TensorHandle(np.ones(4, np.uint16), tl.bfloat16)
    plain = interpreter.TensorHandle(np.ones(4, np.float32), tl.float32)
    wrapped = _bf16._refused(lambda self, x: "went through", "new_operation", interpreter)
    assert wrapped(None, plain) == "went through"
    with pytest.raises(CourseError, match="new_operation on bfloat16"):
        wrapped(None, handle)
