"""Access instructions of a kernel's machine code, by source line. Read from the cubin with nvdisasm, without a GPU.

The SIMT machine counts accesses as written; the compiler merges, widens, narrows and drops some.
``compare(report, compiled)`` shows both side by side.

May import: errors, notes, nvrtc, signature.
"""

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..errors import ToolchainError
from . import nvrtc, signature
from .notes import explained

# opcode -> (space, kind)
_OPCODES = {
    "LDG": ("global", "load"),
    "STG": ("global", "store"),
    "LD": ("generic", "load"),
    "ST": ("generic", "store"),
    "LDS": ("shared", "load"),
    "STS": ("shared", "store"),
    "LDL": ("local", "load"),
    "STL": ("local", "store"),
    "LDSM": ("shared", "matrix load"),
    "STSM": ("shared", "matrix store"),
    "LDGSTS": ("global", "copy to shared"),
    "ATOMG": ("global", "atomic"),
    "RED": ("global", "atomic"),
    "REDG": ("global", "atomic"),
    "ATOM": ("generic", "atomic"),
    "ATOMS": ("shared", "atomic"),
    "UBLKCP": ("global", "bulk copy"),
    "UTMALDG": ("global", "bulk copy"),
    "UTMASTG": ("global", "bulk copy"),
}
_LINE = re.compile(r'//## File "(?P<file>[^"]+)", line (?P<line>\d+)')
_INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(?P<opcode>[A-Z][A-Z0-9_]*)(?P<suffix>(?:\.\w+)*)"
)
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}


@dataclass(frozen=True)
class Access:
    """Access instructions of one kind at one source line.

    Attributes
    ----------
    file : str, the file of the line (a header's line keeps the header's name)
    line : int
    space : "global", "shared", "local" (spills and stack) or "generic"
    kind : "load", "store", "atomic", "matrix load", "copy to shared", …
    bytes : int, moved by one thread in one such instruction
    count : int, instructions in the machine code (an unrolled loop holds copies; a loop executes one many times)
    opcode : str, as the disassembler writes it: "LDG.E.128"
    """

    file: str
    line: int
    space: str
    kind: str
    bytes: int
    count: int
    opcode: str


@dataclass(frozen=True)
class AsCompiled:
    """A kernel as machine code.

    Attributes
    ----------
    name, arch : str
    registers, shared_bytes, spill_bytes : int; per thread, per block (static), stores and loads together
    accesses : tuple of Access, in order of lines
    ptx : str, NVRTC's output: assembly for a virtual GPU with unlimited registers
    listing : str, the machine code as nvdisasm prints it
    notes : str, the compiler's notes and warnings, those on wgmma explained
    """

    name: str
    arch: str
    filename: str
    registers: int
    shared_bytes: int
    spill_bytes: int
    accesses: tuple
    ptx: str = ""
    listing: str = ""
    notes: str = ""

    def ptx_instructions(self):
        """Return the kernel's PTX without declarations and line marks, one instruction a line."""
        body = re.search(rf"\.entry {re.escape(self.name)}\b.*?^}}", self.ptx, re.MULTILINE | re.DOTALL)
        lines = [line.strip() for line in (body[0] if body else "").splitlines()]
        return [line for line in lines if re.match(r"(@!?%p\d+ )?[a-z][\w.:]*\b.*;$|\$\w+:$", line)]

    def machine_instructions(self):
        """Return the kernel's machine code, one instruction a line, without addresses and padding."""
        start = rf"\.section\s+\.text\.{re.escape(self.name)}\b"
        section = re.search(start + r".*?(?=\.section\s|\Z)", self.listing, re.DOTALL)
        instructions = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(.*?;)", section[0] if section else "")
        code = [re.sub(r"\s+", " ", instruction) for instruction in instructions]
        last = max((index for index, instruction in enumerate(code) if "EXIT" in instruction), default=len(code) - 1)
        return code[: last + 1]

    def at_line(self, line, space=None):
        """Return the accesses of a line of the kernel's own file."""
        return tuple(
            access
            for access in self.accesses
            if access.line == line and access.file == self.filename and (space is None or access.space == space)
        )

    def __str__(self):
        head = (
            f"{self.name} on {self.arch}: {self.registers} registers, {self.shared_bytes} bytes of shared memory, "
            f"{self.spill_bytes} bytes spilled"
        )
        lines = [
            f"  {Path(access.file).name}:{access.line:<5} {access.count:>3} x {access.opcode:<18} {access.space} "
            f"{access.kind}, {access.bytes} bytes a thread"
            for access in self.accesses
        ]
        return "\n".join([head, *self.notes.splitlines(), *lines])


