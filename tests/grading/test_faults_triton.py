"""How a Triton answer can go wrong on the interpreter: each way its own outcome, one sentence, the learner's line."""

import re
from dataclasses import replace

import pytest
import torch
from scale_kernel import N, X, first_fault, scale_run

from course_lib.grading.processes import isolation
from course_lib.grading.processes.protocol import Change, ChildTask

pytest.importorskip("triton")
CASE = scale_run((4, 1, 1), constants={"BLOCK_N": 32}, schedules=("forward", "reverse"))
HEAD = """import triton
import triton.language as tl

@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
"""


def run(*lines, source=None, **limits):
    text = source or HEAD + "".join(f"    {line}\n" for line in lines)
    return isolation.run_task(ChildTask("triton", text, "scale_kernel", (CASE,), filename="In [3]", **limits))


GOOD = (
    "x = tl.load(x_ptr + cols, mask=cols < n)",
    "tl.store(out_ptr + cols, 2 * x, mask=cols < n)",
)


def test_a_right_kernel_has_outputs_ledger_and_no_fault():
    result = run(*GOOD)
    assert first_fault(result) is None
    only = result.runs[0]
    assert torch.equal(only.outputs["out"], 2 * X) and torch.equal(only.schedule_outputs["reverse"]["out"], 2 * X)
    assert only.launches == 1
    assert only.ledger["global_load"]["bytes"] == 4 * N


def test_what_every_launch_needs_is_ready_before_the_answer_begins():
    asks = "from triton.runtime.interpreter import InterpretedFunction\nprint(len(InterpretedFunction.rewritten_fn))\n"
    result = run(source=asks + HEAD + "".join(f"    {line}\n" for line in GOOD))
    assert first_fault(result) is None
    assert int(result.printed) > 20, "functions of triton.language, tl.max among them"


def test_what_numpy_says_of_the_interpreter_is_not_printed_by_the_answer():
    noisy = "x = tl.load(x_ptr + cols, mask=cols < n, other=0.0)", "y = tl.exp(x * 1000.0)", GOOD[1]
    result = run('print("mine")', *noisy)
    assert first_fault(result) is None
    assert "mine" in result.printed and "Warning" not in result.printed


