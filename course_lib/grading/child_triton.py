"""Runs a Triton answer: in the interpreter with the course's ledger, or on the GPU.

May import: triton, protocol, loading, faults, tensors.
"""

from . import loading
from .child_python import Off, find
from .faults import Problem, finding_fault, is_fatal
from .tensors import Bindings


def preload():
    """Import before the fork what every Triton run needs; a machine without Triton is told so when an answer comes."""
    try:
        import triton  # noqa: F401

        import course_lib.triton  # noqa: F401
    except ImportError:
        pass


class Runner:
    """Loads the kernel once and launches it for every run, checked under each schedule on the CPU."""

    stop = False

    def __init__(self, task):
        self.task, self.kernel, self.off = task, None, None
        self.device = "cuda" if task.engine == "gpu" else "cpu"

    def prepare(self):
        self.off = Off(self.task.forbidden)
        try:
            import triton  # noqa: F401
        except ImportError:
            raise Problem("not_verified_here", "Triton is not installed on this machine (it exists for Linux only).") from None
        module = loading.load(self.task.source, self.task.filename, self.task.first_line)
        self.kernel = find(module, self.task.entry)
        if not hasattr(self.kernel, "fn") or not hasattr(self.kernel, "__getitem__"):
            raise Problem("no_launch", f"{self.task.entry} is a {type(self.kernel).__name__}, not a Triton kernel, so no kernel "
                                       "would be launched; decorate it with @triton.jit.")

    def order(self):
        return self.task.runs

    def run(self, run, result):
        for schedule in run.schedules:
            if not self._profile(run, schedule, result):
                return
        self._launch(run, result)
        self.off.check()

    def _profile(self, run, schedule, result):
        from course_lib.triton import profile_triton

        bound = Bindings(run)
        report = profile_triton(self.kernel, run.grid, *bound.arguments, schedule=schedule, **run.constants)
        found = [finding_fault(finding) for finding in report.findings]
        seen = {(fault.kind, fault.line) for fault in result.findings}
        result.findings += tuple(fault for fault in found if (fault.kind, fault.line) not in seen)
        result.inputs_modified = result.inputs_modified or bound.modified()
        result.schedule_outputs[schedule] = bound.results()
        if result.ledger is None:
            result.ledger = report.ledger()
        fatal = [fault for fault in found if is_fatal(fault)]
        if not fatal:
            return True
        result.fault, result.outputs, result.launches = fatal[0], bound.results(), 1
        return False

    def _launch(self, run, result):
        from course_lib.triton import launch_count

        bound = Bindings(run, self.device)
        before = launch_count()
        self.kernel[run.grid](*bound.arguments, **run.constants)
        result.launches = launch_count() - before
        result.outputs = bound.results()
        result.inputs_modified = result.inputs_modified or bound.modified()
