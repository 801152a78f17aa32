"""CUDA C++ -> machine code with NVRTC, which needs no GPU: the gate, the as-compiled ledger and the GPU engine use it.

So the code that runs is the code that was checked and disassembled. NVRTC is called directly because CuPy's own compile
step adds -ftz=true after every other option, which would flush small numbers to zero on the GPU and nowhere else.

May import: errors, notes, source, signature.
"""

import re
from dataclasses import dataclass

from ..errors import ToolchainError
from . import signature
from .notes import is_about_wgmma
from .source import (
    KERNELS_ROOT,
    compile_error,
    cuda_headers,
    define_options,
    included_files,
    normalise_defines,
    with_line_numbers,
)

# Names of <math.h> that people write without thinking and that NVRTC leaves out; the SIMT machine has them as well.
_MATHS = {"INFINITY": "__builtin_bit_cast(float,0x7f800000)", "NAN": "__builtin_bit_cast(float,0x7fc00000)"}
_ENTRY = re.compile(r"Compiling entry function '(?P<name>\w+)'(?P<body>.*?)(?=Compiling entry function|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Resources:
    """What one kernel takes on one architecture: registers a thread, static shared bytes a block, spilled bytes."""

    registers: int
    shared_bytes: int
    spill_bytes: int


@dataclass(frozen=True)
class Cubin:
    """Machine code of one source for one architecture.

    Attributes
    ----------
    code : bytes, an ELF file
    arch : str
    resources : dict of kernel name to Resources
    notes : str, warnings of the compiler and ptxas's notes on wgmma and setmaxnreg (notes.py); empty without any
    ptx : str, the same source as PTX, the step before machine code
    """

    code: bytes
    arch: str
    resources: dict
    notes: str
    ptx: str = ""


def compile_cubin(source, *, arch, defines=None, filename="<cell>", first_line=1, line_info=False):
    """Compile CUDA C++ to machine code.

    Parameters
    ----------
    source : str
    arch : str, "sm_75" … "sm_120"; "sm_90a" for Hopper's own instructions
    defines, filename, first_line : as in ``cuda.compile``
    line_info : bool, keep source lines in the machine code

    Returns
    -------
    cubin : Cubin

    Raises
    ------
    CompileError     the author's file and line, the -D set and the log
    ToolchainError   NVRTC is not installed, or knows no such architecture
    """
    nvrtc = _bindings()
    included_files(source, filename=filename)
    defines = normalise_defines(defines)
    options = _options(arch, defines, line_info)
    text = with_line_numbers(source, filename, first_line).encode()
    program = _checked(nvrtc, nvrtc.nvrtcCreateProgram(text, filename.encode(), 0, [], []))
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])[0]
        log = _read(nvrtc, program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode(errors="replace")
        log = log.strip("\x00 \n")
        if status == nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION:
            names = ", ".join(dict.fromkeys(signature.kernel_names(source))) or "?"
            raise compile_error(log, name=names, filename=filename, defines=defines, engine=f"NVRTC for {arch}")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise ToolchainError(f"NVRTC could not compile for {arch}: {status.name}. {log}")
        code = _read(nvrtc, program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        ptx = _read(nvrtc, program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).decode().rstrip("\x00")
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    notes = [line for line in log.splitlines() if is_about_wgmma(line) or not _is_bookkeeping(line)]
    return Cubin(code, arch, _resources(log), "\n".join(notes), ptx)


def _is_bookkeeping(line):
    """True for an empty line and for what ptxas -v tells about every kernel."""
    return re.match(r"\s*(ptxas\s+(info\s*)?[:.]|$)", line) is not None


def _options(arch, defines, line_info):
    """NVRTC's options: no fast maths, no flushing; ptxas tells registers and spills.

    Without --no-cache, NVRTC takes machine code from the driver's cache (12.9 and newer, where there is a GPU), and the
    log of a source that was compiled before is empty: no notes, no registers, no spills.
    """
    return [
        "--no-cache",
        f"-arch={arch}",
        "-std=c++17",
        "--ptxas-options=-v",
        *(["-lineinfo"] if line_info else []),
        *(f"-I{folder}" for folder in (*cuda_headers(), KERNELS_ROOT)),
        *define_options(_MATHS | defines),
    ]


def version():
    """NVRTC's version, "13.0"; part of the key under which machine code is kept."""
    nvrtc = _bindings()
    status, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}"


def _resources(log):
    """Resources of every kernel in a ptxas -v log."""
    found = {}
    for match in _ENTRY.finditer(log):
        body = match["body"]

        def number(pattern, body=body):
            hit = re.search(pattern, body)
            return int(hit.group(1)) if hit else 0

        spills = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
        found[match["name"]] = Resources(number(r"Used (\d+) registers"), number(r"(\d+) bytes smem"), spills)
    return found


def _checked(nvrtc, result):
    """The value of a call of the bindings, which return (status, value)."""
    status, value = result
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise ToolchainError(f"NVRTC failed: {status.name}.")
    return value


def _read(nvrtc, program, size_of, read):
    """The bytes that a pair of size and get calls delivers."""
    size = _checked(nvrtc, size_of(program))
    text = bytes(max(size, 2))  # filled in place; Python shares bytes objects of length 1, so never one of those
    read(program, text)
    return text[:size]


def _bindings():
    """cuda.bindings.nvrtc, or a sentence."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise ToolchainError(
            "Compiling CUDA needs NVRTC: pip install 'cuda-core[cu13]' 'cuda-toolkit[nvrtc,cudart,crt,cccl]' (Linux)."
        ) from error
    return nvrtc
