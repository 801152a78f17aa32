"""Which C++ compiler builds kernels: the system's own, or a newer one beside it.

May import: errors.
"""

import errno
import functools
import os
import platform
import shutil
import subprocess

from ...errors import ToolchainError, UnsupportedError

AS_TEXT = {"capture_output": True, "encoding": "utf-8", "errors": "replace", "check": False}  # in any locale
LEAST_GCC = 12
INSTALL = (
    "The SIMT machine needs a C++17 compiler (g++ 12 or newer, or clang++ 19). Install one: "
    "Debian/Ubuntu `sudo apt-get install g++`, conda `conda install -c conda-forge gxx`. "
    "If a compiler is installed under another path, set COURSE_CXX to it."
)


@functools.cache
def compiler():
    """Return path, family ("gcc" or "clang") and version line of the C++ compiler.

    Raises
    ------
    ToolchainError     no compiler; the message says how to install one
    UnsupportedError   not Linux
    """
    if platform.system() != "Linux":
        raise UnsupportedError(
            "The SIMT machine runs on Linux and WSL2; on this system use WSL2, a container, or a GPU."
        )
    chosen, too_old = os.environ.get("COURSE_CXX"), ""
    for name in [chosen] if chosen else _usual_names():
        path = shutil.which(name)
        if path:
            version = subprocess.run([path, "--version"], **AS_TEXT).stdout
            family = "clang" if "clang" in version.lower() else "gcc"
            if sentence := _too_old(path, family):
                too_old = too_old or sentence
            else:
                return path, family, version.splitlines()[0] if version else name
    raise ToolchainError(
        too_old or (INSTALL if not chosen else f"COURSE_CXX names {chosen!r}, which does not exist. {INSTALL}")
    )


def run_compiler(arguments, **options):
    """Run the compiler with these arguments; OSError where the disk is full, which it says in words only."""
    done = subprocess.run([compiler()[0], *map(str, arguments)], **AS_TEXT, **options)
    if done.returncode and (full := os.strerror(errno.ENOSPC)) in done.stderr:
        raise OSError(errno.ENOSPC, full)  # build_into says it
    return done


def _usual_names():
    """Names of compilers, the system's own first; a newer g++ beside one that is too old comes before clang++."""
    newer = [f"g++-{major}" for major in range(LEAST_GCC + 4, LEAST_GCC - 1, -1)]
    return ["g++", f"{platform.machine()}-conda-linux-gnu-g++", *newer, "clang++", "c++"]


def _too_old(path, family):
    """A sentence for a g++ that lacks flags of the checked build; a clang is judged by the self-check alone."""
    if family != "gcc":
        return ""
    said = subprocess.run([path, "-dumpversion"], **AS_TEXT).stdout
    major = said.split(".")[0].strip()
    if not major.isdigit() or int(major) >= LEAST_GCC:
        return ""
    return (
        f"{path} is g++ {major}; the SIMT machine needs g++ {LEAST_GCC} or newer. Debian/Ubuntu: "
        f"`make system-packages`, or `sudo apt-get install g++-{LEAST_GCC}`, which the course then finds; "
        f"COURSE_CXX=g++-{LEAST_GCC} names another compiler."
    )
