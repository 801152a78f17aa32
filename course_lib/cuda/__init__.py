"""CUDA source -> Kernel: one API, two engines (a GPU through CuPy, any CPU through the SIMT machine).

    from course_lib import cuda
    kernel = cuda.load("softmax/02_online.cu", defines={"BLOCK": 128})
    kernel(grid, block, x, out, num_rows, num_cols)
    report = kernel.profile(grid, block, x, out, num_rows, num_cols)  # as written
    print(cuda.compare(report, kernel.as_compiled("sm_90")))          # beside as compiled

May import: errors, notation, device.
"""

import time

from .. import device
from .kernel import Kernel, launch_count
from .ledgers import compare
from .source import KERNELS_ROOT, included_files, normalise_defines, read, stamp, with_headers_digest
from .tensor_map import TensorMap, tensor_map

__all__ = [
    "KERNELS_ROOT",
    "Kernel",
    "TensorMap",
    "compare",
    "compile",
    "is_newest",
    "launch_count",
    "load",
    "tensor_map",
    "with_edits",
    "without_line",
]

_MAX_KERNELS = 256
_kernels = {}  # what a kernel is made of -> Kernel
_loaded = {}  # arguments of `load` and the engine -> (Kernel, {file: stamp}, when they were looked at)
LOOK_EVERY = 0.2  # seconds between two looks at the files of a kernel: no editor is faster, a loop of launches is


def compile(source, name=None, *, defines=None, filename="<cell>", first_line=1, checked=False):  # noqa: A001 - part of the API
    """Compile CUDA C++ text.

    Parameters
    ----------
    source : str, CUDA C++ with an ``extern "C" __global__`` function; ``#include "common/…"`` finds kernels_cu/common
    name : str or None; None takes the only kernel of the source
    defines : mapping of macro name to number or text, passed as -D
    filename, first_line : shown in messages, so that an error names the author's own line
    checked : bool; compile for `profile` now and for a launch at the first one, instead of the reverse

    Returns
    -------
    kernel : Kernel

    Raises
    ------
    SignatureError   no such kernel, or several and no name
    CompileError     with file, line, the -D set and the compiler's log
    ToolchainError   no compiler on this machine; the message says what to install
    """
    return _kernel(source, name, defines, filename, first_line).build(checked)


def without_line(kernel, words):
    """A kernel without the first line of its text that contains `words`; line numbers stay as they are. It is compiled
    as one that `load` returns.

    Parameters
    ----------
    kernel : Kernel
    words : str, as in the comment of a barrier

    Returns
    -------
    broken : Kernel

    Raises
    ------
    ValueError  no line contains the words
    """
    lines = kernel.source.splitlines()
    number = next((number for number, line in enumerate(lines) if words in line), None)
    if number is None:
        raise ValueError(f"no line of {kernel.name} contains {words!r}; its text is in kernel.source")
    lines[number] = ""
    return _at_first_use("\n".join(lines), kernel.name, kernel.defines)


def with_edits(kernel, *edits):
    """A kernel with parts of its text replaced, compiled as one that `load` returns.

    Parameters
    ----------
    kernel : Kernel
    edits : pairs (old, new) of str; each `old` is once in the text

    Returns
    -------
    edited : Kernel

    Raises
    ------
    ValueError  an `old` that is not once in the text
    """
    source = kernel.source
    for old, new in edits:
        if source.count(old) != 1:
            raise ValueError(f"{old!r} is {source.count(old)} times in {kernel.name}; it must be there once")
        source = source.replace(old, new)
    return _at_first_use(source, kernel.name, kernel.defines)


def load(path, name=None, *, defines=None):
    """A kernel of a file; the same one as long as neither it nor a header of it changes, so launchers load at every
    call. A change is seen LOOK_EVERY seconds later at the latest.

    It is compiled for a GPU at once. On the CPU a launch and a profile need different builds, and the first of each
    makes its own.

    Parameters
    ----------
    path : str, relative to kernels_cu/, as in "softmax/02_online.cu"
    name, defines : as in `compile`

    Returns
    -------
    kernel : Kernel
    """
    key = (path, name, tuple(defines.items()) if defines else (), device.engine())
    kernel, stamps, looked = _loaded.get(key, (None, {}, 0.0))
    now = time.monotonic()
    if kernel is not None and now - looked < LOOK_EVERY:
        return kernel
    if kernel is None or any(stamp(file) != before for file, before in stamps.items()):
        text, shown = read(path)
        stamps = {file: stamp(file) for file in (KERNELS_ROOT / path, *included_files(text, filename=shown))}
        kernel = _at_first_use(text, name, defines, shown)
    _keep(_loaded, key, (kernel, stamps, now))
    kernel.origin = path, name, defines
    return kernel


def is_newest(kernel):
    """Whether a kernel that `load` returned is what it would return now, for the engine that would run it."""
    path, name, defines = kernel.origin
    return load(path, name, defines=defines) is kernel


def _at_first_use(source, name, defines, filename="<cell>"):
    """The Kernel of this text, compiled for a GPU if there is one, else not yet."""
    kernel = _kernel(source, name, defines, filename, 1)
    return kernel.build() if device.engine() == "gpu" else kernel


def _kernel(source, name, defines, filename, first_line):
    """The Kernel of this text, made once, not compiled."""
    key = (
        with_headers_digest(source, filename=filename),
        name,
        frozenset(normalise_defines(defines).items()),
        filename,
        first_line,
        device.engine(),
    )
    if key not in _kernels:
        _keep(_kernels, key, Kernel(source, name, defines=defines, filename=filename, first_line=first_line))
    return _kernels[key]


def _keep(cache, key, value):
    """Store a value; the oldest one goes when the cache is full."""
    while key not in cache and len(cache) >= _MAX_KERNELS:
        cache.pop(next(iter(cache)))
    cache[key] = value
