"""The CPU engine: a SIMT machine that runs CUDA C++ text, counts what it does and says what is wrong with it.

`build` compiles a kernel with the system's C++ compiler against headers that give CUDA's words a meaning; the runtime
(C++, built once) runs every CUDA thread as a fiber.

May import: errors.
"""

from .build import compile_kernel
from .machine import Module
from .report import KINDS, Finding, Report
from .selfcheck import self_check

__all__ = ["KINDS", "Finding", "Module", "Report", "build"]


def build(source, name, parameters, *, defines=None, filename="<cell>", first_line=1, mode="fast"):
    """A kernel as something that can be launched.

    Parameters
    ----------
    source : str, CUDA C++
    name : str, the kernel; an instance of a template is named as in C++: "softmax<128>"
    parameters : list of signature.Parameter
    defines : dict or None, as with -D
    filename, first_line : what errors and findings call the text
    mode : "fast" (optimised, for results) or "checked" (for Module.profile)

    Raises
    ------
    CompileError     with the author's file and line
    ToolchainError   no C++ compiler; the message says how to get one
    """
    if mode == "checked":
        self_check()
    options = {"defines": defines, "filename": filename, "first_line": first_line}
    path = compile_kernel(source, name, mode=mode, **options)
    return Module(path, name, parameters, filename=filename, mode=mode)
