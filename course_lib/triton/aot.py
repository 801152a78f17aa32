"""Compile a Triton function ahead of time, without a GPU: PTX, machine code, registers, shared memory, spills.

The compiler runs in a separate process, since a process has either the interpreter or the compiler. The process stays
alive, so that compiling many kernels starts it once.

May import: errors; triton only inside functions.
"""

import contextlib
import importlib.util
import io
import re
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from ..errors import ArgumentError, CompileError, UnsupportedError
from ..worker import worker
from . import source

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
SUPPORT = {
    "sm_75": "compiles, below Triton's own floor of compute capability 8.0: tl.dot runs without tensor cores, so tiles "
    "must be small",
    **dict.fromkeys(("sm_80", "sm_86", "sm_89"), "compiles; tl.dot uses mma.sync"),
    "sm_90": "compiles; tl.dot uses wgmma",
    "sm_100": "compiles; tl.dot uses tcgen05",
    "sm_120": "compiles; tl.dot uses mma.sync",
}
_ENVIRONMENT = {"TRITON_INTERPRET": "0"}


@dataclass(frozen=True)
class Compiled:
    """A Triton function as machine code for one architecture.

    Attributes
    ----------
    ptx : str
    cubin : bytes
    registers : int, per thread
    shared_bytes : int, shared memory of a program
    spill_bytes : int, bytes of local memory of each thread, for registers that do not fit
    warnings : tuple of str
    seconds : float, compile time; near 0 when it was in Triton's cache
    """

    name: str
    arch: str
    ptx: str
    cubin: bytes
    registers: int
    shared_bytes: int
    spill_bytes: int
    warnings: tuple
    seconds: float


def compile_for(fn, signature, constexprs, arch, **options):
    """Compile a Triton function for `arch`, without a GPU.

    Parameters
    ----------
    fn : a @triton.jit function, or "path/to/file.py:name" (the file is imported in the compiler's process)
    signature : dict, parameter -> Triton type: "*fp16", "*fp32", "i32", "fp32", …, for all that are not constexpr.
        Pointers count as multiples of 16 bytes, as torch allocates them; "i32:16" says the same of an integer
    constexprs : dict, parameter -> value
    arch : str, one of ARCHITECTURES
    options : num_warps, num_stages, …

    Returns
    -------
    compiled : Compiled

    Raises
    ------
    CompileError       with Triton's message; `line` is the author's
    UnsupportedError   this Triton cannot compile for `arch`
    ArgumentError      a parameter is in neither signature nor constexprs, or the file has no such function
    """
    if arch not in ARCHITECTURES:
        raise UnsupportedError(f"arch is {arch!r}; it must be one of {', '.join(ARCHITECTURES)}")
    function = _absolute(fn) if isinstance(fn, str) else source.capture(fn)
    request = {
        "function": function,
        "signature": dict(signature),
        "constexprs": dict(constexprs),
        "arch": arch,
        "options": options,
    }
    return Compiled(**worker(f"{__name__}:serve", _ENVIRONMENT).call(request))


def compile_here(fn, signature, constexprs, arch, **options):
    """Compile a @triton.jit function in this process, which must have Triton's compiler.

    Parameters
    ----------
    fn, signature, constexprs, arch, options : as in `compile_for`, but `fn` is Triton's JITFunction

    Returns
    -------
    tuple of str, the compiler's warnings
    """
    return _compile(fn, signature, constexprs, int(arch[3:].rstrip("a")), options)[1]


def support(arch):
    """Return one sentence for the support matrix: how Triton compiles for `arch`.

    Observed with triton 3.6.0 and 3.7.1; tests/unit/test_triton_aot.py compiles for each of them.
    """
    return SUPPORT[arch]


def _absolute(reference):
    path, _, name = reference.rpartition(":")
    if not Path(path).is_file():
        raise ArgumentError(f"fn is {reference!r}; a string must read path/to/file.py:name, and the file must exist")
    return f"{Path(path).resolve()}:{name}"


def serve(_caller):
    """The function that answers requests in the worker."""
    return handle