OUTCOMES = {
    "syntax error": (("x = tl.load(x_ptr + cols",), "compile_error", "never closed", (7,)),
    "out-of-bounds read": (("x = tl.load(x_ptr + cols)", GOOD[1]), "out_of_bounds", "x", (7,)),
    "out-of-bounds write": ((GOOD[0], "tl.store(out_ptr + cols, x)"), "out_of_bounds", "out", (8,)),
    "race": ((GOOD[0], "tl.store(out_ptr + cols % 32, x)"), "race", "", (8,)),
    "unknown name": (("x = tl.laod(x_ptr + cols)",), "exception", "line 7", (7,)),
    "wrong shapes": (("tl.store(out_ptr + cols, tl.arange(0, 16))",), "exception", "line 7", (7,)),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcome(name):
    lines, kind, sentence, numbers = OUTCOMES[name]
    fault = first_fault(run(*lines))
    assert fault is not None and fault.kind == kind, fault
    assert re.search(sentence, fault.message), fault.message
    assert fault.line in numbers, fault
    assert first_fault(run(*GOOD)) is None


def test_an_endless_loop_is_stopped_and_its_line_named():
    fault = first_fault(run("while True:", "    cols += 1", wall_seconds=3))
    assert fault.kind == "timeout" and fault.line in (7, 8)


def test_a_plain_function_is_no_kernel():
    source = "import torch\ndef scale_kernel(x_ptr, out_ptr, n, BLOCK_N): out_ptr.copy_(2 * x_ptr)\n"
    fault = first_fault(run(source=source))
    assert fault.kind == "no_launch" and "@triton.jit" in fault.message


def test_a_wrapper_that_calls_torch_launches_nothing():
    source = (
        "import torch\n"
        "class Wrapper:\n"
        "    @staticmethod\n"
        "    def fn(x_ptr, out_ptr, n, BLOCK_N): pass\n"
        "    def __getitem__(self, grid):\n"
        "        return lambda x, out, n, BLOCK_N: out.copy_(2 * x)\n"
        "scale_kernel = Wrapper()\n"
    )
    assert first_fault(run(source=source)).kind == "no_launch"


def test_an_object_that_only_looks_like_a_kernel_is_none():
    """It could launch anything and compute the result with torch."""
    lookalike = (
        HEAD.replace("def scale_kernel", "def other_kernel") + "    tl.store(out_ptr + cols, 0.0, mask=cols < n)\n"
    )
    lookalike += (
        "class Lookalike:\n    fn = other_kernel\n    def __getitem__(self, grid):\n"
        "        def launch(x, out, n, BLOCK_N):\n            other_kernel[grid](x, out, n, BLOCK_N)\n"
        "            out.copy_(2 * x)\n        return launch\nscale_kernel = Lookalike()\n"
    )
    fault = first_fault(run(source=lookalike))
    assert fault.kind == "no_launch" and "is a plain Lookalike" in fault.message and "@triton.jit" in fault.message


def test_a_missing_parameter_is_a_wrong_signature():
    fault = first_fault(run(source=HEAD.replace(", n,", ",") + f"    {GOOD[0]}\n"))
    assert fault.kind == "wrong_signature" and "scale_kernel" in fault.message


def test_a_changed_input_is_named_with_its_first_element():
    found = run(GOOD[0], "tl.store(x_ptr + cols, 0 * x, mask=cols < n)", GOOD[1]).runs[0].inputs_changed
    assert found == (Change("x", (1,), 1.0, 0.0, 99),)  # x[0] is 0 already
    found = run(GOOD[0], "tl.store(x_ptr + cols, x * -1.0, mask=(cols < n) & (x == 0))", GOOD[1]).runs[0].inputs_changed
    assert str(found) == str((Change("x", (0,), 0.0, -0.0, 1),))


def test_constants_and_helpers_of_the_text_are_found():
    source = HEAD.replace(
        "@triton.jit",
        "FACTOR: tl.constexpr = tl.constexpr(2)\n\n@triton.jit\ndef twice(x):\n    return x * FACTOR\n\n@triton.jit",
        1,
    )
    result = run(source=source + f"    {GOOD[0]}\n    tl.store(out_ptr + cols, twice(x), mask=cols < n)\n")
    assert first_fault(result) is None and torch.equal(result.runs[0].outputs["out"], 2 * X)


@pytest.mark.parametrize(
    ("lines", "repeated"),
    [
        (GOOD, False),
        ((GOOD[0], "tl.store(out_ptr + cols, 2 * x, mask=cols < n - 1)"), True),  # one element keeps its poison
        ((GOOD[0], 'tl.store(out_ptr + cols, x + float("nan"), mask=cols < n)'), True),  # looks like poison
        (("x = tl.load(x_ptr + cols)", GOOD[1]), False),  # out of bounds: seen in the first run
        (("x = tl.load(out_ptr + cols, mask=cols < n)", GOOD[1]), True),  # reads poison, writes NaN
    ],
)
def test_a_run_is_repeated_with_other_poison_only_where_that_can_tell_more(lines, repeated):
    again = replace(CASE, name="case 0 again", poison=-2048.0, schedules=(), repeats="case 0")
    text = HEAD + "".join(f"    {line}\n" for line in lines)
    first, second = isolation.run_task(ChildTask("triton", text, "scale_kernel", (CASE, again))).runs
    assert first.outputs is not None and (second.outputs is not None) == repeated


def test_reading_what_stands_in_the_output_needs_no_second_run():
    result = run(
        "x = tl.load(out_ptr + cols, mask=cols < n)",
        "tl.store(out_ptr + cols, 0 * tl.where(x == x, x, 1.0), mask=cols < n)",
    )
    assert {finding.kind for finding in result.runs[0].findings} == {"uninitialised_read"}
    assert not result.runs[0].outputs["out"].isnan().any()
