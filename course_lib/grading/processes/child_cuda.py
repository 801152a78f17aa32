"""Runs a CUDA answer: on the CPU under the SIMT machine's checks, natively on a GPU.

May import: confine, cuda, cuda.simt.build, cuda.simt.compilers, cuda.simt.machine, faults, loops, tensors, torch.
"""

import functools
import os
from dataclasses import replace

from . import confine, loops
from .faults import finding_fault, is_fatal
from .tensors import Bindings

_SMALLEST = 'extern "C" __global__ void nothing_kernel(const float* x, int n) {}\n'
_LAUNCH_SHARE = 0.4  # of the wall time for one launch: the machine can name the line, the killer of the process cannot
_STEP_LIMIT = 500_000  # of one thread: a thousand times what a small case needs, reached in a second or two
_LARGE_LIMIT = 4 * _STEP_LIMIT  # where a case is large enough to run in order alone; the small ones came before it
_CLANG = 4  # times as many: its checked build is not optimised


def preload():
    """Before the first fork: import what a CUDA run needs, and begin to build the SIMT machine.

    The machine compiles itself once for each version, which takes longer than an answer may. It does so in a process
    of its own: what it starts (threads) must not be in the process that is forked later.

    Returns
    -------
    int, the number of that process; a CUDA run must wait for its end
    """
    import course_lib.cuda  # noqa: F401

    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()  # the compiler it starts can be ended together with it
            silent = os.open(os.devnull, os.O_RDWR)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            build_machine()
        except Exception:
            pass  # the first answer will meet the same error, and say it to the learner
        finally:
            os._exit(0)
    return pid


def build_machine():
    """Compile and run the smallest kernel, which builds what is missing of the SIMT machine."""
    import torch

    from course_lib import cuda

    cuda.compile(_SMALLEST, checked=True).profile(1, 1, torch.zeros(1), 1)


@functools.cache
def load_machine():
    """Before a fork for a CUDA answer, once the machine is built: load it here, so that no child has to.

    With the smallest kernel, which `preload` has built: what reads a kernel's text has its patterns and hashes then.
    """
    try:
        from course_lib import cuda

        cuda.compile(_SMALLEST, checked=True)
    except Exception:
        pass  # the answer will meet the same error, and say it to the learner


def _step_limit(run):
    """How many basic blocks of one thread a launch may take."""
    from course_lib.cuda.simt.compilers import compiler

    limit = _STEP_LIMIT if run.schedules else _LARGE_LIMIT
    return _CLANG * limit if compiler()[1] == "clang" else limit


class Runner:
    """Compiles once for every set of constants; runs with schedules come first: they find an endless loop's line."""

    def __init__(self, task):
        self.task, self.kernels = task, {}
        self.device = "cuda" if task.engine == "gpu" else "cpu"

    def prepare(self):
        if os.environ.get("COURSE_SANDBOXED") == "1":
            from course_lib.cuda.simt.machine import launch_apart

            launch_apart(confine.only_compute)
        os.environ["COURSE_TIME_LIMIT_S"] = str(_LAUNCH_SHARE * self.task.wall_seconds)
        for run in self.task.runs:
            self._kernel(run.constants)

    def order(self):
        return sorted(self.task.runs, key=lambda run: not run.schedules)

    def _kernel(self, constants):
        from course_lib import cuda

        key = tuple(sorted(constants.items()))
        if key not in self.kernels:
            task = self.task
            self.kernels[key] = cuda.compile(
                task.source,
                task.entry,
                defines=constants or None,
                filename=task.filename,
                first_line=task.first_line,
                checked=self.device == "cpu",
            )
        return self.kernels[key]

    def run(self, run, result):
        kernel = self._kernel(run.constants)
        if self.device == "cuda":
            self._launch(kernel, run, result)
            return
        for schedule in run.schedules or ("forward",):
            self._profile(kernel, run, schedule, result)
            if result.fault is not None:
                return

    def _profile(self, kernel, run, schedule, result):
        """One checked run; a finding after which no other launch must be made becomes the fault."""
        bound = Bindings(run)
        report = kernel.profile(
            run.grid,
            run.block,
            *bound.arguments,
            shared_bytes=run.shared_bytes,
            schedule=schedule,
            step_limit=_step_limit(run),
            outputs=bound.unwritten,
            timeline=run.timeline,
        )
        found = [self._in_its_loop(finding_fault(finding)) for finding in report.findings]
        seen = {(fault.kind, fault.line, fault.other_line) for fault in result.findings}
        new = {(fault.kind, fault.line, fault.other_line): fault for fault in found}
        result.findings += tuple(fault for key, fault in new.items() if key not in seen)
        result.inputs_changed = result.inputs_changed or bound.changes()
        if run.schedules:
            result.schedule_outputs[schedule] = bound.results()
        if result.outputs is None:
            result.outputs, result.launches, result.ledger = bound.results(), 1, report.ledger()
            result.ledger["remarks"] = list(report.remarks)
            if run.timeline:
                result.ledger["timeline"] = [
                    [one.block, one.warp, one.kind, one.start, one.end, one.thread, one.shared_offset]
                    for one in report.timeline
                ]
        result.fault = next(filter(is_fatal, found), None)

    def _in_its_loop(self, fault):
        """A fault of the time limit with the line of the loop: an empty one has no code, only the line before it."""
        if fault.kind != "timeout" or "time limit" not in fault.message or fault.line is None:
            return fault
        line = loops.first_of_cuda(self.task.source, self.task.first_line, fault.line)
        said = fault.message.replace(f"line {fault.line}: ", f"line {line}: ", 1)
        return replace(fault, line=line, message=said)

    def _launch(self, kernel, run, result):
        import torch

        bound = Bindings(run, self.device)
        kernel(run.grid, run.block, *bound.arguments, shared_bytes=run.shared_bytes)
        torch.cuda.synchronize()
        result.launches, result.outputs, result.inputs_changed = 1, bound.results(), bound.changes()
