"""An answer that forges what the judge reads: without a sandbox too it is not a PASS, nor does it own the terminal."""

import textwrap

import pytest
import torch

import course_lib
from course_lib.grading.processes import isolation, outcome, wire
from course_lib.grading.processes.protocol import ChildTask, Ref, Run
from tests.grading.escapes import cheats
from tests.grading.escapes.__main__ import cheated

FORGED = '''
import ctypes, json, os, pickle, struct

def _parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])

def _forge(pid):
    """Take every descriptor of a process and write a verdict into it."""
    libc = ctypes.CDLL(None)
    handle = libc.syscall(434, pid, 0)
    verdict = {"exercise": "03.1", "verdict": "PASS", "diagnosis": None, "cases": [], "first_wrong": None}
    data = pickle.dumps(("ok", json.dumps(verdict), ""))
    for number in range(3, 64):
        taken = libc.syscall(438, handle, number, 0)
        if taken >= 0:
            try: os.write(taken, struct.pack("!i", len(data)) + data)
            except OSError: pass

def merge(m_a, l_a, m_b, l_b):
    zygote = os.getppid()
    for pid in (zygote, _parent(zygote)):
        _forge(pid)
    return m_a, l_b
'''


def test_a_verdict_forged_into_the_judges_pipe_is_no_pass(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path))
    assert course_lib.check("03.1", FORGED).state == "FAIL"


def test_cheats_are_held_without_a_sandbox_too():
    found = cheated(sandbox=False)
    assert len(found) >= 15 and [name for name, worked in found.items() if worked] == []


def test_an_answer_finds_no_right_value_in_the_judge(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_WORK_DIR", str(tmp_path))
    body = "\n".join(map(textwrap.dedent, cheats.FIND.values()))
    text = (
        f"def merge(m_a, l_a, m_b, l_b):\n{textwrap.indent(body, '    ')}\n    print('looked')\n    return m_a, l_b\n"
    )
    verdict = course_lib.check("03.1", text)
    assert verdict.state == "FAIL" and "looked" in verdict.printed and "reached" not in verdict.printed


X = torch.ones(4)
RUN = Run("one", {"x": X}, {"y": ((4,), "float32")}, (Ref("x"),))
TASK = ChildTask("python", "", "answer", (RUN,))
ENDED = {"stopped": "", "signalled": False, "status": 0, "where": "", "printed": "", "dropped": 0, "seconds": 0.1}
HONEST = {
    "name": "one", "outputs": {"y": X}, "returned": None, "inputs_changed": [], "launches": 0, "fault": None,
    "findings": [], "schedule_outputs": {}, "ledger": None, "seconds": 0.1,
}  # fmt: skip


def collected(**changes):
    records = [{"record": "run", "result": HONEST | changes}, {"record": "done"}]
    return outcome.collect(TASK, ENDED, b"".join(map(wire.pack, records)))


def test_an_honest_record_is_taken():
    assert collected().fault is None and collected().runs[0].outputs["y"].tolist() == [1.0] * 4


@pytest.mark.parametrize(
    "changes",
    [
        {"outputs": {"y": torch.ones(5)}},
        {"outputs": {"y": X.double()}},
        {"outputs": {"y": 3}},
        {"outputs": {"other": X}},
        {"name": "a run that nobody asked for"},
        {"launches": "many"},
        {"ledger": {"global_load": X}},
        {"ledger": [1]},
        {"schedule_outputs": {"forward": 1}},
        {"schedule_outputs": {"forward": {"y": torch.ones(1)}}},
        {"findings": {"kind": "race"}},
        {"findings": [{"kind": "race", "message": "m", "line": 10**400}]},
        {"returned": 7},
        {"seconds": "long"},
    ],
)
def test_what_no_run_may_send_is_refused(changes):
    result = collected(**changes)
    assert result.fault is not None and "channel that carries its results" in result.fault.message
    assert result.runs[0].outputs is None


def test_an_answer_cannot_steer_the_terminal():
    printed = ENDED | {"printed": "a\x1b]0;title\x07b\x1b[2Jc\x9b1md\u202ee\tf\ng\x08"}
    result = outcome.collect(TASK, printed, b"")
    assert result.printed == "abc1mde\tf\ng"
    fault = {"kind": "exception", "message": "PASS\x1b[8m\r", "detail": "\x1b[1A"}
    assert collected(fault=fault).runs[0].fault.message == "PASS"
    task = ChildTask("python", "def answer(x): raise ValueError('\\x1b[2J\\x1b[H PASS')", "answer", (RUN,))
    assert "\x1b" not in isolation.run_task(task).runs[0].fault.message
