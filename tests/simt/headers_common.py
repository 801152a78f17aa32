"""Compiles a few lines of device code over the machine's headers, without the machine: numbers need no runtime.

Functions that touch no hook can be called straight from Python; hooks stay unresolved and are never reached.
"""

import ctypes
import hashlib
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

INCLUDE = Path(__file__).parents[2] / "course_lib" / "cuda" / "simt" / "include"
COMPILERS = [name for name in ("g++", "clang++") if shutil.which(name)]
BUILDS = {"fast": ["-DSIMT_FAST", "-O2"], "checked": ["-DSIMT_CHECKED", "-O1"]}
FLAGS = ["-std=c++17", "-shared", "-fPIC", "-fno-strict-aliasing", "-fno-builtin"]
FLAGS += ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]


@cache
def processor_has_f16c() -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and " f16c" in cpuinfo.read_text()


def compile_library(directory, source, *, compiler=None, build="fast", extra=()) -> ctypes.CDLL:
    """The shared library of `source` (C++ text that includes what it needs) under one build mode of the machine."""
    if not COMPILERS:
        pytest.fail("expected g++ or clang++ on this machine to compile device headers, found neither")
    compiler = compiler or COMPILERS[0]
    command = [compiler, *FLAGS, *BUILDS[build], *extra, f"-I{INCLUDE}"]
    stem = hashlib.sha256(repr((command, source)).encode()).hexdigest()[:12]
    text, library = Path(directory, f"{stem}.cpp"), Path(directory, f"{stem}.so")
    text.write_text(source)
    run = subprocess.run([*command, "-o", library, text], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[:4000]
    return ctypes.CDLL(str(library))


def call(library, name, *arrays):
    """Calls ``name(pointers…, count)`` of `elementwise`; n is the length of the first; returns the last."""
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    getattr(library, f"probe_{name}")(*pointers, ctypes.c_longlong(len(arrays[0])))
    return arrays[-1]


def elementwise(signature, *statements) -> str:
    """C text of one function per (name, statement) that loops over i; `signature` names the pointer parameters."""
    return "\n".join(
        f'extern "C" void probe_{name}({signature}, long long n) {{ for (long long i = 0; i < n; ++i) {{ {body} }} }}'
        for name, body in statements
    )


def empty(count, dtype):
    """An array filled with a pattern that no result has, so that an element never written is noticed."""
    return np.full(count, 0x5A, dtype=np.uint8).repeat(np.dtype(dtype).itemsize).view(dtype)
