"""Kernel source files: reading, includes, macros, line numbers, and compiler logs as CompileError.

Both engines resolve ``#include "common/…"`` against one root, and a ``#line`` in front makes every message carry the
author's own line.

May import: errors.
"""

import functools
import hashlib
import os
import re
from pathlib import Path

from ..errors import CompileError

KERNELS_ROOT = Path(__file__).resolve().parents[2] / "kernels_cu"
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"\n]+)"', re.MULTILINE)
_DIAGNOSTIC = re.compile(
    r"^(?P<file>[^\n(]+)\((?P<line>\d+)\): (?P<kind>error|catastrophic error|warning)(?P<text>.*)$", re.MULTILINE
)


def read(path):
    """Return (text, name for messages) of a kernel file.

    Parameters
    ----------
    path : str or Path, relative to kernels_cu/ ("softmax/02_online.cu") or absolute

    Raises
    ------
    FileNotFoundError   lists the kernel files of that folder
    """
    file = Path(path)
    file = file if file.is_absolute() else KERNELS_ROOT / file
    if not file.is_file():
        folder = file.parent
        available = sorted(item.name for item in folder.glob("*.cu")) if folder.is_dir() else []
        listing = f"{folder.name}/ holds: {', '.join(available)}" if available else f"no kernels are in {folder.name}/"
        raise FileNotFoundError(f"kernels_cu has no file {path}; {listing}.")
    inside = file.is_relative_to(KERNELS_ROOT)
    return file.read_text(encoding="utf-8"), str(file.relative_to(KERNELS_ROOT.parent)) if inside else str(file)


def stamp(file):
    """Return what changes when a file does: time of its last change in nanoseconds and its bytes; None without it."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def included_files(text, *, filename="<cell>"):
    """Return the course headers that `text` includes, directly or through another, as {path: text}.

    Parameters
    ----------
    text : str, CUDA C++; only ``#include "…"`` counts, system headers are left to the compiler

    Raises
    ------
    CompileError   an include that kernels_cu/ does not have, with its line
    """
    headers, queue = {}, [(text, filename)]
    while queue:
        current, name = queue.pop()
        for match in _INCLUDE.finditer(current):
            header = KERNELS_ROOT / match.group(1)
            if header in headers:
                continue
            if not header.is_file():
                line = current.count("\n", 0, match.start()) + 1
                available = ", ".join(sorted(f"common/{item.name}" for item in (KERNELS_ROOT / "common").glob("*")))
                message = (
                    f'{name}, line {line}: #include "{match.group(1)}" is not under kernels_cu/. '
                    f"Available headers: {available or 'none'}."
                )
                raise CompileError(message, filename=name, line=line, log=message)
            headers[header] = header.read_text(encoding="utf-8")
            queue.append((headers[header], match.group(1)))
    return headers


def with_headers_digest(text, *, filename="<cell>"):
    """Append a comment that changes when an included course header changes.

    Disk caches are keyed by the text; without the comment an edited header would not be recompiled.
    """
    headers = included_files(text, filename=filename)
    if not headers:
        return text
    digest = hashlib.sha256("\0".join(f"{path.name}\0{body}" for path, body in sorted(headers.items())).encode())
    return f"{text.rstrip()}\n// headers {digest.hexdigest()[:16]}\n"


def with_line_numbers(text, filename, first_line):
    """Prepend a ``#line``: messages then name the author's file and line."""
    escaped = filename.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {first_line} "{escaped}"\n{text}'


def normalise_defines(defines):
    """Return macros as {name: text}: True and None are 1 (as -DNAME), False is 0.

    Raises
    ------
    CompileError   a name that is no C identifier
    """
    clean = {}
    for name, value in (defines or {}).items():
        if not re.fullmatch(r"[A-Za-z_]\w*", str(name)):
            raise CompileError(f'"{name}" cannot be a macro name; use letters, digits and _, as in BLOCK_M.')
        clean[name] = "1" if value is None else str(int(value)) if isinstance(value, bool) else str(value)
    return clean


def define_options(defines):
    """Return the ``-DNAME=VALUE`` options of normalised defines, sorted by name."""
    return [f"-D{name}={value}" for name, value in sorted(defines.items())]


@functools.cache
def cuda_headers():
    """Return the folders of the CUDA headers (cuda_fp16.h, mma.h), of the pip packages or a toolkit; a tuple of str."""
    folders = []
    try:
        from cuda.pathfinder import find_nvidia_header_directory

        folders += [find_nvidia_header_directory(part) for part in ("cudart", "cccl")]
    except (ImportError, RuntimeError):
        pass
    folders = [Path(folder) for folder in folders if folder]
    if not any((folder / "crt" / "mma.h").is_file() for folder in folders):  # the pip packages may lack crt
        roots = [os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
        folders += [Path(root) / "include" for root in roots if root]
    return tuple(dict.fromkeys(str(folder) for folder in folders if folder.is_dir()))


def compile_error(log, *, name, filename, defines, engine):
    """Return the CompileError for an NVRTC log.

    Parameters
    ----------
    log : str, messages of the form ``file(line): error: …``
    name : str, the kernel
    filename : str, as given to with_line_numbers
    engine : str, the compiler: "NVRTC for sm_90a"

    Returns
    -------
    error : CompileError; .line is the first error in the author's own file, or None
    """
    errors = [match for match in _DIAGNOSTIC.finditer(log) if "error" in match["kind"]]
    own = next((match for match in errors if match["file"].strip() == filename), None)
    first = own or (errors[0] if errors else None)
    line = int(own["line"]) if own else None
    if first is None:
        lines = [text for text in log.splitlines() if text.strip()]
        what = lines[0] if lines else "the compiler gave no reason"
    else:
        what = re.sub(r"^[ #\d\-A-Z]*: *", "", first["text"]).strip() or first["text"].strip()
    where = f"{filename}, line {line}" if line else f"{first['file']}, line {first['line']}" if first else filename
    options = " ".join(define_options(defines)) or "no macros"
    message = f"{where}: {what}\n(kernel {name}, {engine}, {options})\n{log.strip()}"
    return CompileError(message, filename=filename, line=line, log=log)
