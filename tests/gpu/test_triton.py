"""Triton on the GPU and on the corrected interpreter: the same numbers, bit for bit where one rounding decides.

profile_triton runs the interpreter in a process of its own here, so every comparison also tests that road.
"""

import pytest
import torch
import triton
import triton.language as tl
from triton_elementwise import cast_kernel, elementwise_kernel

from course_lib import profile_triton
from course_lib.triton import launch_count
from course_lib.triton.mode import is_interpreted

N = 65536


@triton.jit
def reduce_kernel(x, largest, total, COLS: tl.constexpr):
    c = tl.arange(0, COLS)
    a = tl.load(x + tl.program_id(0) * COLS + c)
    tl.store(largest + tl.program_id(0), tl.max(a, 0).to(tl.float32))
    tl.store(total + tl.program_id(0), tl.sum(a.to(tl.float32), 0))


def patterns(seed):
    """Every bfloat16 once, in a random order: NaN, infinities, subnormals and zeros of both signs among them."""
    order = torch.randperm(N, generator=torch.Generator().manual_seed(seed))
    return torch.arange(N, dtype=torch.int32).to(torch.int16)[order].view(torch.bfloat16)


def both(kernel, inputs, out, **constants):
    """(what the GPU left in `out`, what the interpreter left there), on the CPU."""
    inputs, blocks = [t.cuda() for t in inputs], N // constants["BLOCK"]
    native, emulated = out.cuda(), out.cuda()
    kernel[(blocks,)](*inputs, native, **constants)
    assert profile_triton(kernel, blocks, *inputs, emulated, **constants).ok
    return native.cpu(), emulated.cpu()


def steps(first, second):
    """Largest distance in units of the last place; infinite when a NaN meets a number. Both zeros are equal."""
    if bool((first.isnan() != second.isnan()).any()):
        return float("inf")
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32}[first.element_size()]
    a, b = (torch.where(t.isnan() | (t == 0), torch.zeros_like(t), t).view(integer).long() for t in (first, second))
    return int((a - b).abs().max())


def test_this_process_compiles():
    assert not is_interpreted()
    before = launch_count()
    x = torch.ones(64, device="cuda")
    cast_kernel[(1,)](x, torch.empty_like(x), BLOCK=64)
    assert launch_count() == before + 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div", "abs", "max", "min", "where"])
def test_one_operation_rounds_as_the_gpu_does(dtype, operation):
    x, y = patterns(0).to(dtype), patterns(1).to(dtype)
    native, emulated = both(elementwise_kernel, (x, y), torch.empty_like(x), BLOCK=4096, OP=operation)
    allowed = 2 if operation == "div" else 0  # a GPU's `/` may be off by two units of float32 before the rounding
    assert steps(native, emulated) <= allowed


@pytest.mark.parametrize("target", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float16])
def test_casts_round_as_the_gpu_does(source, target):
    generator = torch.Generator().manual_seed(2)
    bits = torch.randint(-(2**31), 2**31 - 1, (N // 2,), generator=generator).to(torch.int32).view(torch.float32)
    scale = 2.0 ** torch.randint(-12, 12, (N // 2,), generator=generator)
    x = torch.cat([bits, torch.randn(N // 2, generator=generator) * scale]).to(source)
    native, emulated = both(
        cast_kernel, (x,), torch.empty(N, dtype=torch.uint8).view(torch.uint8).to(target), BLOCK=4096
    )
    assert steps(native.float(), emulated.float()) == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_reductions(dtype):
    x = torch.randn(16, 256, generator=torch.Generator().manual_seed(3)).to(dtype).cuda()
    x[3, 7] = float("nan")
    results = []
    for run in (False, True):
        largest, total = torch.empty(16, device="cuda"), torch.empty(16, device="cuda")
        if run:
            assert profile_triton(reduce_kernel, 16, x, largest, total, COLS=256).ok
        else:
            reduce_kernel[(16,)](x, largest, total, COLS=256)
        results.append((largest.cpu(), total.cpu()))
    assert torch.equal(results[0][0], results[1][0])
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-5, atol=1e-5, equal_nan=True)
