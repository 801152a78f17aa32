"""A kernel's text before and after the C++ compiler: CUDA syntax rewritten, red zones added, errors read from the log.

May import: errors, simt.inline_ptx.
"""

import re
from pathlib import Path

from ...errors import CompileError
from . import inline_ptx

RED_ZONE_BYTES = 256  # after every shared array of the checked build
AUTHOR = "/simt/author.cu"  # file name of the author's text; the compiler gives names like <cell> a meaning of its own

INCLUDE = Path(__file__).parent / "include"
_HOST_HEADER = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>\n]+)>", re.MULTILINE)

_DYNAMIC = re.compile(r"\bextern\s+__shared__\s+([^;{}]*?\[[^;{}]*?\])\s*;")


def available_headers():
    """The CUDA headers of the machine, as a kernel includes them: "cuda_fp16.h", "cub/cub.cuh", …"""
    names = (path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*") if path.is_file())
    return sorted(name for name in names if not name.startswith("simt/"))


def refuse_host_headers(source, name, filename, first_line):
    """Refuse headers of the C++ library: this compiler finds them, NVRTC does not.

    Raises
    ------
    CompileError   with the line of the include
    """
    for include in _HOST_HEADER.finditer(source):
        if (INCLUDE / include[1]).is_file():
            continue
        line = first_line + source.count("\n", 0, include.start())
        available = ", ".join(available_headers())
        message = (
            f"{name} does not compile: line {line}: #include <{include[1]}> is a host header; remove it. printf, "
            f"assert, min, max, INFINITY and the maths functions need no header. Available headers: {available}."
        )
        raise CompileError(message, filename=filename, line=line, log=message)


def rewrite_dynamic_shared(source):
    """Turn `extern __shared__ T name[];` into a declaration of the machine's buffer. Line numbers stay as they are."""
    return _DYNAMIC.sub(
        lambda match: (
            "extern SIMT_DYNAMIC_SHARED "
            + match[1]
            + ' __asm__("simt_dynamic_buffer")'
            + "\n" * (match[0].count("\n") - match[1].count("\n"))
            + ";"
        ),
        source,
    )


_ALIGNED = re.compile(r"\b__shared__[ \t]+(alignas[ \t]*\((?:[^()]|\([^()]*\))*\))")


def move_alignment(source):
    """Move the alignment of `__shared__ alignas(16) T name` to the front, where C++ allows it; CUDA takes both."""
    return _ALIGNED.sub(r"\1 __shared__", source)


def translation_unit(source, name, defines, first_line):
    """Return the text for the compiler: definitions, the author's text under its own line numbers, the entry point."""
    definitions = "".join(f"#define {key} {_define_text(value)}\n" for key, value in (defines or {}).items())
    bounds = launch_bounds(source, name) if "setmaxnreg" in source else ""
    source = rewrite_dynamic_shared(move_alignment(source))
    return (
        f'{definitions}#line {first_line} "{AUTHOR}"\n{source}\n#line 1 "<simt entry>"\n'
        f'extern "C" SIMT_ENTRY void simt_entry(void** arguments) {{ simt::call(&{name}, arguments); }}\n'
    ) + (bounds and _BLOCKS_PER_SM.replace("BOUNDS", bounds))


# what setmaxnreg starts from depends on it (runtime/register_pool.cpp)
_BLOCKS_PER_SM = """extern "C" SIMT_ENTRY unsigned simt_blocks_per_sm() {
    constexpr unsigned bounds[] = {BOUNDS}, count = sizeof bounds / sizeof *bounds;
    return count > 1 ? bounds[count > 1] : 1;
}
"""
_BOUNDS = r"\b__launch_bounds__\s*\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)(?:\s|\w)*?\b%s\s*\("


def launch_bounds(source, name):
    """What is between the parentheses of the __launch_bounds__ before a kernel's name; "" where there are none."""
    found = re.search(_BOUNDS % re.escape(name), source)
    return found[1].strip() if found else ""


def _define_text(value):
    if isinstance(value, bool):
        return int(value)
    return "" if value is None else value


_SECTION = re.compile(r"\s*\.(section|text|data|bss)\b")
_ROOM = re.compile(r"\s*\.(zero|skip)\s+\d+")


# -ftrivial-auto-var-init=pattern of g++ fills uninitialised locals with 0xfe: a word stored into a local, or 16 bytes
# in the constant section of which a part is loaded.
_UNSET_WORD = re.compile(r"(\bmovl\s+\$)-16843010(?=, *-?\d*\(%r[sb]p\))")
_UNSET_BYTES = re.compile(r"(?:\t\.byte\t-2\n){16}")
_OWN_PATTERN = re.compile("fefefefe|4278124286|16843010", re.IGNORECASE)


def with_unset_nan(assembly, source):
    """Make uninitialised floats NaN in g++'s assembly: its own pattern, -1.7e38, times exp(-inf) is a harmless 0."""
    if _OWN_PATTERN.search(source):
        return assembly
    nan = "\t.byte\t-2\n" * 3 + "\t.byte\t-1\n"  # 0xfffefefe: NaN; as an index, far out of bounds
    return _UNSET_BYTES.sub(nan * 4, _UNSET_WORD.sub(r"\g<1>-65794", assembly))


_PLAIN_HOOK = re.compile(
    r"^\s*(?:callq?|bl)\s+__tsan_(?:read|write|unaligned_(?:read|write)|func_)(?!.*volatile).*$", re.MULTILINE
)


def may_poll(source):
    """Return whether a kernel has volatile variables, which its threads may wait for; asm volatile does not count."""
    return re.search(r"(?<!asm )\bvolatile\b", source) is not None


def without_plain_hooks(assembly):
    """Remove the calls that report plain accesses and functions; those of volatile accesses stay."""
    return _PLAIN_HOOK.sub("", assembly)


def with_red_zones(assembly):
    """Add a gap after every shared array, so that an access past its end does not hit the next array."""
    lines, is_shared = [], False
    for line in assembly.splitlines():
        if _SECTION.match(line):
            is_shared = ".tbss" in line
        lines.append(line)
        if is_shared and _ROOM.match(line):
            lines.append(f"\t.zero\t{RED_ZONE_BYTES}")
    return "\n".join(lines) + "\n"


def compile_error(log, name, filename, source="", first_line=1):
    """Return the CompileError for a compiler log: one sentence, with the author's line."""
    match = re.search(rf"^{AUTHOR}:(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", log, re.MULTILINE)
    line = int(match[1]) if match else None
    what = match[2] if match else next((text for text in log.splitlines() if "error" in text), "unknown error")
    assembler = "Assembler messages" in log or "<inline asm>" in log
    if line is not None or assembler:
        what, line = inline_ptx.refusal(source, first_line, None if assembler else line) or (what, line)
    where = f"line {line}: " if line else ""
    return CompileError(
        f"{name} does not compile: {where}{what}", filename=filename, line=line, log=log.replace(AUTHOR, filename)
    )
