"""What the interpreter is spared changes nothing that a kernel sees: shapes, refusals, the arithmetic of integers."""

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def shapes_kernel(out, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLS)
    both = rows[:, None] * COLS + cols[None, :]
    assert both.shape[0] == ROWS and both.shape[1] == COLS and both.numel == ROWS * COLS
    assert both.T.shape[0] == COLS and both.to(tl.float32).shape[1] == COLS
    tl.store(out + both, both.to(tl.float32) + tl.zeros((ROWS, COLS), tl.float32))


@triton.jit
def wrap_kernel(x, out, N: tl.constexpr):
    offsets = tl.arange(0, N)
    value = tl.load(x + offsets)
    tl.store(out + offsets, value + value)
    tl.store(out + N + offsets, value * 3 - 1)


@pytest.mark.parametrize("sizes", [(4, 8), (8, 4), (4, 8), (1, 16), (16, 1)])
def test_shapes_are_those_of_this_launch(sizes):
    out = torch.full((sizes[0] * sizes[1],), -1.0)
    shapes_kernel[(1,)](out, *sizes)
    assert out.tolist() == list(range(sizes[0] * sizes[1]))


def test_a_size_that_is_no_whole_number_is_refused_after_the_same_whole_one():
    assert tl.block_type(tl.float32, [16]).numel == 16
    with pytest.raises(TypeError, match="float"):
        tl.block_type(tl.float32, [16.0])


def test_types_are_compared_and_named_as_before():
    first, second = (tl.block_type(tl.float32, [4, 8]) for _ in range(2))
    assert first == second and first != tl.block_type(tl.float32, [8, 4]) and first != tl.block_type(tl.int32, [4, 8])
    assert first.numel == 32 and first.scalar is tl.float32 and str(first) == str(second)
    pointers = tl.block_type(tl.pointer_type(tl.float32), [4, 8])
    assert pointers.scalar.is_ptr() and pointers != first
    with pytest.raises(TypeError, match="0d"):
        tl.block_type(tl.float32, [])


def test_integers_wrap_as_on_a_gpu():
    x = torch.tensor([2**31 - 1, -(2**31), 7, 2**30], dtype=torch.int32)
    out = torch.zeros(8, dtype=torch.int32)
    wrap_kernel[(1,)](x, out, 4)
    assert torch.equal(out[:4], x + x) and torch.equal(out[4:], x * 3 - 1)
