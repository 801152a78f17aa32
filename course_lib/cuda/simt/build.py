"""Build kernel libraries, the runtime and the precompiled header with the system's C++ compiler.

Two modes: fast (optimised, for results) and checked (every access and every basic block calls the runtime). A built
file is named by a hash of everything it depends on.

May import: errors, simt.cache, simt.clang, simt.compilers, simt.host_calls, simt.link, simt.source.
"""

import contextlib
import functools
import hashlib
import os
import tempfile
from pathlib import Path

from ...errors import ToolchainError
from .cache import build_into, cache_dir, no_space, prune, publish_once
from .clang import as_of_gcc
from .compilers import compiler, run_compiler
from .host_calls import refuse_host_calls
from .link import link, link_files
from .source import (
    compile_error,
    may_poll,
    refuse_host_headers,
    translation_unit,
    with_red_zones,
    with_unset_nan,
    without_plain_hooks,
)

HERE = Path(__file__).parent
INCLUDE, RUNTIME = HERE / "include", HERE / "runtime"
KERNELS = HERE.parents[2] / "kernels_cu"

COMMON_FLAGS = (
    "-std=c++17",
    "-fPIC",
    "-fvisibility=hidden",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-finite-loops",
    "-fno-delete-null-pointer-checks",
    "-fno-stack-protector",  # a default of Ubuntu: an array overrun would abort where it has to be named
    "-fstack-clash-protection",  # touches every page of a large frame, so that it cannot skip the guard page
    "-ftrivial-auto-var-init=pattern",  # an uninitialised accumulator must not be 0 by chance
    "-pthread",
)
# Of a thousand kernels that run once each, compiling takes most of the time: the tests ask for -Og.
FAST_LEVEL = os.environ.get("COURSE_FAST_LEVEL", "-O2")
# A tail call (a last assert, a last barrier) becomes a jump without a return address, and so has no line.
FAST_FLAGS = (FAST_LEVEL, "-fno-optimize-sibling-calls", "-gdwarf-4", "-g1", "-DSIMT_FAST")
# No optimisation that merges, splits, moves or duplicates accesses: the ledger counts the source.
CHECKED_FLAGS = ("-gdwarf-4", "-g1", "-fno-builtin", "-DSIMT_CHECKED", "-fsanitize=thread")
CHECKED_GCC = (
    "-O1",
    "-fsanitize-coverage=trace-pc",
    "-fno-tree-vectorize",
    "-fno-tree-slp-vectorize",
    "-fno-tree-sra",
    "-fno-tree-loop-im",
    "-fno-tree-sink",
    "-fno-tree-phiprop",
    "-fno-ssa-phiopt",
    "-fno-split-paths",
    "-fno-thread-jumps",
    "-fno-tree-dominator-opts",
    "-fno-tree-ch",
    "-fno-reorder-blocks",
    "-fno-if-conversion",
    "-fno-if-conversion2",
    "-fno-ipa-sra",
    "-fno-ipa-icf",
    "-fno-section-anchors",  # on Arm, variables are addressed relative to the first one: red zones change the distance
    "--param=tsan-distinguish-volatile=1",
    # Calls the runtime for an index past a declared array and for a misaligned load or store. Expanded after the
    # coverage, so that the checks add no basic blocks.
    "-fsanitize=alignment,bounds-strict",
)
# Even -O1 of clang merges branches or turns them into selects; by default it does not instrument blocks and reads that
# others imply, and adds a block to each edge between two branches.
CHECKED_CLANG = (
    "-O0",
    "-fsanitize-coverage=trace-pc,bb,no-prune",
    "-mllvm",
    "-tsan-instrument-read-before-write=1",
    "-mllvm",
    "-tsan-distinguish-volatile=1",
    "-fsanitize=alignment,array-bounds",  # the same calls as of g++; clang.py takes their basic blocks out
    "-fstrict-flex-arrays=3",  # else the last array of a structure counts as one without an end
)
WARNINGS = ("-Wno-unused", "-Wno-unknown-pragmas", "-Wno-attributes")


