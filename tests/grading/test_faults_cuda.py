"""How a CUDA answer can go wrong on the SIMT machine: each way its own outcome, one sentence, the learner's line."""

import re
import time
from pathlib import Path

import pytest
import torch
from scale_kernel import GOOD, HEAD, N, X, first_fault, scale_run

from course_lib.book.regions import included, solved
from course_lib.grading.exercise import registry, submissions
from course_lib.grading.judge.judge import judge
from course_lib.grading.processes import child_cuda, isolation
from course_lib.grading.processes.protocol import Change, ChildTask

ROOT = Path(__file__).resolve().parents[2]


def run(source, *, schedules=("forward", "reverse"), block=(64, 1, 1), constants=None, **limits):
    case = scale_run((2, 1, 1), block, constants=constants or {}, schedules=schedules)
    return isolation.run_task(
        ChildTask("cuda", source, "scale_kernel", (case,), filename="In [3]", first_line=2, **limits)
    )


def body(*lines):
    """A kernel whose own lines begin at line 4 of the cell."""
    return HEAD + "".join(f"  {line}\n" for line in lines) + "}\n"


def test_the_kernel_that_builds_the_machine_runs():
    child_cuda.build_machine()  # where the machine is built, whatever it raises goes to the first answer


def test_a_right_kernel_has_outputs_ledger_and_no_fault():
    result = run(GOOD)
    assert first_fault(result) is None
    only = result.runs[0]
    assert torch.equal(only.outputs["out"], 2 * X)
    assert torch.equal(only.schedule_outputs["reverse"]["out"], 2 * X)
    assert only.launches == 1 and only.inputs_changed == ()
    assert only.ledger["global_load"]["bytes"] == 4 * N and only.ledger["global_store"]["bytes"] == 4 * N


