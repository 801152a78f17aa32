"""A stranger's kernel runs in a process of its own: the same result, and nothing else of it comes back."""

import os
import signal
import socket

import pytest
import torch

from course_lib import cuda
from course_lib.cuda.simt import apart, machine
from course_lib.grading.processes import child_cuda, confine
from course_lib.grading.processes.protocol import ChildTask

KERNEL = """__device__ int count;
extern "C" __global__ void scaled(const float* x, float* y, int n) {
    if (threadIdx.x == 0) count += 1;
    __syncthreads();
    if (threadIdx.x == 0) printf("launch %d", count);
    if (threadIdx.x < n) y[threadIdx.x] = count * x[threadIdx.x];
}
"""
NOTHING = 0, b"", b""
OWN = (b"3 0", b"0 3")  # 0: the list of files itself while it is read


def test_the_same_kernel_gives_the_same_report_in_both_ways():
    first, second = (cuda.compile(f"// {number}\n{KERNEL}", "scaled", checked=True) for number in (1, 2))
    given = []
    for kernel, enter in ((first, None), (second, confine.only_compute)):
        machine.launch_apart(enter)
        try:
            y = torch.zeros(2)
            reports = [kernel.profile(1, 4, torch.arange(4.0), y, 4, outputs=(y,)) for _ in range(2)]
        finally:
            machine.launch_apart(None)
        given.append((y.tolist(), [(one.printed, list(map(str, one.findings)), one.ledger()) for one in reports]))
    assert given[0] == given[1] and given[0][0] == [0.0, 2.0] and given[0][1][0][1] != []


def test_only_bytes_that_were_asked_for_come_back():
    state = []
    assert apart.run(lambda: (state.append(1), NOTHING)[1], lambda: None, []) == NOTHING and state == []
    kept, other = torch.zeros(3), torch.zeros(3)

    def launch():
        kept.fill_(7)
        other.fill_(7)
        return 0, b"result", b"printed"

    assert apart.run(launch, lambda: None, [(kept.data_ptr(), 12)]) == (0, b"result", b"printed")
    assert kept.tolist() == [7.0] * 3 and other.tolist() == [0.0] * 3


REACHES = {
    "a file": lambda: open("/etc/hostname"),
    "a new file": lambda: open("/tmp/course-test-apart", "w"),
    "the list of processes": lambda: os.listdir("/proc"),
    "a program": lambda: os.execv("/bin/true", ["true"]),
    "a process": os.fork,
    "a connection": socket.socket,
    "a pipe": os.pipe,
    "another process": lambda: os.kill(os.getppid(), signal.SIGTERM),
    "the network interfaces": lambda: os.uname() and socket.if_nameindex(),
}


@pytest.mark.parametrize("what", REACHES)
def test_a_process_that_only_computes_does_not_reach(what):
    def launch():
        try:
            REACHES[what]()
        except PermissionError as error:
            return 0, str(error.errno).encode(), b""
        return 0, b"reached", b""

    assert apart.run(launch, confine.only_compute, [])[1] == b"1"


def test_a_launch_finds_no_open_file_but_its_own():
    assert apart.run(lambda: (0, " ".join(os.listdir("/proc/self/fd")).encode(), b""), lambda: None, [])[1] in OWN


@pytest.mark.parametrize(
    ("end", "code"), [(lambda: os.kill(os.getpid(), signal.SIGKILL), -9), (lambda: os._exit(3), 3)]
)
def test_a_launch_that_ends_its_process_ends_the_answer_in_the_same_way(end, code):
    if (pid := os.fork()) == 0:
        apart.run(end, lambda: None, [])
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code


def test_in_the_sandbox_every_launch_is_apart(monkeypatch):
    monkeypatch.setenv("COURSE_TIME_LIMIT_S", "9")
    for sandboxed, enter in (("0", None), ("1", confine.only_compute)):
        monkeypatch.setenv("COURSE_SANDBOXED", sandboxed)
        child_cuda.Runner(ChildTask("cuda", KERNEL, "scaled", ())).prepare()
        assert machine._enter is enter
    machine.launch_apart(None)


def test_less_than_a_result_is_refused():
    with pytest.raises(ValueError, match="something else than its result"):
        apart._taken(b"\0" * 31, [])
    with pytest.raises(ValueError, match="something else than its result"):
        apart._taken(apart._LENGTHS.pack(0, 0, 0, 4) + b"1234", [(0, 8)])
