"""The exceptions of the course. Every message is a sentence: what was expected, what was received, what to do.

May import: nothing of the course.
"""


class CourseError(Exception):
    """Base class of every error that the course raises."""


class ToolchainError(CourseError):
    """A compiler, a driver or NVRTC is missing on this machine; the message says how to install it."""


class CompileError(CourseError):
    """A kernel did not compile.

    Attributes
    ----------
    filename : str, the author's file or cell
    line : int or None, the author's own line number of the first error
    log : str, the compiler's log with the author's line numbers
    """

    def __init__(self, message, *, filename="", line=None, log=""):
        super().__init__(message)
        self.filename, self.line, self.log = filename, line, log


class SignatureError(CourseError):
    """The source has no such kernel, or its parameters cannot be parsed."""


class ArgumentError(CourseError):
    """The number or the type of a launch's arguments is wrong; the message names the parameter."""


class LaunchError(CourseError):
    """A launch that no GPU accepts (0 blocks, 2048 threads, too much shared memory), or one that failed."""


class KernelFault(CourseError):
    """A kernel failed while running: out of bounds, deadlock, endless loop, stack overflow.

    Attributes
    ----------
    findings : tuple of Finding, empty when the cause is not known
    """

    def __init__(self, message, findings=()):
        super().__init__(message)
        self.findings = tuple(findings)


class ShapeError(CourseError):
    """A tensor has the wrong shape, dtype, device or layout."""


class UnsupportedError(CourseError):
    """The request is not supported on this machine; the message says what is."""


class CheckFailed(CourseError):
    """Raised by ``check`` under COURSE_STRICT=1 when the verdict is not PASS; ``verdict`` holds it."""

    def __init__(self, message, verdict=None):
        super().__init__(message)
        self.verdict = verdict


class PageError(CourseError):
    """A page or a sequence of the KV pool is used against its state: released twice, unknown, written while shared."""


class OutOfPages(CourseError):
    """The KV pool has fewer free pages than a request needs; nothing was changed.

    Attributes
    ----------
    needed, free : int, pages
    """

    def __init__(self, needed, free):
        super().__init__(f"{needed} pages are needed and {free} are free; nothing was changed. Free a sequence first.")
        self.needed, self.free = needed, free


class ModelError(CourseError):
    """A checkpoint that does not fit its model, or a request that it cannot take; nothing was loaded or changed."""


class ServingError(CourseError):
    """A serving engine is used against its state: a wrong move of a sequence, a step committed twice, a lost page."""


class RefusedError(ServingError):
    """A request that can never be served: empty, longer than the model's context or than the whole KV pool."""


class BusyError(ServingError):
    """The queue is full; nothing was added.

    Attributes
    ----------
    retry_after : float, s, after which another try makes sense
    """

    def __init__(self, message, *, retry_after=1.0):
        super().__init__(message)
        self.retry_after = retry_after


class WorldError(CourseError):
    """The ranks of a parallel run do not fit together: they wait for each other in vain, or one of them failed.

    Attributes
    ----------
    rank : int or None, the rank that failed first; None where all ranks are part of it
    """

    def __init__(self, message, rank=None):
        super().__init__(message)
        self.rank = rank


class EngineStopped(ServingError):
    """The engine's thread failed or was stopped; the message says which, and what a restart needs."""


class TimedOut(ServingError):
    """A request was not finished in its time and was ended."""
