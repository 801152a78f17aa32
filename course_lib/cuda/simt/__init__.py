"""The CPU engine: a SIMT machine that runs CUDA C++, counts its memory traffic and reports errors.

`build` compiles a kernel with the system's C++ compiler against headers that define CUDA's keywords and functions; the
runtime (C++, built once) runs every CUDA thread as a fiber.

May import: errors.
"""

from ...errors import CompileError
from ..signature import kernel_names
from .build import compile_kernel
from .lines import static_shared_bytes
from .machine import STATIC_SHARED_LIMIT, Module
from .report import KINDS, Finding, Report
from .selfcheck import self_check

__all__ = ["KINDS", "Finding", "Module", "Report", "build"]


def build(source, name, parameters, *, defines=None, filename="<cell>", first_line=1, mode="fast"):
    """Compile a kernel and load it.

    Parameters
    ----------
    source : str, CUDA C++
    name : str, the kernel; an instance of a template is named as in C++: "softmax<128>"
    parameters : list of signature.Parameter
    defines : dict or None, as with -D
    filename, first_line : shown in errors and findings
    mode : "fast" (optimised, for results) or "checked" (for Module.profile)

    Returns
    -------
    module : Module

    Raises
    ------
    CompileError     with the author's file and line; more than 48 KB of declared shared memory
    ToolchainError   no C++ compiler; the message says how to get one
    """
    if mode == "checked":
        self_check()
    options = {"defines": defines, "filename": filename, "first_line": first_line}
    path = compile_kernel(source, name, mode=mode, **options)
    module = Module(path, name, parameters, filename=filename, mode=mode, source=(source, first_line))
    module.static_shared = static_shared_bytes(module.variables, name, set(kernel_names(source)) - {name})
    if module.static_shared > STATIC_SHARED_LIMIT:
        message = (
            f"{name} does not compile: its __shared__ variables take {module.static_shared:,} bytes, and a kernel may "
            f"declare {STATIC_SHARED_LIMIT:,} (48 KB). Use dynamic shared memory for more: extern __shared__ float "
            f"tile[];, and shared_bytes in the launch."
        )
        raise CompileError(message, filename=filename, log=message)
    return module