def handle(request):
    """In the worker: compile one function and return the fields of Compiled."""
    function, arch = request["function"], request["arch"]
    fn = _from_file(function) if isinstance(function, str) else source.restore(function)
    began = time.perf_counter()
    kernel, notes = _compile(fn, request["signature"], request["constexprs"], int(arch[3:]), request["options"])
    seconds = time.perf_counter() - began
    cubin = kernel.asm["cubin"]
    registers, stack = _resources(cubin)
    return {
        "name": fn.__name__,
        "arch": arch,
        "ptx": kernel.asm["ptx"],
        "cubin": cubin,
        "registers": registers,
        "shared_bytes": kernel.metadata.shared,
        "spill_bytes": stack,
        "warnings": notes,
        "seconds": seconds,
    }


def _compile(fn, signature, constexprs, capability, options):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types, attributes = _types(fn, signature, constexprs)
    target, printed = GPUTarget("cuda", capability, 32), io.StringIO()
    try:
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
            warnings.simplefilter("always")
            ast_source = ASTSource(fn=fn, signature=types, constexprs=constexprs, attrs=attributes)
            kernel = triton.compile(ast_source, target=target, options=options)
    except Exception as error:
        raise _compile_error(fn, capability, error, printed.getvalue()) from error
    return kernel, tuple(str(w.message) for w in caught)


def _types(fn, signature, constexprs):
    """Return Triton's form of the signature: the type of every parameter, and which are multiples of 16."""
    unknown = [name for name in (*signature, *constexprs) if name not in fn.arg_names]
    missing = [name for name in fn.arg_names if name not in signature and name not in constexprs]
    if unknown or missing:
        raise ArgumentError(
            f"{fn.__name__}({', '.join(fn.arg_names)}) got a signature without {', '.join(missing) or 'nothing'} "
            f"and with the unknown {', '.join(unknown) or 'nothing'}"
        )
    types, attributes = {}, {}
    for number, name in enumerate(fn.arg_names):
        kind, _, multiple = signature[name].partition(":") if name in signature else ("constexpr", "", "")
        types[name] = kind
        if kind.startswith("*") or multiple == "16":
            attributes[number,] = [["tt.divisibility", 16]]
    return types, attributes


def _compile_error(fn, capability, error, printed):
    """Return Triton's error as a CompileError: its sentence, the author's line, everything else in `log`."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    node = getattr(error, "node", None)
    line = None if node is None else fn.starting_line_number + node.lineno - 1
    where = "" if line is None else f" at line {line}"
    sentence = str(getattr(cause, "error_message", None) or cause).strip() or type(cause).__name__
    return CompileError(
        f"{fn.__name__} does not compile for sm_{capability}{where}: {sentence.splitlines()[-1]}",
        filename=fn.fn.__code__.co_filename,
        line=line,
        log=f"{error}\n{printed}",
    )


def _resources(cubin):
    """Return (registers, stack bytes) of a thread, read from the machine code with cuobjdump of triton's wheel."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True)
    return tuple(int(re.search(rf"{key}:(\d+)", done.stdout).group(1)) for key in ("REG", "STACK"))


def _from_file(function):
    """Import "path:name"; a file inside a package is imported as its module, so that relative imports work."""
    path, name = function.split(":")
    path, package = Path(path), []
    folder = path.parent
    while (folder / "__init__.py").exists():
        package.insert(0, folder.name)
        folder = folder.parent
    dotted = ".".join([*package, path.stem])
    stamp = path.stat().st_mtime_ns
    module = sys.modules.get(dotted)
    if module is None or getattr(module, "_course_stamp", None) != stamp:
        if package and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        if package:
            importlib.import_module(".".join(package))
        spec = importlib.util.spec_from_file_location(dotted, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[dotted] = module
        spec.loader.exec_module(module)
        module._course_stamp = stamp
    fn = getattr(module, name, None)
    if fn is None:
        raise ArgumentError(f"{path.name} has no function {name}")
    while hasattr(fn, "configs") or not hasattr(fn, "arg_names"):
        fn = fn.fn
    return fn
