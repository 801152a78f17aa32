"""The Triton engine of the course: interpreter or GPU, what a launch reads and writes, compiling without a GPU.

    profile_triton(fn, grid, *args, **constexprs)   -> TritonReport
    with ledger(outputs=…) as report: …             launches inside it run checked
    compile_for(fn, signature, constexprs, arch)    -> Compiled, no GPU needed
    launch_count()                                  launches of this process so far

Importing this package is light; torch and triton are imported at first use.

May import: errors, notation.
"""

import importlib

_LAZY = {
    "profile_triton": ".profile",
    "ledger": ".recorder",
    "TritonReport": ".report",
    "Finding": ".report",
    "compile_for": ".aot",
    "Compiled": ".aot",
}
__all__ = [*_LAZY, "launch_count"]


def launch_count():
    """Return how many Triton kernels this process has launched, on the interpreter and on the GPU together.

    Calls of device functions inside a kernel do not count. Counting starts with ``import course_lib``.
    """
    from . import _private

    return _private.launches()


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'course_lib.triton' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name], __name__), name)
