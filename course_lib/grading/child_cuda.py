"""Runs a CUDA answer: compiled with course_lib.cuda, first under the SIMT machine's checks, then fast.

May import: cuda, protocol, faults, tensors.
"""

from .faults import finding_fault, is_fatal
from .protocol import Fault
from .tensors import Bindings


def preload():
    """Import before the fork what every CUDA run needs."""
    import course_lib.cuda  # noqa: F401


class Runner:
    """Compiles once for every set of constants; runs with schedules come first: they find an endless loop's line."""

    def __init__(self, task):
        self.task, self.kernels, self.stop = task, {}, False
        self.device = "cuda" if task.engine == "gpu" else "cpu"

    def prepare(self):
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
                task.source, task.entry, defines=constants or None, filename=task.filename, first_line=task.first_line
            )
        return self.kernels[key]

    def run(self, run, result):
        kernel = self._kernel(run.constants)
        for schedule in run.schedules:
            if not self._profile(kernel, run, schedule, result):
                return
        self._launch(kernel, run, result)

    def _profile(self, kernel, run, schedule, result):
        """One checked run; False when its findings forbid a launch on the fast engine."""
        bound = Bindings(run)
        report = kernel.profile(
            run.grid,
            run.block,
            *bound.arguments,
            shared_bytes=run.shared_bytes,
            schedule=schedule,
            outputs=tuple(bound.outputs.values()),
        )
        found = [finding_fault(finding) for finding in report.findings]
        seen = {(fault.kind, fault.line, fault.other_line) for fault in result.findings}
        new = {(fault.kind, fault.line, fault.other_line): fault for fault in found}
        result.findings += tuple(fault for key, fault in new.items() if key not in seen)
        result.inputs_modified = result.inputs_modified or bound.modified()
        result.schedule_outputs[schedule] = bound.results()
        if result.ledger is None:
            result.ledger = report.ledger()
        fatal = [fault for fault in found if is_fatal(fault)]
        if not fatal:
            return True
        result.fault, result.outputs, result.launches = fatal[0], bound.results(), 1
        self.stop = fatal[0].kind in ("timeout", "deadlock")
        return False

    def _launch(self, kernel, run, result):
        from course_lib import cuda

        bound = Bindings(run, self.device)
        before = cuda.launch_count()
        kernel(run.grid, run.block, *bound.arguments, shared_bytes=run.shared_bytes)
        if self.device == "cuda":
            import torch

            torch.cuda.synchronize()
        result.launches = cuda.launch_count() - before
        result.outputs = bound.results()
        result.inputs_modified = result.inputs_modified or bound.modified()
        if result.launches == 0:
            result.fault = Fault("no_launch", f"{self.task.entry} was called, but no kernel was launched.")
