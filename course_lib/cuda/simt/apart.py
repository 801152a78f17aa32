"""A launch in a process of its own, for a kernel of a stranger: what it does to that process ends with it.

Only bytes come back: the runtime's result, what was printed, the memory of the tensors and of the kernel's variables.

May import: nothing of the course.
"""

import contextlib
import ctypes
import os
import struct
import sys

_LENGTHS = struct.Struct("<qqqq")  # of the runtime's status, of the result, of the printed text, of what was kept
_OUT = 3  # the only descriptor of the process


class _Symbol(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("at", ctypes.c_void_p),
    ]


def places(entry, variables):
    """[(address, bytes)] of the __device__ variables in the library that holds the address `entry`."""
    found = _Symbol()
    ctypes.CDLL(None).dladdr(ctypes.c_void_p(entry), ctypes.byref(found))
    return [(found.base + one.offset, one.bytes) for one in variables if one.kind == "device"]


def run(launch, enter, kept):
    """Call `launch` in a fork of this process.

    Parameters
    ----------
    launch : function that returns (status of the runtime, result, printed text), the last two as bytes
    enter : function that the fork calls first, to give up what a launch does not need
    kept : [(address, bytes)], memory that is afterwards as the launch left it

    Returns
    -------
    What `launch` returned. A fork that ends otherwise ends this process in the same way.
    """
    out = os.memfd_create("launch")
    try:
        pid = os.fork()
        if pid == 0:
            _launch_and_leave(launch, enter, kept, out)
        _require_end(os.waitpid(pid, 0)[1])
        with os.fdopen(os.dup(out), "rb") as file:
            file.seek(0)
            data = file.read()
    finally:
        os.close(out)
    return _taken(data, kept)


def _launch_and_leave(launch, enter, kept, out):
    code = 70
    try:
        os.dup2(out, _OUT)
        for number in map(int, os.listdir("/proc/self/fd")):
            with contextlib.suppress(OSError):
                os.close(number) if number != _OUT else None
        enter()
        status, result, printed = launch()
        parts = [result, printed, b"".join(ctypes.string_at(at, size) for at, size in kept)]
        data = memoryview(_LENGTHS.pack(status, *map(len, parts)) + b"".join(parts))
        while data:
            data = data[os.write(_OUT, data) :]
        code = 0
    finally:
        os._exit(code)


def _require_end(status):
    """Nothing when a fork came to its end; otherwise this process ends as it did."""
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    if status:
        sys.stdout.flush()
        os._exit(os.waitstatus_to_exitcode(status) % 256)


def _taken(data, kept):
    """(status, result, printed) from a fork's bytes; `kept` memory is written."""
    if len(data) < _LENGTHS.size or sum(size for _, size in kept) != _LENGTHS.unpack_from(data)[3]:
        raise ValueError("the process of the launch sent something else than its result")
    status, result, printed, _ = _LENGTHS.unpack_from(data)
    middle, end = _LENGTHS.size + result, _LENGTHS.size + result + printed
    left = data[end:]
    for at, size in kept:
        part, left = left[:size], left[size:]
        if ctypes.string_at(at, size) != part:
            ctypes.memmove(at, part, len(part))
    return status, data[_LENGTHS.size : middle], data[middle:end]