def as_compiled(source, name, *, arch="sm_90", defines=None, filename="<cell>", first_line=1):
    """Compile a kernel for `arch` and read its access instructions.

    Parameters
    ----------
    source : str, CUDA C++
    name : str or None, the kernel
    arch : str, "sm_75" … "sm_120"
    defines, filename, first_line : as in ``cuda.compile``

    Returns
    -------
    compiled : AsCompiled

    Raises
    ------
    CompileError     the source does not compile for `arch`
    ToolchainError   NVRTC or nvdisasm is missing
    """
    name = signature.choose(source, name, filename=filename)
    cubin = nvrtc.compile_cubin(
        source, arch=arch, defines=defines, filename=filename, first_line=first_line, line_info=True
    )
    resources = cubin.resources.get(name, nvrtc.Resources(0, 0, 0))
    listing = disassemble(cubin.code)
    return AsCompiled(
        name,
        arch,
        filename,
        resources.registers,
        resources.shared_bytes,
        resources.spill_bytes,
        accesses_of(listing, name, filename),
        cubin.ptx,
        listing,
        explained(cubin.notes),
    )


def disassemble(code):
    """Disassemble a cubin: nvdisasm's listing with line information.

    Parameters
    ----------
    code : bytes, an ELF file

    Returns
    -------
    listing : str
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        done = subprocess.run([_nvdisasm(), "-g", "-c", file.name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolchainError(f"nvdisasm refused the machine code: {done.stderr.strip()}")
    return done.stdout


def accesses_of(listing, name, filename):
    """Return the accesses of kernel `name` in a listing of `disassemble`; its own file gets the name `filename`.

    Returns
    -------
    accesses : tuple of Access, sorted by file and line
    """
    counts, inside, file, line = Counter(), False, "", 0
    for text in listing.splitlines():
        if re.match(r"\s*\.section\s", text):
            inside = re.search(rf"\.text\.{re.escape(name)}\b", text) is not None
        if not inside:
            continue
        marker = _LINE.search(text)
        if marker:
            file, line = marker["file"], int(marker["line"])
            file = filename if _same_file(file, filename) else file
            continue
        instruction = _INSTRUCTION.match(text)
        if instruction and instruction["opcode"] in _OPCODES:
            counts[file, line, instruction["opcode"], instruction["suffix"]] += 1
    accesses = []
    for (file, line, opcode, suffix), count in counts.items():
        space, kind = _OPCODES[opcode]
        accesses.append(Access(file, line, space, kind, _width(suffix), count, opcode + suffix))
    return tuple(sorted(accesses, key=lambda access: (access.file, access.line, access.opcode)))


def _width(suffix):
    """Return the bytes that one thread moves, from the suffixes of an opcode; 4 without a width suffix."""
    for part in suffix.split("."):
        if part in _WIDTHS:
            return _WIDTHS[part]
    return 4


def _same_file(recorded, shown):
    """True when both name one file: nvdisasm may put a folder before the name that ``#line`` gave."""
    return recorded == shown or recorded.endswith("/" + shown)


def _nvdisasm():
    """Return the path of nvdisasm, from triton's wheel or the CUDA toolkit."""
    spec = importlib.util.find_spec("triton")
    if spec and spec.origin:
        shipped = Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
        if shipped.is_file():
            return str(shipped)
    installed = shutil.which("nvdisasm") or shutil.which("nvdisasm", path="/usr/local/cuda/bin")
    if installed is None:
        raise ToolchainError(
            "The as-compiled ledger needs nvdisasm: it comes with triton (pip install triton, Linux) "
            "or with the CUDA toolkit."
        )
    return installed
