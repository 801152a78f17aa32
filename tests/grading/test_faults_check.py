"""The whole way, from a cell to the verdict: what a notebook does to itself never reaches the judge."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

import course_lib
from course_lib.errors import CheckFailed, CourseError
from course_lib.grading.judge import client
from course_lib.grading.records import work

GOOD = """
import torch

def merge(m_a, l_a, m_b, l_b):
    m = torch.maximum(m_a, m_b)
    base = torch.where(torch.isinf(m), torch.zeros_like(m), m)
    return m, l_a * torch.exp(m_a - base) + l_b * torch.exp(m_b - base)
"""
WRONG = GOOD.replace("l_b * torch.exp(m_b - base)", "l_b")


@pytest.fixture(autouse=True)
def _own_work_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path / "work"))


def check(text, **options):
    return course_lib.check("03.1", text, **options)


def test_right_and_wrong_and_not_started():
    assert check(GOOD).state == "PASS"
    wrong = check(WRONG)
    assert wrong.state == "FAIL" and wrong.first_wrong.output == "l" and wrong.diagnosis is not None
    assert check(GOOD.replace("    m =", "    raise NotImplementedError('03.1')\n    m =")).state == "NOT STARTED"


def test_an_answer_runs_where_no_judge_was_ever_loaded():
    own = "    import sys\n    assert 'course_lib.grading.processes.isolation' in sys.modules\n"
    assert check(GOOD.replace("    m =", own + "    m =")).passed
    for module in ("judge.judge", "exercise.registry", "exercise.spec"):
        look = f"    import sys\n    assert 'course_lib.grading.{module}' not in sys.modules\n"
        look += "    assert not any(name.startswith('exercise_') for name in sys.modules)\n"
        assert check(GOOD.replace("    m =", look + "    m =")).passed


def test_a_function_is_taken_with_its_helpers_and_constants():
    zero = 0.0

    def finite(m):
        return torch.where(torch.isinf(m), torch.full_like(m, zero), m)

    def merge(m_a, l_a, m_b, l_b):
        m = torch.maximum(m_a, m_b)
        return m, l_a * torch.exp(m_a - finite(m)) + l_b * torch.exp(m_b - finite(m))

    assert course_lib.check("03.1", merge).state == "PASS"


def test_patches_in_the_notebook_do_not_change_the_verdict(monkeypatch):
    from course_lib.grading.judge import comparison, judge

    yes = lambda *_, **__: True  # noqa: E731
    monkeypatch.setattr(torch, "allclose", yes)
    monkeypatch.setattr(torch, "equal", yes)
    monkeypatch.setattr(comparison, "compare", yes)
    monkeypatch.setattr(comparison, "within", yes)
    monkeypatch.setattr(judge, "judge", lambda *_, **__: "PASS")
    monkeypatch.setattr(torch.Tensor, "__sub__", lambda self, other: torch.zeros(1))
    assert check(WRONG).state == "FAIL"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("import os; os._exit(0)", "exited"),
        ("import sys; sys.exit()", "exited"),
        ("import os; os.kill(os.getpid(), 9)", "killed"),
        ("return merge(m_a, l_a, m_b, l_b)", "recursion"),
        ("return torch.zeros(25 << 30)", "out_of_memory"),
        ("return m_a", "wrong_return"),
    ],
)
def test_a_fault_becomes_a_verdict_and_the_next_check_works(line, code):
    verdict = check(f"import torch\ndef merge(m_a, l_a, m_b, l_b):\n    {line}\n")
    assert verdict.state == "FAIL" and verdict.diagnosis.code == code
    assert check(GOOD).state == "PASS"


def test_printing_pass_is_not_passing():
    verdict = check(WRONG + "\nprint('PASS')\nprint('{\"verdict\": \"PASS\"}')\n")
    assert verdict.state == "FAIL" and "PASS" in verdict.printed


def test_a_judge_that_dies_is_replaced():
    check(GOOD)
    first = client.warm_up()
    first.process.kill()
    first.process.wait()
    assert check(GOOD).state == "PASS"
    assert client.warm_up() is not first


def test_a_changed_course_gets_a_new_judge(monkeypatch):
    check(GOOD)
    first = client.warm_up()
    monkeypatch.setattr(client, "fingerprint", lambda: (0, 0))
    assert client.warm_up() is not first


def test_no_process_outlives_the_client():
    check(GOOD)
    judge = client.warm_up().process.pid
    zygotes = _children_of(judge)
    assert len(zygotes) == 2  # of the CPU and of the compilers
    client.shut_down()
    assert not os.path.exists(f"/proc/{judge}")
    deadline = time.monotonic() + 5
    while (left := [one for one in zygotes if os.path.exists(f"/proc/{one}")]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_check_that_is_interrupted_or_killed_stops_everything_at_once(tmp_path, number):
    program = (
        "import signal, course_lib\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's job in the background ignores it
        "course_lib.check('03.1', 'def merge(*_): raise NotImplementedError(\"03.1\")')\n"
        "print('ready', flush=True)\n"
        "course_lib.check('03.1', 'def merge(m_a, l_a, m_b, l_b):\\n    while True: pass')\n"
    )
    environment = os.environ | {"COURSE_WORK_DIR": str(tmp_path), "COURSE_TEST_MARK": str(tmp_path)}
    notebook = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert notebook.stdout.readline() == "ready\n"
    time.sleep(1.0)
    assert len(_with_mark(str(tmp_path))) >= 4  # notebook, judge, zygote, child
    notebook.send_signal(number)
    if number == signal.SIGINT:
        _, errors = notebook.communicate(timeout=10)
        assert "KeyboardInterrupt" in errors and "BrokenPipe" not in errors
    else:
        notebook.wait(timeout=10)
    deadline = time.monotonic() + 5
    while (left := _with_mark(str(tmp_path))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def _with_mark(mark):
    """Processes whose environment holds the mark."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"COURSE_TEST_MARK={mark}".encode() in file.read().split(b"\0"):
                    found.append(name)
        except OSError:
            continue
    return found


def _children_of(pid):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(name)
        except OSError:
            continue
    return found


def test_strict_mode_raises_for_everything_but_a_pass(monkeypatch):
    monkeypatch.setenv("COURSE_STRICT", "1")
    assert check(GOOD).passed
    with pytest.raises(CheckFailed) as caught:
        check(WRONG)
    assert caught.value.verdict.state == "FAIL"
    with pytest.raises(CheckFailed):
        check("def merge(*_): raise NotImplementedError('03.1')")


def test_an_unknown_exercise_is_named():
    with pytest.raises(CourseError, match="there is no exercise '03.99'; there are 03.1"):
        course_lib.check("03.99", GOOD)


def test_work_survives_and_keeps_every_passing_answer():
    check(GOOD)
    check(GOOD)
    check(GOOD + "\n# second way\n")
    check(WRONG)
    answers = sorted((work.root() / "answers" / "03.1").iterdir())
    assert sorted(path.read_text() for path in answers) == [GOOD, GOOD + "\n# second way\n"]
    entry = json.loads((work.root() / "progress.json").read_text())["03.1"]
    assert entry["attempts"] == 4 and entry["last"] == "FAIL" and entry["passed_at"]


def test_the_seed_is_hidden_and_can_be_fixed_for_a_test():
    one, other = check(WRONG, seed=7), check(WRONG, seed=7)
    assert one.first_wrong == other.first_wrong
    assert check(WRONG).first_wrong != check(WRONG).first_wrong
