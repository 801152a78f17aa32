"""Findings of asynchronous work in the words of an exercise: causes before consequences, and what they leave open."""

from types import SimpleNamespace

import pytest

from course_lib.grading.processes.protocol import Fault
from course_lib.grading.subjects.hopper import findings


def evidence(*messages):
    faults = [Fault(kind, f"line 7: {message}", 7) for kind, message in messages]
    case = SimpleNamespace(case=SimpleNamespace(name="two tiles"), faults=faults)
    return SimpleNamespace(failing=lambda: [case])


def explain(*messages):
    return findings.explainer()(None, None, evidence(*messages))


READ = "thread (32,0,0) reads tile_smem[0], which the bulk load of line 5 writes; nothing orders this after a wait"
OVER = (
    "the bulk load started by thread (0,0,0) writes 16 bytes of tile_smem from byte 0 on, which thread (3,0,0) read at"
)
FOUND = {
    "read_before_landing": ("race", READ),
    "overwritten_early": ("race", f"{OVER} line 6 with no barrier between them (a race on shared memory)."),
    "wrong_bytes": ("bad_barrier", "a phase of the mbarrier full[0] expected 4,096 bytes, 2,048 arrived."),
    "barrier_not_initialised": ("bad_barrier", "thread (0,0,0) uses the mbarrier full[0], which no thread has "
                                "initialised"),
    "init_not_fenced": ("missing_fence", "the copy completes on full[0], which thread (0,0,0) initialised at line 3 "
                        "without fence_mbarrier_init(): that thread calls it"),
    "missing_proxy_fence": ("missing_fence", "a[0], written by thread (0,0,0) at line 3, is read without "
                            "fence_proxy_async(): the thread"),
    "in_flight": ("in_flight", "thread (0,0,0) reads accumulator d[0] while the wgmma of line 5 is in flight"),
    "barrier_never_completes": ("deadlock", "1 thread waits forever for parity 1 of the mbarrier full[0]: phase 1"),
    "named_barrier_deadlock": ("deadlock", "named barrier 1 waits forever for 128 of its 256 threads: warps 0"),
    "copy_not_awaited": ("bad_copy", "no thread waited for this copy on the mbarrier full[0]"),
}  # fmt: skip


@pytest.mark.parametrize("code", FOUND)
def test_each_pattern_has_its_code_and_says_the_finding(code):
    diagnosis = explain(FOUND[code])
    assert diagnosis.code == code and diagnosis.line == 7
    assert FOUND[code][1] in diagnosis.sentence and "two tiles" in diagnosis.sentence


def test_a_cause_comes_before_its_consequence():
    assert explain(FOUND["barrier_never_completes"], FOUND["wrong_bytes"]).code == "wrong_bytes"
    assert explain(FOUND["overwritten_early"], FOUND["read_before_landing"]).code == "read_before_landing"


def test_what_no_row_describes_and_what_lies_out_of_bounds_is_left_to_the_judge():
    assert explain(("race", "thread (1,0,0) reads s[0], which thread (0,0,0) wrote")) is None
    assert explain(FOUND["read_before_landing"], ("out_of_bounds", "thread writes 4 bytes at out[9]")) is None
