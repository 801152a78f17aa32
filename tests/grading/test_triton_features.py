"""What Triton has beside loads and stores, in an answer: it runs, or one sentence says what to use instead."""

import re

import numpy as np
import pytest
import torch
from scale_kernel import X, first_fault, scale_run

from course_lib.grading.processes import isolation
from course_lib.grading.processes.protocol import ChildTask

pytest.importorskip("triton")
CASE = scale_run((4, 1, 1), constants={"BLOCK_N": 32, "num_warps": 2}, schedules=("forward", "reverse"))
IMPORTS = "import triton\nimport triton.language as tl\n"
HEAD = """@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK_N: tl.constexpr{more}):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    start = tl.program_id(0) * BLOCK_N
"""
LOAD = "x = tl.load(x_ptr + cols, mask=cols < n)"
STORE = "tl.store(out_ptr + cols, 2 * x, mask=cols < n)"


def run(*lines, before="", more=""):
    text = IMPORTS + before + HEAD.format(more=more) + "".join(f"    {line}\n" for line in lines)
    return isolation.run_task(ChildTask("triton", text, "scale_kernel", (CASE,), filename="In [3]"))


def assert_right(result):
    assert first_fault(result) is None
    for outputs in (result.runs[0].outputs, *result.runs[0].schedule_outputs.values()):
        torch.testing.assert_close(outputs["out"], 2 * X)
    assert result.runs[0].launches == 1


CONFIGS = {
    "launch options": ("[triton.Config({}, num_warps=4), triton.Config({}, num_warps=8)]", ""),
    "its own parameter": ("[triton.Config({'FACTOR': 2}), triton.Config({'FACTOR': 2}, num_stages=3)]", ", FACTOR"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_autotune_runs(name):
    configs, more = CONFIGS[name]
    last = STORE.replace("2 * x", "FACTOR * x") if more else STORE
    result = run(
        LOAD, last, before=f"@triton.autotune(configs={configs}, key=['n'])\n", more=more and f"{more}: tl.constexpr"
    )
    assert_right(result)


def test_every_configuration_of_autotune_is_tried():
    configs = "[triton.Config({'FACTOR': 2}), triton.Config({'FACTOR': 3})]"
    before = f"@triton.autotune(configs={configs}, key=['n'])\n"
    result = run(
        LOAD, "tl.store(out_ptr + cols, FACTOR * x, mask=cols < n)", before=before, more=", FACTOR: tl.constexpr"
    )
    outputs = result.runs[0].schedule_outputs
    assert torch.equal(outputs["forward"]["out"], 2 * X) and torch.equal(outputs["reverse"]["out"], 3 * X)


def test_a_configuration_that_sets_what_the_exercise_passes_is_named():
    before = "@triton.autotune(configs=[triton.Config({'BLOCK_N': 64})], key=['n'])\n"
    fault = first_fault(run(LOAD, STORE, before=before))
    assert fault.kind == "wrong_signature" and "leave BLOCK_N out of them" in fault.message


def test_heuristics_run():
    before = "@triton.heuristics({'EVEN': lambda args: args['n'] % args['BLOCK_N'] == 0})\n"
    assert_right(run("tl.static_assert(not EVEN)", LOAD, STORE, before=before, more=", EVEN: tl.constexpr"))


def test_a_missing_parameter_is_still_named_under_heuristics():
    before = "@triton.heuristics({'EVEN': lambda args: True})\n"
    fault = first_fault(run(LOAD, STORE, before=before, more=", EVEN: tl.constexpr, other"))
    assert fault.kind == "wrong_signature" and "other" in fault.message


@pytest.mark.parametrize(
    "before",
    [
        "from triton.language.extra import libdevice\n",
        "from triton.language.extra.cuda import libdevice\n",
        "import triton.language.extra.libdevice as libdevice\n",
    ],
)
def test_libdevice_is_computed(before):
    assert_right(run(LOAD, "x = libdevice.fma(libdevice.exp2(x * 0), x, libdevice.rint(x * 0))", STORE, before=before))


def test_one_function_of_libdevice_is_computed():
    before = "from triton.language.extra.libdevice import fast_expf, rsqrt\n"
    assert_right(run(LOAD, "x = x * fast_expf(x * 0) * rsqrt(x * 0 + 1)", STORE, before=before))


def test_a_function_of_libdevice_that_is_not_computed_is_named():
    before = "from triton.language.extra import libdevice\n"
    fault = first_fault(run(LOAD, "x = libdevice.erfcinv(x)", STORE, before=before))
    assert fault.kind == "not_verified_here" and fault.message.startswith(
        "line 9: libdevice's __nv_erfcinvf cannot run"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ex2.approx.ftz.f32 $0, $1;", r"\(ex2.approx.ftz.f32\) cannot run here, .* use tl.exp2 instead"),
        ("{ .reg .f32 t; rcp.approx.f32 $0, $1; }", r"\(rcp.approx.f32\) .* use 1.0 / x instead"),
        ("frob.f32 $0, $1;", r"\(frob.f32\) .* use functions of triton.language instead"),
    ],
)
def test_inline_ptx_gets_one_sentence(text, says):
    line = f"x = tl.inline_asm_elementwise('{text}', '=f,f', [x], dtype=tl.float32, is_pure=True, pack=1)"
    fault = first_fault(run(LOAD, line, STORE))
    assert fault.kind == "not_verified_here"
    assert re.search("line 8: tl.inline_asm_elementwise.*" + says, fault.message)


def test_a_function_that_the_interpreter_lacks_is_not_an_answer_that_is_not_written():
    before = "@triton.jit\ndef same(a):\n    return a\n"
    fault = first_fault(run(LOAD, "x = tl.map_elementwise(same, x)", STORE, before=before))
    assert fault.kind == "not_verified_here" and "interpreter lacks a function" in fault.message


def test_a_stub_is_still_an_answer_that_is_not_written():
    text = IMPORTS + "raise NotImplementedError('99.1')\n"
    fault = isolation.run_task(ChildTask("triton", text, "scale_kernel", (CASE,))).fault
    assert "not written yet" in fault.message


BLOCKS = {
    "block pointer": (
        "p = tl.make_block_ptr(x_ptr, (n,), (1,), (start,), (BLOCK_N,), (0,))",
        "o = tl.make_block_ptr(out_ptr, (n,), (1,), (0,), (BLOCK_N,), (0,))",
        "x = tl.load(p, boundary_check=(0,), padding_option='zero')",
        "tl.store(tl.advance(o, (start,)), 2 * x, boundary_check=(0,))",
    ),
    "descriptor": (
        "p = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK_N])",
        "o = tl.make_tensor_descriptor(out_ptr, [n], [1], [BLOCK_N])",
        "o.store([start], 2 * p.load([start]))",
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_run(name):
    assert_right(run(*BLOCKS[name]))


def test_libdevice_agrees_with_torch():
    from course_lib.triton._libdevice import compute

    x = np.linspace(0.05, 0.95, 64, dtype=np.float32)
    names = (
        "exp exp2 log log2 log10 log1p expm1 sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan erf erfc floor ceil"
    )
    for name in names.split():
        expected = getattr(torch, name)(torch.from_numpy(x).double())
        got = torch.from_numpy(np.asarray(compute(f"__nv_{name}f", [x], 1))).double()
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-7)
    assert compute("__nv_roundf", [np.float32([0.5, -2.5, 1.4])], 1).tolist() == [1.0, -3.0, 1.0]
    assert compute("__nv_float_as_int", [np.float32([1.0])], 1).tolist() == [0x3F800000]
