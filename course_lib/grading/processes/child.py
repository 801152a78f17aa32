"""What happens in the child: limits first, then the answer, run by run. It reports outputs and faults, never a verdict.

May import: child_compile, child_cuda, child_python, child_triton, confine, faults, protocol, tensors, wire.
"""

import faulthandler
import os
import resource
import signal
import sys
import time

from . import child_compile, child_cuda, child_python, child_triton, confine, wire
from .faults import fault_of
from .protocol import RunResult
from .tensors import holds_poison

_RUNNERS = {"python": child_python, "cuda": child_cuda, "triton": child_triton}
_HANGS = ("timeout", "deadlock")
_FILE_BYTES = 256 << 20
_EXTRA_PROCESSES = 256  # more than the user has now
_RESULT_FILENO, _TRACE_FILENO = 700, 701


def preload():
    """Import, before the fork, what an answer will need; only where there is no GPU.

    Returns
    -------
    int, a process that builds the SIMT machine meanwhile
    """
    child_triton.preload()
    return child_cuda.preload()


def main(task_descriptor, result_descriptor, trace_descriptor, output_descriptor, folder, limits):
    """Limit this process, run the task, leave. Never returns."""
    _enter(result_descriptor, trace_descriptor, output_descriptor, folder)
    task = wire.unpack_task(_read_all(task_descriptor))
    os.close(task_descriptor)
    _limit(limits)
    report = _Report(_RESULT_FILENO)
    try:
        _run(task, report)
        report.send({"record": "done"})
    except BaseException as error:  # also a fault of the grader itself must reach the learner as a sentence
        report.send({"record": "fault", "fault": vars(fault_of(error))})
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


class _Report:
    """The channel to the judge: one complete record after the other, so that a later crash loses none."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def send(self, record):
        data = memoryview(wire.pack(record))
        while data:
            data = data[os.write(self.descriptor, data) :]


def _run(task, report):
    runner = (child_compile if task.engine == "compile" else _RUNNERS[task.language]).Runner(task)
    runner.prepare()
    done = {}  # name of a run -> that run and its result
    for run in runner.order():
        if run.repeats in done and not _worth_repeating(task, *done[run.repeats]):
            continue
        report.send({"record": "started", "name": run.name})
        started = time.perf_counter()
        result = RunResult(run.name)
        done[run.name] = run, result
        try:
            runner.run(run, result)
        except BaseException as error:
            result.fault = fault_of(error)
        result.seconds = time.perf_counter() - started
        report.send({"record": "run", "result": wire.plain_run_result(result)})
        if result.fault is not None and result.fault.kind in _HANGS:
            return  # the next run would hang as well


def _worth_repeating(task, run, result):
    """Whether `run` with other poison can show what its `result` does not.

    It tells what was never written from a NaN of the answer's own, and shows an answer that reads its output. Where
    there is no GPU such a read is a finding of the first run: there only poison that is still there asks for another.
    """
    if result.fault is not None:
        return False
    return task.engine == "gpu" or holds_poison(run, result.outputs)


def _enter(result_descriptor, trace_descriptor, output_descriptor, folder):
    os.setsid()
    os.chdir(folder)
    os.environ["TMPDIR"] = folder
    os.dup2(result_descriptor, _RESULT_FILENO, inheritable=False)
    os.dup2(trace_descriptor, _TRACE_FILENO, inheritable=False)
    for descriptor in (result_descriptor, trace_descriptor):
        os.close(descriptor)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (output_descriptor, 1), (output_descriptor, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(output_descriptor)
    sys.stdin = open(0, closefd=False)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if os.getuid() == 0:
        confine.drop_capabilities()  # root's right to read any process
    faulthandler.enable(_TRACE_FILENO, all_threads=False)
    faulthandler.register(signal.SIGUSR1, _TRACE_FILENO, all_threads=False)


def _limit(limits):
    """Set the limits of this process; one that the system refuses is left out (macOS has no address-space limit)."""
    seconds = int(limits["wall_seconds"]) + 5
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: _FILE_BYTES,
        resource.RLIMIT_CPU: seconds * 4,
    }
    if limits["address_bytes"] is not None:
        wanted[resource.RLIMIT_AS] = _mapped_bytes() + limits["address_bytes"]
    if os.getuid() != 0:
        wanted[resource.RLIMIT_NPROC] = _own_tasks() + _EXTRA_PROCESSES
    for name, value in wanted.items():
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(name, (value, value))
        except (ValueError, OSError):
            pass


def _mapped_bytes():
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 8 << 30


def _own_tasks():
    """Threads of this user on the machine: RLIMIT_NPROC counts them all, not only ours."""
    count, me = 0, os.getuid()
    for entry in os.scandir("/proc") if os.path.isdir("/proc") else ():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == me:
                count += len(os.listdir(f"/proc/{entry.name}/task"))
        except OSError:
            continue
    return count


def _read_all(descriptor):
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()
