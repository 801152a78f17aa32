"""Runs a Triton answer: on the CPU under the course's ledger, so that no access leaves its tensor; natively on a GPU.

May import: answer.loading, child_python, faults, forbidden, protocol, tensors, triton, torch.
"""

import contextlib
import traceback
import types
import warnings
from importlib import import_module

from ..answer import loading
from .child_python import check_signature, find
from .faults import Problem, fault_of, finding_fault
from .forbidden import Off
from .protocol import Fault
from .tensors import Bindings

_LAUNCH_OPTIONS = {"num_warps", "num_stages", "num_ctas", "maxnreg"}  # of the launch, not parameters of the kernel
_PRELOADED = (
    "triton.language",
    "course_lib.triton.recorder",
    # what the interpreter imports at its first launch, and a shuffled order of programs
    "triton.language.extra.libdevice",
    "triton.experimental.gluon",
    "numpy.ma",
    "numpy.random",
)


def preload():
    """Import before the fork what every Triton run needs; a machine without Triton says so when an answer comes."""
    for name in _PRELOADED:
        with contextlib.suppress(ImportError):
            import_module(name)
    with contextlib.suppress(Exception):  # the first answer will meet the same error, and say it to the learner
        import_module("course_lib.grading.processes.triton_warm").warm()


class Runner:
    """Loads the kernel once and launches it for every run, on the CPU under each schedule."""

    def __init__(self, task):
        self.task, self.kernel, self.off = task, None, None
        self.device = "cuda" if task.engine == "gpu" else "cpu"

    def prepare(self):
        self.off = Off(self.task.forbidden)
        try:
            import triton
            from triton.runtime.jit import KernelInterface

            from course_lib.triton import patching, tuning
        except ImportError:
            raise Problem(
                "not_verified_here", "Triton is not installed on this machine; it exists for Linux only."
            ) from None
        # what NumPy says of the interpreter's arithmetic on masked places is not something that the answer printed
        for module in (r"triton\.runtime\.interpreter", r"numpy\."):  # numpy's own functions, called by the interpreter
            warnings.filterwarnings("ignore", category=RuntimeWarning, module=module)
        if self.device == "cuda":
            tuning.take_in_turn(triton.runtime.autotuner)  # each timing would be a launch; the interpreter has it so
        else:
            patching.keep()  # the answer's launches are all that happens here
        module = loading.load(self.task.source, self.task.filename, self.task.first_line)
        self.kernel = find(module, self.task.entry)
        if not isinstance(self.kernel, KernelInterface):  # what @triton.jit, @autotune and @heuristics make
            raise Problem(
                "no_launch",
                f"{self.task.entry} is a plain {type(self.kernel).__name__}, so no kernel would be "
                "launched; decorate it with @triton.jit.",
            )

    def order(self):
        return self.task.runs

    def run(self, run, result):
        named = {name: value for name, value in run.constants.items() if name not in _LAUNCH_OPTIONS}
        check_signature(*_declared(self.kernel, named, run.arguments), self.task.entry)
        if self.device == "cuda":
            self._launch(run, result)
        else:
            for schedule in run.schedules or ("forward",):
                self._launch_checked(run, schedule, result)
                if result.fault is not None:
                    break
        self.off.check()
        if result.launches == 0 and result.fault is None:
            result.fault = Fault("no_launch", f"{self.task.entry} was called, but no kernel was launched.")

    def _launch(self, run, result):
        import torch

        bound = Bindings(run, self.device)
        result.launches = self._call(run, bound, result)
        torch.cuda.synchronize()
        result.outputs, result.inputs_changed = bound.results(), bound.changes()

    def _launch_checked(self, run, schedule, result):
        from course_lib.triton import ledger

        bound = Bindings(run)
        with ledger(outputs=bound.unwritten, schedule=schedule) as report:
            launches = self._call(run, bound, result)
        found = [finding_fault(finding) for finding in report.findings]
        seen = {(fault.kind, fault.line, fault.other_line) for fault in result.findings}
        result.findings += tuple(fault for fault in found if (fault.kind, fault.line, fault.other_line) not in seen)
        result.inputs_changed = result.inputs_changed or bound.changes()
        if result.outputs is None:
            result.outputs, result.launches, result.ledger = bound.results(), launches, report.ledger()
        if run.schedules:
            result.schedule_outputs[schedule] = bound.results()

    def _call(self, run, bound, result):
        from course_lib.triton import launch_count

        before = launch_count()
        try:
            self.kernel[run.grid](*bound.arguments, **run.constants)
        except Exception as error:
            result.fault = _lacking(error) or fault_of(_innermost(error))
        return launch_count() - before


def _declared(kernel, named, arguments):
    """(function, arguments, constants) for check_signature: what @autotune and @heuristics pass counts as passed."""
    named = dict(named)
    while not isinstance(kernel, types.FunctionType) and hasattr(kernel, "fn"):
        for config in getattr(kernel, "configs", ())[:1]:
            named |= dict.fromkeys(config.kwargs)
        if isinstance(getattr(kernel, "values", None), dict):  # Heuristics
            named |= dict.fromkeys(kernel.values)
        kernel = kernel.fn
    return kernel, list(arguments), named


def _lacking(error):
    """The Fault for a function of Triton that its interpreter does not have, or None."""
    inner = _innermost(error)
    if not (isinstance(inner, AttributeError | NotImplementedError) and _in_triton(inner)):
        return None
    if isinstance(inner, AttributeError) and "InterpreterBuilder" not in str(inner):
        return None
    line = loading.learners_line(inner)
    where = f"line {line}: " if line is not None else ""
    return Fault(
        "not_verified_here",
        f"{where}Triton's interpreter lacks a function that this line needs ({inner}); use another function of "
        "triton.language, or check the answer on a machine with a GPU.",
        line,
    )


def _in_triton(error):
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and not loading.is_learners_file(frames[-1].filename)


def _innermost(error):
    """The exception of the learner's own line under those that Triton's interpreter wraps round it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
