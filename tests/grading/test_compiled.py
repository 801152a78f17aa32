"""What the CPU accepts and no GPU does: an answer that is right otherwise fails with the compiler's sentence."""

import pytest

from course_lib.checklist import solution_text
from course_lib.grading.exercise import registry
from course_lib.grading.judge import compiled
from course_lib.grading.judge.judge import judge
from course_lib.grading.judge.prepare import prepare
from course_lib.grading.judge.session import Session
from course_lib.grading.processes import isolation
from course_lib.grading.processes.protocol import ChildResult, Fault, RunResult


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    usual = compiled._cached
    monkeypatch.setattr(compiled, "_cached", lambda task: tmp_path / usual(task).name)
    monkeypatch.setattr(compiled, "_shipped", dict)


def with_line(exercise_id, line):
    """The solution with a line before its first store."""
    exercise = registry.get(exercise_id)
    lines = solution_text(exercise).split("\n")
    at = next(index for index, text in enumerate(lines) if "if (i < num_elements)" in text)
    return exercise, "\n".join([*lines[:at], line, *lines[at:]]), at + 1


LINES = {
    "array of variable length": (
        "    const int count = 4 + (i > (1 << 30)); float kept[count]; kept[0] = 1; if (kept[0] == 2) return;",
        "constant",
    ),
    "lambda of the device": (
        "    auto negative = [] __device__(int a) { return a < 0; }; if (negative(i)) return;",
        "lambda",
    ),
    "function of g++": ("    if (__builtin_parity(i) > 1) return;", "__builtin_parity"),
}


@pytest.mark.parametrize("name", LINES)
def test_what_only_the_compiler_of_the_cpu_takes_fails_with_its_line(name):
    line, says = LINES[name]
    exercise, text, at = with_line("02.1", line)
    verdict = judge(exercise, text, seed=3)
    assert (verdict.state, verdict.diagnosis.code, verdict.diagnosis.line) == ("FAIL", "gpu_compile", at)
    assert verdict.diagnosis.sentence.startswith("Right on the CPU, but it does not compile for a GPU (sm_90): ")
    assert says in verdict.diagnosis.sentence and all(case.passed for case in verdict.cases)
    assert not verdict.hint and not verdict.explanation


def test_what_the_course_ships_is_not_compiled_again(monkeypatch):
    """As long as neither its text nor a compiler changes."""
    exercise, tasks = registry.get("02.1"), []
    options = {"run_task": isolation.run_task, "compile_task": lambda task: tasks.append(task), "seed": 3}
    prepared = prepare(exercise, 3)
    text = solution_text(exercise)
    digest = compiled._digest(compiled._task(Session(exercise, text, isolation.run_task, "elsewhere", 7), prepared))
    monkeypatch.setattr(compiled, "_shipped", lambda: {digest: ""})
    assert judge(exercise, text, **options).passed and not tasks
    monkeypatch.setattr(compiled, "_versions", lambda: ["another"])
    with pytest.raises(AttributeError):  # it is compiled now, by the function above, which gives nothing
        judge(exercise, text, **options)
    assert len(tasks) == 1


def test_the_same_text_is_compiled_once():
    tasks = []

    def count(task):
        tasks.append(task)
        return isolation.run_task(task)

    exercise = registry.get("02.1")
    for _ in range(2):
        assert judge(exercise, solution_text(exercise), run_task=isolation.run_task, compile_task=count, seed=3).passed
    assert len(tasks) == 1 and (tasks[0].engine, tasks[0].arch) == ("compile", "sm_90")


def test_a_wrong_answer_is_not_compiled():
    exercise = registry.get("02.1")
    text = solution_text(exercise).replace("x[i] + y[i]", "x[i] - y[i]")
    verdict = judge(exercise, text, run_task=isolation.run_task, compile_task=pytest.fail, seed=3)
    assert verdict.state == "FAIL" and verdict.diagnosis.code != "gpu_compile"


TRITON = {
    "break": (
        "        m = m_new\n",
        "        m = m_new\n        if start < -1:\n            break\n",
        "Triton compiles no `break`",
    ),
    "integer accumulator": ("    l = 0.0\n", "    l = 0\n", "l"),
}


@pytest.mark.parametrize("name", TRITON)
def test_what_only_tritons_interpreter_takes_fails_with_its_line(name):
    pytest.importorskip("triton")
    old, new, says = TRITON[name]
    exercise = registry.get("03.4")
    text = solution_text(exercise)
    assert old in text
    verdict = judge(exercise, text.replace(old, new, 1), seed=3)
    assert (verdict.state, verdict.diagnosis.code) == ("FAIL", "gpu_compile"), verdict.diagnosis
    assert says in verdict.diagnosis.sentence and verdict.diagnosis.line is not None


def test_a_triton_answer_with_autotune_compiles():
    pytest.importorskip("triton")
    exercise = registry.get("03.4")
    head = "@triton.autotune(configs=[triton.Config({}, num_stages=2)], key=['num_cols'])\n@triton.jit"
    verdict = judge(exercise, solution_text(exercise).replace("@triton.jit", head, 1), seed=3)
    assert verdict.passed, verdict.diagnosis


def test_a_note_of_ptxas_on_a_passing_answer_is_a_remark():
    def noted(task):
        return ChildResult([RunResult(task.runs[0].name, returned="ptxas info : (C7514) Potential Performance Loss")])

    exercise = registry.get("02.1")
    text = solution_text(exercise)
    verdict = judge(exercise, text, run_task=isolation.run_task, compile_task=noted, seed=3)
    assert verdict.passed
    assert [remark for remark in verdict.remarks if "C7514: the wgmmas run one after another" in remark]


def test_the_architecture_is_one_that_the_step_promises():
    assert compiled.architecture(registry.get("02.1")) == "sm_90"
    assert compiled.architecture(registry.get("08.1")) == "sm_90a"
    assert compiled.architecture(registry.get("03.4")) == "sm_90"


@pytest.mark.parametrize("kind", ["not_verified_here", "timeout", "out_of_memory"])
def test_a_compiler_that_is_missing_or_stuck_changes_nothing(kind):
    def failing(task):
        return ChildResult([RunResult(task.runs[0].name)], Fault(kind, "no compiler"))

    exercise = registry.get("02.1")
    verdict = judge(exercise, solution_text(exercise), run_task=isolation.run_task, compile_task=failing, seed=3)
    assert verdict.passed
