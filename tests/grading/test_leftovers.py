"""Nothing of an answer outlives it: no process, no folder; and all its processes share one limit of memory."""

import glob
import os
import time

import pytest
import torch

from course_lib.errors import UnsupportedError
from course_lib.grading.processes import isolation
from course_lib.grading.processes.protocol import ChildTask, Ref, Run

RUN = Run("one", {"x": torch.ones(4)}, {"y": ((4,), "float32")}, (Ref("x"),))
FORKS = """
import os, time
def answer(x):
    for _ in range(6):
        if os.fork() == 0:
            os.setsid()
            held = bytearray(os.urandom(1 << 20) * 220)
            time.sleep(8)
            os._exit(0)
    time.sleep(8)
    return x
"""
MARK = "course-leftover-4417"
DAEMON = f"""
import os, signal, sys, time
def answer(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)", "{MARK}"])
        os._exit(0)
    time.sleep(0.3)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(5)
"""


def run(source, sandbox=False, **limits):
    try:
        return isolation.run_task(ChildTask("python", source, "answer", (RUN,), **limits), sandbox=sandbox)
    except UnsupportedError as error:
        assert "bubblewrap" in str(error)
        pytest.skip(str(error))


def alive():
    """Command lines of the processes that an attack has marked."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path) as file:
                text = file.read()
        except OSError:
            continue
        found += [text] * (MARK in text)
    return found


@pytest.mark.parametrize("sandbox", [False, True])
def test_forks_share_one_limit_of_memory(sandbox):
    started = time.monotonic()
    result = run(FORKS, sandbox, memory_bytes=1 << 30)
    assert result.fault is not None and result.fault.kind == "out_of_memory"
    assert time.monotonic() - started < 60 and result.seconds < 7


@pytest.mark.parametrize("sandbox", [False, True])
def test_a_killed_zygote_leaves_no_daemon(sandbox):
    result = run(DAEMON, sandbox)
    assert result.fault is not None and result.fault.kind in ("killed", "exited")
    deadline = time.monotonic() + 3
    while alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive() == []


def test_a_killed_zygote_leaves_no_folder():
    folder = isolation.zygote().folder
    print_folder = "import os\ndef answer(x):\n    print(os.getcwd())\n    return x"
    assert run(print_folder).printed.startswith(folder)
    run("import os, signal\ndef answer(x): os.kill(os.getppid(), signal.SIGKILL)")
    assert not os.path.exists(folder)