OUTCOMES = {
    "syntax error": (body("float y = x[i]", "out[i] = y;"), "compile_error", "", (4, 5)),
    "unknown name": (body("out[i] = xx[i];"), "compile_error", "xx", (4,)),
    "wrong name": (GOOD.replace("scale_kernel", "scael_kernel"), "missing_function", "scale_kernel", (None,)),
    "too few parameters": (
        GOOD.replace(", int n", "").replace("i < n", "i < 100"),
        "wrong_signature",
        "argument",
        (None,),
    ),
    "wrong type of a parameter": (GOOD.replace("const float* x", "const int* x"), "wrong_signature", "x", (None,)),
    "endless loop": (body("float y = x[0];", "while (y < 1.0f) { y *= 2.0f; }", "out[i] = y;"), "timeout", "", (5,)),
    "endless loop in one lane": (body("while (i == 7) { out[i] = 1.0f; }"), "timeout", "", (4,)),
    "out-of-bounds write": (body("out[i] = 2.0f * x[min(i, n - 1)];"), "out_of_bounds", "out", (4,)),
    "out-of-bounds read": (body("if (x[i] >= 0.0f && i < n) out[i] = x[i];"), "out_of_bounds", "x", (4,)),
    "far out of bounds": (body("if (i < n) out[i + 1000000000LL] = 1.0f;"), "out_of_bounds", "", (4,)),
    "null pointer": (body("float* p = nullptr;", "if (i < n) p[i] = 1.0f;"), "out_of_bounds", "", (5,)),
    "misaligned": (body("if (i == 0) ((float4*)(out + 1))[0] = make_float4(1, 2, 3, 4);"), "misaligned", "", (4,)),
    "past a local array": (body("float acc[4] = {};", "out[i % n] = acc[i % 5] * n;"), "out_of_bounds", "acc", (5,)),
    "writes its input": (body("if (i < n) ((float*)x)[i] = 1.0f;"), "input_modified", "x is a const", (4,)),
    "race": (body("if (i < n) { out[i] = 2.0f * x[i]; out[0] = x[i]; }"), "race", "", (4,)),
    "divergent barrier": (
        body("if (threadIdx.x < 16) return;", "__syncthreads();", "if (i < n) out[i] = 2.0f * x[i];"),
        None,
        "",
        (4, 5),
    ),
    "failed assertion": (body("assert(n == 3);", "if (i < n) out[i] = 1.0f;"), "exception", "", (4,)),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcome(name):
    source, kind, sentence, lines = OUTCOMES[name]
    started = time.perf_counter()
    result = run(source)
    fault = first_fault(result)
    assert fault is not None
    assert kind in (None, fault.kind), fault
    assert re.search(sentence, fault.message), fault.message
    assert fault.line in lines, fault
    assert time.perf_counter() - started < 15
    assert first_fault(run(GOOD)) is None


def test_endless_recursion_is_named():
    source = "__device__ float deeper(float y, int n) { return n < 0 ? y : deeper(y + 1.0f, n + 1) * 1.5f; }\n" + body(
        "if (i < n) out[i] = deeper(x[i], n);"
    )
    assert first_fault(run(source)).kind == "recursion"


def test_a_faulty_kernel_without_schedules_does_not_take_the_grader_down():
    source = body("out[i * 100000000LL] = 1.0f;")
    result = run(source, schedules=())
    assert first_fault(result).kind in ("out_of_bounds", "exception")


def test_an_endless_loop_without_schedules_is_stopped():
    result = run(body("while (((volatile float*)out)[0] != 1.0f) { }"), schedules=(), wall_seconds=1.5)
    assert first_fault(result).kind == "timeout"


def test_an_endless_loop_that_the_compiler_folds_is_stopped_in_time():
    fault = first_fault(run(body("float y = 0.0f;", "while (y < 1.0f) { y *= 2.0f; }", "out[i] = y;"), wall_seconds=5))
    assert fault.kind == "timeout" and fault.line is not None  # no step is left to count, the time limit names a line


def test_an_empty_endless_loop_is_named_by_its_own_line():
    lines = "out[i] = 0.0f;  // while", "n += 1;", "for (;;) {", "}"
    fault = first_fault(run(body(*lines), wall_seconds=5))
    assert (fault.kind, fault.line) == ("timeout", 6) and fault.message.startswith("line 6: ")


def test_after_a_loop_without_end_no_further_run_is_tried():
    first = scale_run((2, 1, 1), (64, 1, 1), name="small", schedules=("forward",))
    second = scale_run((2, 1, 1), (64, 1, 1), name="large")
    source = body("while (n > 0) { }")
    started = time.perf_counter()
    result = isolation.run_task(ChildTask("cuda", source, "scale_kernel", (second, first), wall_seconds=20))
    assert time.perf_counter() - started < 15
    assert result.fault is None
    assert [run.fault and run.fault.kind for run in result.runs] == [None, "timeout"]


@pytest.mark.parametrize(
    ("write", "change"),
    [
        ("((float*)x)[i] = 7.0f;", Change("x", (0,), 0.0, 7.0, 99)),  # x[7] holds 7 already
        ("if (i == 70) ((float*)x)[i] = 0.5f;", Change("x", (70,), 70.0, 0.5, 1)),
        ("if (i == 0) ((float*)x)[i] = -0.0f;", Change("x", (0,), 0.0, -0.0, 1)),
    ],
)
def test_a_changed_input_is_named_with_its_first_element(write, change):
    found = run(body(f"if (i < n) {{ out[i] = 2.0f * x[i]; {write} }}")).runs[0].inputs_changed
    assert found == (change,) and str(found) == str((change,))  # -0.0 == 0.0


def test_printf_is_kept_to_its_limit():
    result = run(
        body("if (i < n) out[i] = x[i];", 'for (int k = 0; k < 500; ++k) printf("thread %d line %d\\n", i, k);'),
        output_bytes=2000,
    )
    assert result.fault is None and result.runs[0].outputs is not None
    assert "more bytes of output were dropped" in result.printed and len(result.printed) < 2200


def test_constants_choose_the_build():
    source = GOOD.replace("2.0f", "FACTOR")
    assert torch.equal(run(source, constants={"FACTOR": 3}).runs[0].outputs["out"], 3 * X)


def test_a_launch_that_no_gpu_accepts():
    fault = first_fault(run(GOOD, block=(2048, 1, 1)))
    assert fault.kind == "launch_configuration" and "2048" in fault.message


def test_a_finding_in_a_shared_header_points_at_the_answers_own_call():
    """02.4 without its barrier: both accesses are in common/block_reduce.cuh, which the learner did not write."""
    exercise = registry.get("02.4")
    wrong = next(w for w in submissions.load("wrong", "02.4") if w.name.startswith("no barrier"))
    text = submissions.edited(solved(included(exercise.solution, ROOT)), wrong)
    diagnosis, lines = judge(exercise, text, seed=3).diagnosis, text.splitlines()
    assert diagnosis.code == "race" and "= block_max(" in lines[diagnosis.line - 1]
    other = next(number for number, line in enumerate(lines, 1) if "= block_sum(" in line)
    assert f"wrote at line {other} (in common/block_reduce.cuh" in diagnosis.sentence


def test_a_run_that_names_no_schedule_is_checked_too():
    racy = body("if (i < n) { out[i] = 2.0f * x[i]; out[0] = x[i]; }")
    only = run(racy, schedules=()).runs[0]
    assert [finding.kind for finding in only.findings] == ["race"] and only.ledger is not None
    assert not only.schedule_outputs and only.launches == 1
