"""One launch on the interpreter under a ledger; what the function raises becomes an error with the author's line.

May import: errors, recorder.
"""

from ..errors import CourseError, KernelFault
from . import _private
from .recorder import ledger


def run_checked(fn, grid, args, schedule, seed, outputs, constexprs):
    """Run `profile_triton` in this process, whose Triton is the interpreter. Returns a TritonReport."""
    try:
        with ledger(outputs=outputs, schedule=schedule, seed=seed) as report:
            fn[grid](*args, **constexprs)
    except CourseError:
        raise
    except Exception as error:
        raise fault(error) from error
    return report


def fault(error):
    """Return the CourseError for an exception of the interpreter; its message names the author's line."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, CourseError):
        return cause
    line = _private.author_line_of(cause)
    where = f"line {line}: " if line else ""
    return KernelFault(f"{where}{type(cause).__name__}: {cause}")
