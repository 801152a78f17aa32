"""One sentence on a kernel's inline PTX, which no CPU executes: the instruction, and what to call instead.

The functions of kernels_cu/common are read from their headers: each wraps one instruction and runs on both engines.

May import: nothing of the course.
"""

import functools
import re
from pathlib import Path

_COMMON = Path(__file__).resolve().parents[3] / "kernels_cu" / "common"
_STATEMENT = re.compile(r"\b(?:asm|__asm__|__asm)\s*(?:\b(?:volatile|__volatile__|inline|goto)\b\s*)*\(", re.DOTALL)
_FUNCTION = re.compile(r"__device__ __forceinline__ [^(;{]*?\b(\w+)\(")
# first word of an instruction -> what CUDA C++ has for it, where kernels_cu/common wraps nothing
_PLAIN = {
    "add": "+", "sub": "-", "mul": "*", "mad": "fmaf", "fma": "fmaf", "div": "/", "rcp": "1.0f / x", "neg": "-",
    "abs": "fabsf", "min": "min or fminf", "max": "max or fmaxf", "sqrt": "sqrtf", "rsqrt": "rsqrtf", "lg2": "log2f",
    "ex2": "exp2f", "sin": "sinf", "cos": "cosf", "tanh": "tanhf", "mov": "an assignment, or threadIdx and blockIdx",
    "cvt": "a conversion of cuda_fp16.h or cuda_bf16.h, such as __float2half_rn or __floats2half2_rn",
    "ld": "a plain load, or __ldg, __ldcg, __ldcs", "st": "a plain store, or __stcg, __stcs, __stwt",
    "atom": "atomicAdd and its like", "red": "atomicAdd and its like", "shfl": "__shfl_sync and its like",
    "vote": "__ballot_sync, __any_sync, __all_sync", "match": "__match_any_sync", "redux": "__reduce_add_sync",
    "bar": "__syncthreads()", "barrier": "__syncthreads()", "membar": "__threadfence()", "fence": "__threadfence()",
    "cvta": "__cvta_generic_to_shared", "and": "&", "or": "|", "xor": "^", "not": "~", "shl": "<<", "shr": ">>",
    "lop3": "&, | and ^", "prmt": "__byte_perm", "bfe": "shifts and masks", "bfi": "shifts and masks",
    "popc": "__popc", "clz": "__clz", "brev": "__brev", "selp": "?:", "setp": "a comparison", "shf": "__funnelshift_l",
    "activemask": "__activemask()", "nanosleep": "__nanosleep", "trap": "__trap()",
}  # fmt: skip
_BARE = "functions of CUDA C++ or of kernels_cu/common"


def refusal(source, first_line=1, line=None):
    """(sentence, line) on an asm statement with an instruction.

    Parameters
    ----------
    source : str, the author's text
    first_line : int, number of its first line
    line : int or None, of the compiler's message; the statement that holds it is meant, else the first one

    Returns
    -------
    (str, int), or None when there is no such statement, or none at `line`
    """
    found = [one for one in _statements(source, first_line) if line is None or one[1] <= line <= one[2]]
    if not found:
        return None
    instruction, at, _ = found[0]
    shown = instruction.split(" %")[0]
    return (
        f"inline PTX ({shown}) is for the GPU alone and cannot be checked here; use {instead(instruction)}",
        at,
    )


def instead(instruction):
    """What does the same on both engines: "fast_exp2 of common/fast_exp2.cuh", or a function of CUDA C++."""
    words = instruction.split(".")
    if words[0] in ("bar", "barrier") and words[-1].split() in (["sync"], ["sync", "0"]):
        return _PLAIN["bar"]
    if words[:2] == ["wgmma", "mma_async"]:
        return "the functions wgmma_m64k16_… of common/wgmma.cuh"
    matches = [(_alike(words, other.split(".")), name, header) for other, name, header in _wrappers()]
    best = max(matches, default=(0, "", ""), key=lambda match: match[0])
    least = 2 if words[0] in _PLAIN and words[0] != "ex2" else 1
    if best[0] >= least:
        return f"{best[1]} of common/{best[2]}"
    return _PLAIN.get(words[0], _BARE)


def _alike(words, others):
    count = 0
    for word, other in zip(words, others, strict=False):
        if word.split()[0] != other.split()[0]:
            break
        count += 1
    return count


@functools.cache
def _wrappers():
    """[(instruction, function, header)] of kernels_cu/common, in the order of the files."""
    rows = []
    for path in sorted(_COMMON.glob("*.cuh")):
        text = path.read_text(encoding="utf-8")
        functions = [(match.start(), match[1]) for match in _FUNCTION.finditer(text)]
        for match in _STATEMENT.finditer(text):
            name = next((name for start, name in reversed(functions) if start < match.start()), None)
            instruction = _instruction(_template(text, match.end()))
            if name and instruction and "##" not in name:
                rows.append((instruction, name, path.name))
    return rows


def _statements(source, first_line):
    """[(instruction, first line, last line)] of the asm statements that hold one."""
    plain, found = _without_comments(source), []
    for match in _STATEMENT.finditer(plain):
        instruction = _instruction(_template(plain, match.end()))
        if instruction:
            end = plain.find(";", _closing(plain, match.end()))
            lines = (plain.count("\n", 0, position) + first_line for position in (match.start(), max(end, match.end())))
            found.append((instruction, *lines))
    return found


def _without_comments(source):
    """The text with blanks for comments; strings and line numbers stay."""
    pattern = r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/'
    keep = lambda match: match[0] if match[0][0] == '"' else re.sub(r"[^\n]", " ", match[0])  # noqa: E731
    return re.sub(pattern, keep, source, flags=re.DOTALL)


def _closing(text, position):
    """The index after the parenthesis that closes the one before `position`."""
    depth, inside = 1, re.compile(r'"(?:[^"\\]|\\.)*"|[()]')
    for match in inside.finditer(text, position):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    return position


def _template(text, position):
    """The strings at the start of an asm statement, joined."""
    joined = ""
    while match := re.compile(r'\s*"((?:[^"\\]|\\.)*)"').match(text, position):
        joined, position = joined + match[1], match.end()
    return joined.replace("\\n", "\n").replace("\\t", " ")


def _instruction(template):
    """The telling instruction of a template, "ex2.approx.ftz.f32" or "bar.sync 1"; "" when it is empty.

    Declarations, and the setp and selp round another instruction, are passed over.
    """
    pieces = [piece.strip().lstrip("{").strip() for piece in re.split(r"[;\n]", template)]
    names = [re.match(r"(?:@!?\S+\s+)?([a-z]\w*(?:[.:]+\w+)*(?:\s+%?\d+)?)", piece) for piece in pieces]
    found = [name[1].replace("::", "__") for name in names if name]
    telling = [name for name in found if name.split(".")[0] not in ("setp", "selp", "mov", "cvta")]
    return (telling or found or [""])[0].replace("__", "::")
