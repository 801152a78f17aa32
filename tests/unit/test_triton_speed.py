"""What the interpreter is spared changes nothing that a kernel sees: shapes, refusals, the arithmetic of integers."""

import itertools
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from course_lib.triton import ledger, races, space

ROOT = Path(__file__).resolve().parents[2]


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


SHAPES = (None, [4], [1], [4, 1], [1, 8], [4, 8], [8, 4])
NUMBERS = (0, 3, -1, 2**31, 2**40, True, 0.5, -2.0, 1e-45, float("inf"))


def _operands():
    interpreter = sys.modules["triton.runtime.interpreter"]
    others = (tl.float16, tl.bfloat16, tl.int1, tl.int64, tl.uint32, tl.pointer_type(tl.float32))
    for kind in (tl.float32, tl.int32, *others):
        for shape in SHAPES[:2] if kind in others else SHAPES:
            data = np.ones(shape or [1], interpreter._get_np_dtype(kind))
            yield tl.tensor(interpreter.TensorHandle(data, kind), kind if shape is None else tl.block_type(kind, shape))
    yield from NUMBERS


def _met(semantic, lhs, rhs, options):
    """What two operands become, or the sentence of the refusal."""
    try:
        met = semantic.binary_op_type_checking_impl(lhs, rhs, *options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return [
        (str(one.type), [int(n) for n in one.shape], str(one.handle.dtype), one.handle.data.tolist()) for one in met
    ]


@pytest.mark.parametrize("options", [(), (True, True), (True, False), (False, False, True, True)])
def test_operands_meet_as_in_the_language(options):
    interpreter = sys.modules["triton.runtime.interpreter"]
    own, quick = tl.semantic.TritonSemantic(interpreter.interpreter_builder), interpreter.interpreter_semantic
    scope = interpreter._patch_lang(shapes_kernel.fn)
    try:
        for lhs, rhs in itertools.product(_operands(), _operands()):
            assert _met(quick, lhs, rhs, options) == _met(own, lhs, rhs, options), (lhs, rhs)
    finally:
        scope.restore()


def test_a_builtin_that_an_exercise_replaces_is_the_replaced_one(monkeypatch):
    out = torch.zeros(32)
    shapes_kernel[(1,)](out, 4, 8)

    def refuse(*_args, **_kwargs):
        raise ValueError("off limits")

    monkeypatch.setattr(tl, "arange", refuse)
    with pytest.raises(Exception, match="off limits"):
        shapes_kernel[(1,)](out, 4, 8)
    monkeypatch.undo()
    shapes_kernel[(1,)](out, 4, 8)


def test_names_first_met_inside_a_launch_are_replaced_in_the_next_one():
    interpreter = sys.modules["triton.runtime.interpreter"]
    package = types.ModuleType("package")
    package.same = tl.core.builtin(lambda x, _semantic=None: x)
    scopes = [interpreter._LangPatchScope() for _ in range(3)]
    interpreter._patch_builtin(package, None, scopes[0])
    package.more = 1  # as the language gets names that a launch restores
    interpreter._patch_builtin(package, None, scopes[1])
    scopes[1].restore()
    scopes[0].restore()
    with pytest.raises(ValueError, match="_semantic"):
        package.same(3)
    interpreter._patch_builtin(package, None, scopes[2])
    assert package.same(3) == 3


@triton.jit
def shift_kernel(x, out, n, shift, NARROW: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + (offsets + shift) % n)
    if NARROW:
        value += tl.load(x.to(tl.pointer_type(tl.int8)) + offsets)
    value += tl.load(x + offsets, mask=offsets < n, other=0)
    tl.store(x + offsets, value, mask=offsets < n)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n), mask=offsets < n)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("shift", [0, 3, 8])
@pytest.mark.parametrize("held", [0, 20, 1 << 19])
def test_postponed_reads_are_found_to_race_as_those_recorded_at_once(monkeypatch, narrow, shift, held):
    def reported():
        x, out = torch.arange(40, dtype=torch.int32), torch.zeros(40, dtype=torch.int32)
        with ledger(outputs=("out",), schedule="random", seed=shift) as report:
            shift_kernel[(5,)](x, out, 37, shift, narrow, 8)
        return report.findings, report.remarks, report.lines, report.ledger(), x.tolist(), out.tolist()

    monkeypatch.setattr(races, "_MAX_READS_HELD", held)
    postponed = reported()
    monkeypatch.setattr(space.Space, "unwritten", lambda *_args: None)
    assert postponed == reported()
    assert any(finding.kind == "race" for finding in postponed[0])


KEPT = """
import torch, course_lib, triton, triton.language as tl
from course_lib.triton import patching

@triton.jit
def double_kernel(x, N: tl.constexpr):
    offsets = tl.arange(0, N)
    tl.store(x + offsets, tl.load(x + offsets) + tl.max(tl.load(x + offsets), 0))

def refused():
    try:
        tl.arange(0, 4)
    except ValueError:
        return True
    return False

x = torch.ones(4)
seen = [refused()]
double_kernel[(1,)](x, 4)
seen.append(refused())
patching.keep()
for _ in range(2):
    double_kernel[(1,)](x, 4)
    seen.append(refused())
assert seen == [True, True, False, False] and x.tolist() == [8.0] * 4, (seen, x)
"""


def test_a_process_that_only_launches_keeps_the_language_patched(tmp_path):
    (tmp_path / "kept.py").write_text(KEPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COURSE_ENGINE": "cpu"}
    subprocess.run([sys.executable, tmp_path / "kept.py"], check=True, env=environment)