@functools.cache
def _tree_hash(*folders):
    """Hash every file under `folders`, by name and contents."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


# A build depends on how it is made as well.
_HOW = "".join((HERE / name).read_text("utf-8") for name in ("build.py", "clang.py", "link.py", "source.py"))


def _hash(*parts):
    parts = (*parts, _HOW)
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:24]


def _flags(mode):
    """Return the compiler flags of a mode, for the compiler at hand."""
    family = compiler()[1]
    if mode == "fast":
        return COMMON_FLAGS + FAST_FLAGS + WARNINGS
    return COMMON_FLAGS + CHECKED_FLAGS + (CHECKED_GCC if family == "gcc" else CHECKED_CLANG) + WARNINGS


def _volatile_flags():
    """A thread that polls a volatile flag must give way to the one that sets it: volatile accesses call the runtime."""
    name = ("--param=tsan-distinguish-volatile=1",)
    return ("-fsanitize=thread", *(name if compiler()[1] == "gcc" else ("-mllvm", "-tsan-distinguish-volatile=1")))


def runtime_library():
    """Return the path of the runtime, compiled on first use (a few seconds, once for each version)."""
    flags = ("-std=c++17", "-O3", "-gdwarf-4", "-g1", "-fPIC", "-fvisibility=hidden", "-fwrapv", "-pthread")
    flags += ("-U_FORTIFY_SOURCE",)  # where it is the default: its longjmp refuses to leave a fiber's stack
    key = _hash(compiler()[2], flags, _tree_hash(RUNTIME), (INCLUDE / "simt" / "tensor_map.h").read_text("utf-8"))
    target = cache_dir() / f"libsimt-{key}.so"

    def make(path):
        done = run_compiler(
            [*flags, "-shared", f"-Wl,-soname,{target.name}", "-o", path, RUNTIME / "unity.cpp", "-ldl"]
        )
        if done.returncode:
            raise ToolchainError(
                f"The SIMT machine's runtime did not compile with {compiler()[2]}:\n{done.stderr[:4000]}"
            )

    return build_into(target, make)


def _dynamic_shared_object():
    """Return the path of an object file with the buffer behind every `extern __shared__` array.

    It is linked last, so the buffer is at the end of the thread-local segment. Its size is that of DYNAMIC_BYTES.
    """
    text = (
        'extern "C" { __attribute__((aligned(1024))) __thread unsigned char simt_dynamic_buffer[240 * 1024];\n'
        '__attribute__((visibility("default"))) unsigned char* simt_dynamic_base() { return simt_dynamic_buffer; } }\n'
    )
    target = cache_dir() / f"dynamic-{_hash(compiler()[2], text)}.o"

    def make(path):
        done = run_compiler(["-x", "c++", "-O1", "-fPIC", "-c", "-o", path, "-"], input=text)
        if done.returncode:
            raise ToolchainError(f"{compiler()[2]} does not compile thread-local storage:\n{done.stderr[:4000]}")

    return build_into(target, make)


def _forced_header(mode, more_flags=()):
    """Return the path of the header to force in; its precompiled form is in the same folder."""
    flags = _flags(mode) + more_flags
    key = _hash(compiler()[2], flags, _tree_hash(INCLUDE), INCLUDE)
    folder = cache_dir() / f"header-{mode}-{key}"
    header = folder / "machine.h"
    precompiled = folder / ("machine.h.gch" if compiler()[1] == "gcc" else "machine.h.pch")
    with no_space(folder):
        folder.mkdir(exist_ok=True)
        if not header.exists():  # written once: clang compares its time with that of the precompiled form
            with tempfile.TemporaryDirectory(dir=folder) as made:
                text = Path(made) / "machine.h"
                text.write_text('#include "simt/machine.h"\n')
                with contextlib.suppress(FileExistsError):  # another process was first
                    publish_once(text, header)

    def make(path):
        done = run_compiler([*flags, f"-I{INCLUDE}", "-x", "c++-header", header, "-o", path])
        if done.returncode:
            raise ToolchainError(
                f"The SIMT machine's headers did not compile with {compiler()[2]}:\n{done.stderr[:4000]}"
            )

    build_into(precompiled, make)
    return header


def machine_files():
    """Return the paths of what every checked kernel is built with, built where missing, and the self-check's mark."""
    passed = cache_dir() / f"passed-{checked_key()}"
    made = [runtime_library(), _dynamic_shared_object(), _forced_header("checked").parent, *link_files()]
    return made + [passed] * passed.exists()


def checked_key():
    """Return a key of everything besides its text that the checked build of a kernel depends on."""
    return _hash(compiler()[2], _flags("checked"), _tree_hash(RUNTIME), _tree_hash(INCLUDE))


def compile_kernel(source, name, *, defines, filename, first_line, mode):
    """Return the path of the kernel's library, from the cache or newly built.

    Raises
    ------
    CompileError     with the author's file and line
    ToolchainError   no compiler
    """
    refuse_host_headers(source, name, filename, first_line)
    text = translation_unit(source, name, defines, first_line)
    common = _tree_hash(KERNELS / "common") if (KERNELS / "common").is_dir() else ""
    key = _hash(compiler()[2], _flags(mode), runtime_library().name, _tree_hash(INCLUDE), common, text)
    target = cache_dir() / f"kernel-{mode}-{key}.so"
    if target.exists():
        with contextlib.suppress(OSError):
            os.utime(target)  # mark as used now: prune deletes the least recently used
        return target

    def make(path):
        assembly = path.with_suffix(".s")
        polls = mode == "fast" and may_poll(source)
        done = _assemble(text, mode, assembly, _volatile_flags() if polls else ())
        if done.returncode:
            raise compile_error(done.stderr, name, filename, source, first_line)
        machine_code = with_unset_nan(assembly.read_text("utf-8"), source)
        if polls:
            machine_code = without_plain_hooks(machine_code)
        if compiler()[1] == "clang":
            machine_code = as_of_gcc(machine_code, source)
        assembly.write_text(with_red_zones(machine_code) if mode == "checked" else machine_code, "utf-8")
        dynamic = [_dynamic_shared_object()] if "simt_dynamic_buffer" in text else []
        done = link(assembly, path, [*dynamic, runtime_library()])
        if done.returncode:
            raise compile_error(done.stderr, name, filename, source, first_line)
        if os.environ.get("COURSE_SANDBOXED") == "1":
            refuse_host_calls(path, name, filename)

    if key.startswith("0"):  # one build of 16: it looks at every file
        prune(cache_dir())
    return build_into(target, make)


def _assemble(text, mode, assembly, more_flags):
    """Compile a translation unit to assembly text, which can still be edited."""
    header = _forced_header(mode, more_flags if compiler()[1] == "clang" else ())  # clang wants the flags of the kernel
    includes = (f"-I{INCLUDE}", f"-I{KERNELS}", "-include", header)
    return run_compiler([*_flags(mode), *more_flags, *includes, "-S", "-o", assembly, "-x", "c++", "-"], input=text)
