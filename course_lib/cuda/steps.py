"""Kernel steps, declared by the headers of their `.cu` files and nowhere else.

A step is one file, kernels_cu/FAMILY/NN_idea.cu. Launchers, the compile gates, the support matrix and the tests list
the files and read these lines (kernels_cu/README.md); the names of the kernels come from the code itself.

    // Needs     compute capability 8.0                                 architectures from 8.0 on
    // Twin      triton_kernels/softmax.py: online_softmax_kernel       the Triton functions that do the same, and
                                                                       their own capability where it is another one
    // gate: -DHEAD_DIM=128 -DBLOCK_M=64                                macros to compile with; a line a variant

May import: errors, source, signature.
"""

import re
from dataclasses import dataclass
from functools import cache

from ..errors import CompileError
from . import signature
from .source import KERNELS_ROOT, included_files

ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120")
_GUARD = re.compile(r"^#(?:ifndef|if !defined)\b(.*)$", re.MULTILINE)  # the condition of an #error or a default
_CAPABILITY = r"any compute capability|compute capability \d+\.\d+a?"
_TWINS = re.compile(r"triton_kernels/(\w+)\.py: (\w+(?:, \w+)*)")


@dataclass(frozen=True)
class Step:
    """One kernel step, as its header declares it.

    Attributes
    ----------
    stem : str, "softmax/02_online"
    kernels : tuple of str, its ``__global__`` functions in order
    twins : tuple of (module, function) in triton_kernels; empty where Triton has none
    architectures : tuple of str, what "Needs" promises
    twin_needs : str, like `needs`, of the twins
    needs : str, "any compute capability" or "compute capability 8.0"
    variants : tuple of dict, the macro sets of the ``// gate:`` lines; one empty dict where there is none
    macros : frozenset of str, the macros that the file and its headers let a caller set
    """

    stem: str
    kernels: tuple
    twins: tuple
    architectures: tuple
    needs: str
    twin_needs: str
    variants: tuple
    macros: frozenset

    @property
    def languages(self):
        """("cuda",) or ("cuda", "triton")."""
        return ("cuda", "triton") if self.twins else ("cuda",)


@cache
def step(stem):
    """The Step of kernels_cu/STEM.cu.

    Raises
    ------
    KeyError  no such file; the message lists the steps of that family
    """
    path = KERNELS_ROOT / f"{stem}.cu"
    if not path.is_file():
        family = ", ".join(names(stem.split("/")[0]))
        raise KeyError(f"kernels_cu has no step {stem!r}; that family has: {family or 'no step'}")
    text = path.read_text(encoding="utf-8")
    return Step(
        stem,
        tuple(dict.fromkeys(signature.kernel_names(text))),
        twins(text),
        architectures(text),
        needs(text),
        needs(text, twin=True),
        tuple(variants(text)),
        frozenset(name for part in (text, *included_files(text).values()) for name in _guarded(part)),
    )


def _guarded(text):
    """The macros that conditions of the preprocessor ask for."""
    return [name for line in _GUARD.findall(text) for name in re.findall(r"\b[A-Z][A-Z0-9_]*\b", line)]


def names(family, *, only="", without=()):
    """Names of the steps of a family in order: ("01_three_pass", "02_online", …).

    Parameters
    ----------
    family : str, a folder of kernels_cu
    only : str, part of the names of the steps that are meant, where a family has several launchers
    without : iterable of str; a step whose name contains one of them is another launcher's
    """
    stems = sorted(path.stem for path in (KERNELS_ROOT / family).glob("*.cu"))
    return tuple(name for name in stems if only in name and not any(part in name for part in without))


def steps():
    """Every Step of the course, sorted by stem."""
    files = kernel_files()
    return [step(path.relative_to(KERNELS_ROOT).with_suffix("").as_posix()) for path in files]


def kernel_files():
    """Every .cu file under kernels_cu, sorted."""
    return sorted(KERNELS_ROOT.rglob("*.cu"))


def twins(text):
    """((module, function), …) from the "Twin" line of a header, in the order of the launches."""
    line = re.search(r"^// Twin\s+(.*)$", text, re.MULTILINE)
    pairs = _TWINS.findall(line.group(1)) if line else []
    return tuple((module, name) for module, listed in pairs for name in listed.split(", "))


def needs(text, twin=False):
    """ "any compute capability" or "compute capability 8.0", from the "Needs" line; of the twin if that says its own.

    Raises
    ------
    CompileError   no "Needs" line, or one that names no capability
    """
    words = None
    for name in ("Twin", "Needs") if twin else ("Needs",):
        words = words or re.search(rf"^// {name}\b.*?({_CAPABILITY})", text, re.MULTILINE)
    if not words:
        raise CompileError(
            'The header needs a line such as "// Needs     compute capability 8.0" or "any compute '
            'capability", so that the gate knows the architectures it promises.'
        )
    return words.group(1)


def architectures(text):
    """The architectures that a kernel file promises with its "Needs" line: a subset of ARCHITECTURES."""
    return promised(needs(text))


def promised(words):
    """The architectures of "any compute capability" or "compute capability 8.0"."""
    if words.startswith("any"):
        return ARCHITECTURES
    major, minor, exact = re.search(r"(\d+)\.(\d+)(a?)", words).groups()
    smallest = int(major) * 10 + int(minor)
    if exact:
        return (f"sm_{smallest}a",)
    return tuple(arch for arch in ARCHITECTURES if _number(arch) >= smallest)


def support(words, machine, on_cpu="emulated"):
    """State of a step on a machine of the support matrix.

    Parameters
    ----------
    words : str, what it needs: "compute capability 8.0"
    machine : str, "cpu" or an architecture
    on_cpu : str, the state on the CPU

    Returns
    -------
    (state, note) : ("emulated", ""), ("compiles", "") or ("refused", "needs compute capability 8.0"), with the reason
        where it is not that the machine is too old; the gates build every step for all that compiles
    """
    if machine == "cpu":
        return on_cpu, ""
    compiled = {arch.removesuffix("a") for arch in promised(words)}
    if machine in compiled:
        return "compiles", ""
    older = _number(machine) < min(map(_number, compiled))
    return "refused", f"needs {words}" + ("" if older else ", whose own instructions newer GPUs do not have")


def _number(arch):
    """90 for "sm_90"."""
    return int(re.sub(r"\D", "", arch))


def variants(text):
    """The macro sets to compile a file with: one dict for each ``// gate:`` line, or one empty dict."""
    lines = re.findall(r"^// gate:(.*)$", text, re.MULTILINE)
    return [
        dict((item[2:].split("=", 1) + [""])[:2] for item in line.split() if item.startswith("-D")) for line in lines
    ] or [{}]
