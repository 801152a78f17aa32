"""The compile gate: kernels to machine code for every architecture of the support matrix, without a GPU.

A kernel that only works on the SIMT machine must not land. NVRTC needs no driver, so the gate runs on any Linux laptop:
``python -m course_lib.cuda.gate`` prints registers, shared memory and spills of every kernel; with ``--write`` it also
stores what runs where in kernels_cu/support.csv, from which README's support matrix is made, and in
kernels_cu/compiled.csv a digest of what each file was compiled from. `make test` compiles the files whose digest is not
there: changed ones, those with a changed header, and all of them with another NVRTC.

What a kernel file promises, it says in its own header (steps.py, kernels_cu/README.md).

May import: errors, source, nvrtc, signature, simt, steps.
"""

import csv
import hashlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ..errors import CompileError
from . import nvrtc, signature, simt
from .nvrtc import Resources, compile_cubin
from .source import KERNELS_ROOT, with_headers_digest
from .steps import ARCHITECTURES, architectures, kernel_files, needs, variants

SUPPORT, COMPILED = KERNELS_ROOT / "support.csv", KERNELS_ROOT / "compiled.csv"
HERE = Path(__file__).parent
MACHINES = ("cpu", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120")  # columns of the support matrix


@dataclass(frozen=True)
class Row:
    """One line of the gate's table."""

    path: str
    kernel: str
    arch: str
    defines: str
    resources: Resources
    notes: str
    seconds: float


def check_file(path, archs=None):
    """Compile one file for the architectures it promises.

    Parameters
    ----------
    path : Path
    archs : iterable of str or None; only these of the promised ones

    Returns
    -------
    rows : list of Row, one for each kernel, variant and architecture
    """
    text = path.read_text(encoding="utf-8")
    shown = str(path.relative_to(KERNELS_ROOT.parent)) if path.is_relative_to(KERNELS_ROOT) else str(path)
    rows = []
    for defines in variants(text):
        for arch in architectures(text):
            if archs is not None and arch not in archs:
                continue
            start = time.perf_counter()
            cubin = compile_cubin(text, arch=arch, defines=defines, filename=shown)
            seconds = time.perf_counter() - start
            options = " ".join(f"-D{key}={value}" for key, value in defines.items())
            rows += [
                Row(shown, name, arch, options, resources, cubin.notes, seconds)
                for name, resources in cubin.resources.items()
            ]
    return rows


def digest(path):
    """A hash of everything that decides what the compiler makes of a file.

    Parameters
    ----------
    path : Path, the file; its headers, this package's way to call the compiler and NVRTC's version count as well
    """
    parts = [with_headers_digest(path.read_text(encoding="utf-8")), nvrtc.version()]
    parts += [(HERE / name).read_text(encoding="utf-8") for name in ("gate.py", "nvrtc.py", "source.py", "steps.py")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def compiled_before(path):
    """Whether exactly this has been compiled, by ``--write``, for every architecture and without a spill."""
    if not COMPILED.is_file():
        return False
    with COMPILED.open(newline="", encoding="utf-8") as file:
        known = {row["file"]: row["digest"] for row in csv.DictReader(file)}
    return known.get(path.relative_to(KERNELS_ROOT).as_posix()) == digest(path)


def support(path, rows):
    """What one file does on every machine of the support matrix.

    Parameters
    ----------
    path : Path
    rows : list of Row, what `check_file` gave for it

    Returns
    -------
    states : list of dict with file, machine, state ("compiles", "emulated" or "refused") and note, why it is refused
    """
    text = path.read_text(encoding="utf-8")
    file = path.relative_to(KERNELS_ROOT).as_posix()
    compiled = {row.arch.removesuffix("a") for row in rows}
    found = [{"file": file, "machine": "cpu", **_on_cpu(text)}]
    for machine in MACHINES[1:]:
        state, note = ("compiles", "") if machine in compiled else ("refused", f"needs {needs(text)}")
        found.append({"file": file, "machine": machine, "state": state, "note": note})
    return found


def _on_cpu(text):
    """State and note of a file on the SIMT machine: its first variant, every kernel."""
    try:
        for name in signature.kernel_names(text):
            simt.build(text, name, signature.parse(text, name), defines=variants(text)[0])
    except CompileError as error:
        return {"state": "refused", "note": str(error).splitlines()[0]}
    return {"state": "emulated", "note": ""}


def stored_support(path=SUPPORT):
    """The rows of kernels_cu/support.csv as dicts; none when the file is not there."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_support(rows, path=SUPPORT):
    """Store what `support` says of every file.

    Parameters
    ----------
    rows : list of Row, of all files
    """
    found = []  # all of it before the file is opened: a kernel that cannot be described must not empty the table
    for source in kernel_files():
        shown = str(source.relative_to(KERNELS_ROOT.parent))
        found += support(source, [row for row in rows if row.path == shown])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ("file", "machine", "state", "note"), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


def write_compiled(rows, path=COMPILED):
    """Store the digests of the files that compiled for all they promise and spill nowhere; the others stay out.

    Parameters
    ----------
    rows : list of Row, of all files
    """
    clean = []
    for source in kernel_files():
        mine = [row for row in rows if row.path == str(source.relative_to(KERNELS_ROOT.parent))]
        promised = set(architectures(source.read_text(encoding="utf-8")))
        if {row.arch for row in mine} == promised and not any(row.resources.spill_bytes for row in mine):
            clean.append({"file": source.relative_to(KERNELS_ROOT).as_posix(), "digest": digest(source)})
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ("file", "digest"), lineterminator="\n")
        writer.writeheader()
        writer.writerows(clean)


def table(rows):
    """The rows as aligned text: a kernel a line, an architecture a column, "registers/shared bytes/spilled bytes"."""
    archs = [arch for arch in ARCHITECTURES if any(row.arch == arch for row in rows)]
    cells = {}
    for row in rows:
        key = f"{row.path.removeprefix('kernels_cu/')} {row.kernel} {row.defines}".strip()
        found = row.resources
        cells.setdefault(key, {})[row.arch] = f"{found.registers}/{found.shared_bytes}/{found.spill_bytes}"
    width = max((len(key) for key in cells), default=6)
    head = f"{'kernel':<{width}}  " + "  ".join(f"{arch:>10}" for arch in archs)
    lines = [
        f"{key:<{width}}  " + "  ".join(f"{found.get(arch, '-'):>10}" for arch in archs) for key, found in cells.items()
    ]
    return "\n".join(["registers a thread / static shared bytes / spilled bytes", head, *lines])


def main():
    """Compile everything and print the table; --write also stores what runs where."""
    start = time.perf_counter()
    rows = [row for path in kernel_files() for row in check_file(path)]
    print(table(rows))
    for row in rows:
        if row.notes:
            print(f"{row.path} {row.arch}: {row.notes}")
    print(f"{len(rows)} compilations of {len(kernel_files())} files in {time.perf_counter() - start:.1f} s")
    if "--write" in sys.argv[1:]:
        write_support(rows)
        write_compiled(rows)
        print(f"wrote {SUPPORT.relative_to(KERNELS_ROOT.parent)} and {COMPILED.name}")


if __name__ == "__main__":
    main()
