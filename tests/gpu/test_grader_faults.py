"""The grader on a real GPU: right answers pass, and a kernel that faults or hangs harms nobody but itself."""

import pytest
import torch
from scale_kernel import GOOD, HEAD, X, fault_of, scale_run

from course_lib.grading.processes import isolation
from course_lib.grading.processes.protocol import ChildTask

TRITON = """import triton
import triton.language as tl

@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(out_ptr + cols, 2 * tl.load(x_ptr + cols, mask=cols < n), mask=cols < n)
"""


def run(source, language="cuda", wall_seconds=60.0):
    constants = {"BLOCK_N": 64, "num_warps": 2} if language == "triton" else {}
    case = scale_run((2, 1, 1), (64, 1, 1), constants=constants)
    task = ChildTask(language, source, "scale_kernel", (case,), engine="gpu", wall_seconds=wall_seconds)
    return isolation.run_task(task)


@pytest.fixture(autouse=True)
def _the_next_answer_runs_as_before():
    yield
    after = run(GOOD)
    assert fault_of(after) is None and torch.equal(after.runs[0].outputs["out"], 2 * X)


@pytest.mark.parametrize(("source", "language"), [(GOOD, "cuda"), (TRITON, "triton")], ids=["cuda", "triton"])
def test_a_right_answer_has_outputs(source, language):
    result = run(source, language)
    assert fault_of(result) is None
    assert torch.equal(result.runs[0].outputs["out"], 2 * X) and result.runs[0].launches == 1


def test_an_illegal_address_poisons_only_the_child():
    fault = fault_of(run(HEAD + "  out[i + (1LL << 40)] = 1.0f;\n}\n"))
    assert fault.kind == "out_of_bounds"


def test_an_endless_kernel_is_stopped():
    fault = fault_of(run(HEAD + "  while (((volatile float*)out)[0] != 1.0f) { }\n}\n", wall_seconds=15.0))
    assert fault.kind == "timeout"


def test_a_compile_error_names_the_line():
    fault = fault_of(run(HEAD + "  out[i] = y;\n}\n"))
    assert fault.kind == "compile_error" and fault.line == 3


def test_a_launch_that_the_device_refuses():
    fault = fault_of(
        run(GOOD.replace("int i =", "__shared__ float tile[60000]; int i =").replace("2.0f", "tile[i] * 2.0f"))
    )
    assert fault.kind in ("compile_error", "launch_configuration")
