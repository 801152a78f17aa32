"""Exceptions of an answer -> Fault: a kind, one sentence for the learner, the line in the learner's own numbering.

May import: errors, answer.loading, protocol.
"""

import signal
import traceback

from ...errors import (
    ArgumentError,
    CompileError,
    CourseError,
    KernelFault,
    LaunchError,
    SignatureError,
    ToolchainError,
    UnsupportedError,
)
from ..answer.loading import is_learners_file, learners_line, readable_trace
from .protocol import Fault

_OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "Unable to allocate",
    "Cannot allocate memory",
)
# findings of the SIMT machine and of the Triton ledger -> kinds of Fault
_FINDING_KINDS = {
    "step_limit": "timeout",
    "stack_overflow": "recursion",
    "trap": "exception",
    "const_write": "input_modified",
}
_FATAL = {
    "out_of_bounds",
    "misaligned",
    "bad_shuffle",
    "divergent_barrier",
    "deadlock",
    "timeout",
    "recursion",
    "exception",
}


class Problem(Exception):
    """Raised by a runner: this is the fault, in words that are ready."""

    def __init__(self, kind, message, line=None, detail=""):
        super().__init__(message)
        self.fault = Fault(kind, message, line, detail=detail)


class ForbiddenCall(Exception):
    """The answer called something that the exercise asks it to write itself."""


def finding_fault(finding):
    """A Finding of the machine as a Fault."""
    kind = _FINDING_KINDS.get(finding.kind, finding.kind)
    line = finding.call_line if getattr(finding, "file", "") else finding.line  # a header's line is not the learner's
    other = getattr(finding, "other_line", None)
    if getattr(finding, "other_file", ""):
        other = finding.other_call_line
    return Fault(kind, finding.message, line, other)


def is_fatal(fault):
    """Whether a finding means that this launch must not be made again, on whatever engine."""
    return fault.kind in _FATAL


def fault_of(error):
    """The Fault for whatever came out of an answer."""
    line = learners_line(error)
    if isinstance(error, Problem):
        return error.fault
    if isinstance(error, CourseError):
        return _course_fault(error)
    if isinstance(error, ForbiddenCall):
        return Fault("forbidden_call", str(error), line)
    if isinstance(error, SyntaxError) and line is not None:
        return Fault(
            "compile_error", f"Python cannot read line {line}: {error.msg}.", line, detail=readable_trace(error)
        )
    if isinstance(error, SystemExit):
        return Fault("exited", f"The answer called sys.exit{_at(line)}; return the result instead.", line)
    if isinstance(error, KeyboardInterrupt):
        return Fault("killed", f"The answer interrupted itself{_at(line)} ({signal.SIGINT.name}).", line)
    if isinstance(error, RecursionError):
        return Fault(
            "recursion", f"The answer calls itself without end{_at(line)}.", line, detail=readable_trace(error)[-1500:]
        )
    if isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY):
        return Fault(
            "out_of_memory",
            f"The answer asked for more memory than it may have{_at(line)}: {first_line(error)}",
            line,
            detail=readable_trace(error),
        )
    if isinstance(error, NotImplementedError) and _raised_by_the_answer(error):
        return Fault("exception", f"The answer is not written yet{_at(line)} (NotImplementedError).", line)
    return Fault(
        "exception", f"{type(error).__name__}{_at(line)}: {first_line(error)}", line, detail=readable_trace(error)
    )


def _raised_by_the_answer(error):
    frames = traceback.extract_tb(error.__traceback__)
    return not frames or is_learners_file(frames[-1].filename)


def first_line(error):
    """The first line of an exception's message, or its type."""
    text = str(error).strip()
    return text.splitlines()[0][:400] if text else type(error).__name__


def _at(line):
    return f" in line {line}" if line is not None else ""


def _course_fault(error):
    if isinstance(error, CompileError):
        return Fault("compile_error", str(error).splitlines()[0], error.line, detail=error.log)
    if isinstance(error, SignatureError):
        return Fault("missing_function", str(error), learners_line(error))
    if isinstance(error, ArgumentError):
        return Fault("wrong_signature", str(error))
    if isinstance(error, LaunchError):
        return Fault("launch_configuration", str(error))
    if isinstance(error, KernelFault):
        found = [finding_fault(finding) for finding in error.findings]
        return found[0] if found else Fault(_guess(str(error)), str(error))
    if isinstance(error, ToolchainError | UnsupportedError):
        return Fault("not_verified_here", str(error))
    return Fault("exception", str(error), learners_line(error))


def _guess(message):
    """The kind of a fault of which no more than a sentence is known, as on a GPU."""
    for words, kind in (
        ("stack", "recursion"),
        ("barrier", "divergent_barrier"),
        ("deadlock", "deadlock"),
        ("memory", "out_of_bounds"),
    ):
        if words in message:
            return kind
    return "exception"
