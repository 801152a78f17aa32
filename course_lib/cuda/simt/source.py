"""A kernel's text on its way through the C++ compiler: what CUDA writes and C++ does not, red zones, the log's lines.

May import: errors.
"""

import re
from pathlib import Path

from ...errors import CompileError

RED_ZONE_BYTES = 256  # behind every shared array of the checked build
AUTHOR = "/simt/author.cu"  # the author's text for the compiler; names like <cell> have meanings of their own there

INCLUDE = Path(__file__).parent / "include"
_HOST_HEADER = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>\n]+)>", re.MULTILINE)

_DYNAMIC = re.compile(r"\bextern\s+__shared__\s+([^;{}]*?\[[^;{}]*?\])\s*;")


def refuse_host_headers(source, name, filename, first_line):
    """Headers of the C++ library: the compiler here would find them, the one for GPUs does not.

    Raises
    ------
    CompileError   with the line of the include
    """
    for found in _HOST_HEADER.finditer(source):
        if (INCLUDE / found[1]).is_file():
            continue
        line = first_line + source.count("\n", 0, found.start())
        there = ", ".join(sorted(path.name for path in INCLUDE.glob("*.h")))
        message = (
            f"{name} does not compile: line {line}: #include <{found[1]}> has no place in a kernel of the course; take "
            f"it out. printf, assert, min, max, INFINITY and the functions of maths need no header. There are {there}."
        )
        raise CompileError(message, filename=filename, line=line, log=message)


def rewrite_dynamic_shared(source):
    """`extern __shared__ T name[];` as a declaration of the machine's buffer. Line numbers stay as they are."""
    return _DYNAMIC.sub(
        lambda found: (
            "extern SIMT_DYNAMIC_SHARED "
            + found[1]
            + ' __asm__("simt_dynamic_buffer")'
            + "\n" * (found[0].count("\n") - found[1].count("\n"))
            + ";"
        ),
        source,
    )


_ALIGNED = re.compile(r"\b__shared__[ \t]+(alignas[ \t]*\((?:[^()]|\([^()]*\))*\))")


def move_alignment(source):
    """`__shared__ alignas(16) T name` with the alignment in front, where C++ allows it; CUDA takes both."""
    return _ALIGNED.sub(r"\1 __shared__", source)


def translation_unit(source, name, defines, first_line):
    """The text given to the compiler: definitions, the author's text under its own line numbers, the entrance."""
    definitions = "".join(f"#define {key} {_define_text(value)}\n" for key, value in (defines or {}).items())
    source = rewrite_dynamic_shared(move_alignment(source))
    return (
        f'{definitions}#line {first_line} "{AUTHOR}"\n{source}\n#line 1 "<simt entry>"\n'
        f'extern "C" SIMT_ENTRY void simt_entry(void** arguments) {{ simt::call(&{name}, arguments); }}\n'
    )


def _define_text(value):
    if isinstance(value, bool):
        return int(value)
    return "" if value is None else value


_SECTION = re.compile(r"\s*\.(section|text|data|bss)\b")
_ROOM = re.compile(r"\s*\.(zero|skip)\s+\d+")


# What nobody set is full of 0xfe with g++: as a word put into a local, or as 16 bytes of which a part is loaded.
_UNSET_WORD = re.compile(r"(\bmovl\s+\$)-16843010(?=, *-?\d*\(%r[sb]p\))")
_UNSET_BYTES = re.compile(r"(?:\t\.byte\t-2\n){16}")
_OWN_PATTERN = re.compile("fefefefe|4278124286|16843010", re.IGNORECASE)


def with_unset_nan(assembly, source):
    """Assembly in which a float that nobody set is NaN: g++ gives it -1.7e38, which times exp(-inf) is a harmless 0."""
    if _OWN_PATTERN.search(source):
        return assembly
    nan = "\t.byte\t-2\n" * 3 + "\t.byte\t-1\n"  # 0xfffefefe: as an index far outside
    return _UNSET_BYTES.sub(nan * 4, _UNSET_WORD.sub(r"\g<1>-65794", assembly))


def with_red_zones(assembly):
    """Assembly with a gap behind every shared array, so that one past its end is not its neighbour's first."""
    lines, is_shared = [], False
    for line in assembly.splitlines():
        if _SECTION.match(line):
            is_shared = ".tbss" in line
        lines.append(line)
        if is_shared and _ROOM.match(line):
            lines.append(f"\t.zero\t{RED_ZONE_BYTES}")
    return "\n".join(lines) + "\n"


def compile_error(log, name, filename):
    """The compiler's log as one sentence with the author's line."""
    found = re.search(rf"^{AUTHOR}:(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", log, re.MULTILINE)
    line = int(found[1]) if found else None
    what = found[2] if found else next((text for text in log.splitlines() if "error" in text), "unknown error")
    if "Assembler messages" in log or "<inline asm>" in log:
        what = "inline assembly is for the GPU alone; on a CPU use the functions of kernels_cu/common instead"
    where = f"line {line}: " if line else ""
    return CompileError(
        f"{name} does not compile: {where}{what}", filename=filename, line=line, log=log.replace(AUTHOR, filename)
    )
