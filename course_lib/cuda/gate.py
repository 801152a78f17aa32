"""The compile gate of the CUDA kernels: machine code for every architecture that a header promises, without a GPU.

A kernel that only works on the SIMT machine must not land. NVRTC needs no driver, so the gate runs on any Linux laptop.
What a file promises, it says in its own header (steps.py, kernels_cu/README.md).

    python -m course_lib.cuda.gate [FAMILY/STEP …]      prints registers, shared memory and spills of every kernel

A kernel is refused when it does not compile, when it spills, and when ptxas notes that wgmma or setmaxnreg does not run
as written (notes.py): the values stay right then, so no test on a GPU finds it.

Compiling all takes minutes, so kernels_cu/compiled.csv keeps a digest of what was compiled, of every step and language;
`make test` compiles what has another digest: a changed file or header, or everything with another compiler.
``python -m course_lib.ops.gate --write`` stores the digests, those of the Triton twins as well.

May import: errors, notes, source, nvrtc, signature, simt, steps.
"""

import ast
import csv
import functools
import hashlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from . import notes, nvrtc, signature, simt
from .nvrtc import Resources, compile_cubin
from .source import KERNELS_ROOT, with_headers_digest
from .steps import ARCHITECTURES, architectures, kernel_files, variants

COMPILED = KERNELS_ROOT / "compiled.csv"
COLUMNS = ("step", "language", "digest")
HERE = Path(__file__).parent


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


def files():
    """Every file that the gate compiles: the kernel steps, and the answers that exercises keep in their own folders."""
    return [*kernel_files(), *answers()]


def answers():
    """solutions/*/answer.cu, sorted."""
    return sorted((KERNELS_ROOT.parent / "solutions").glob("*/answer.cu"))


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
    shown = str(path.relative_to(KERNELS_ROOT.parent)) if path.is_relative_to(KERNELS_ROOT.parent) else str(path)
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


def build_on_cpu(path):
    """Build every kernel of a file for the SIMT machine, with its first set of macros.

    Raises
    ------
    CompileError   the machine cannot run it
    """
    text = path.read_text(encoding="utf-8")
    for name in signature.kernel_names(text):
        simt.build(text, name, signature.parse(text, name), defines=variants(text)[0])


def digest(path):
    """A hash of everything that decides what the compilers make of a file.

    Parameters
    ----------
    path : Path, the file; its headers, this package's way to call the compiler and NVRTC's version count as well
    """
    text = path.read_text(encoding="utf-8")
    parts = [with_headers_digest(text), nvrtc.version(), repr((architectures(text), variants(text)))]
    parts += [statements(HERE / name) for name in ("nvrtc.py", "source.py")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def statements(path):
    """The text of a Python file, a Path, without comments, layout and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(ast.fix_missing_locations(tree))


def step_of(path):
    """ "softmax/02_online" for its file, "solutions/04_1_tile_with_tails/answer" for an exercise's answer."""
    root = KERNELS_ROOT if path.is_relative_to(KERNELS_ROOT) else KERNELS_ROOT.parent
    return path.relative_to(root).with_suffix("").as_posix()


def stored():
    """{(step, language): digest} of kernels_cu/compiled.csv: what compiled for all that it promises, no spills."""
    if not COMPILED.is_file():
        return {}
    with COMPILED.open(newline="", encoding="utf-8") as file:
        return {(row["step"], row["language"]): row["digest"] for row in csv.DictReader(file)}


def store(digests):
    """Write {(step, language): digest}, in place of what kernels_cu/compiled.csv has of these steps and languages."""
    with COMPILED.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows((*key, value) for key, value in sorted(digests.items()))


def compiled_before(path):
    """Whether exactly this has been compiled for every architecture and for the SIMT machine, without a problem."""
    return stored().get((step_of(path), "cuda")) == digest(path)


def problems(path, rows):
    """What of `rows` of `check_file` a file may not land with.

    Returns
    -------
    sentences : list of str; empty when the rows cover all that the file promises, without a spill and without a note on
        wgmma or setmaxnreg
    """
    built = {row.arch for row in rows}
    missing = [arch for arch in architectures(path.read_text(encoding="utf-8")) if arch not in built]
    found = [f"{path.name} promises {arch}, for which nothing was compiled." for arch in missing]
    for row in rows:
        where = f"{row.path} {row.kernel} {row.defines}".strip() + f" on {row.arch}"
        spilled, used = row.resources.spill_bytes, row.resources.registers
        if spilled:
            found.append(
                f"{where} spills {spilled} bytes: {used} registers a thread do not hold its values. Take a smaller "
                "tile, fewer threads a block, or more registers for this warpgroup (setmaxnreg)."
            )
        found += [f"{where}: {notes.meaning(code)}" for code in notes.codes(row.notes)]
    return found


def table(rows):
    """The rows as aligned text: a kernel a line, an architecture a column, "registers/shared bytes/spilled bytes"."""
    archs = [arch for arch in ARCHITECTURES if any(row.arch == arch for row in rows)]
    cells = {}
    for row in rows:
        key = f"{row.path.removeprefix('kernels_cu/')} {row.kernel} {row.defines}".strip()
        used = row.resources
        cells.setdefault(key, {})[row.arch] = f"{used.registers}/{used.shared_bytes}/{used.spill_bytes}"
    width = max((len(key) for key in cells), default=6)
    head = f"{'kernel':<{width}}  " + "  ".join(f"{arch:>10}" for arch in archs)
    lines = [
        f"{key:<{width}}  " + "  ".join(f"{cell.get(arch, '-'):>10}" for arch in archs) for key, cell in cells.items()
    ]
    return "\n".join(["registers a thread / static shared bytes / spilled bytes", head, *lines])


def main():
    """Compile all files, or those that the arguments name, and print the table."""
    start, wanted = time.perf_counter(), sys.argv[1:]
    chosen = [path for path in files() if not wanted or step_of(path).startswith(tuple(wanted))]
    rows = [row for path in chosen for row in check_file(path)]
    print(table(rows))
    for row in rows:
        if row.notes:
            print(f"{row.path} {row.arch}: {notes.explained(row.notes)}")
    print(f"{len(rows)} compilations of {len(chosen)} files in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
