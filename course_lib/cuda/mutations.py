"""Small mistakes in a kernel's text, one at a time: what its tests should find.

    mutations(text)     a deleted barrier, fence, wait, commit or __syncwarp; a barrier that thread 0 does not reach; an
                        atomic or an __ldcg made plain; an index of shared memory that is one too large

Text only: nothing is compiled. Comments and strings are not touched, line numbers stay as they are.

May import: source.
"""

import re
from dataclasses import dataclass

from .source import KERNELS_ROOT

# kind -> names of the functions whose calls are deleted
DELETED = {
    "barrier": ("__syncthreads", "named_barrier_sync"),
    "fence": (
        "__threadfence", "__threadfence_block", "__threadfence_system", "fence_proxy_async", "fence_mbarrier_init",
        "wgmma_fence",
    ),
    "wait": (
        "cp_async_wait_group", "cp_async_wait_all", "wgmma_wait_group", "mbarrier_wait_parity", "bulk_wait_group",
        "bulk_wait_group_read",
    ),
    "commit": ("cp_async_commit_group", "wgmma_commit_group", "bulk_commit_group"),
    "syncwarp": ("__syncwarp",),
}  # fmt: skip
KINDS = (*DELETED, "skipped barrier", "atomic", "ldcg", "index")

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_CALL = re.compile(r"\b(?P<name>[A-Za-z_]\w*)[ \t]*(?:<[^<>;(){}]*>)?[ \t]*\((?P<arguments>)")
_DECLARED = re.compile(r"__shared__[^;=(){}]*?(\w+)[ \t]*(?:\[|;)")
_INDEX = re.compile(r"\b(\w+)[ \t]*\[")
_STATEMENTS = {"return", "else", "do", "case"}
_ATOMIC = re.compile(r"atomic(Add|Sub|Exch|Min|Max|And|Or|Xor|CAS)(?:_block|_system)?")
_PLAIN = {
    "Add": "old + ({0})", "Sub": "old - ({0})", "Exch": "({0})", "Min": "({0}) < old ? ({0}) : old",
    "Max": "({0}) > old ? ({0}) : old", "And": "old & ({0})", "Or": "old | ({0})", "Xor": "old ^ ({0})",
    "CAS": "old == ({0}) ? ({1}) : old",
}  # fmt: skip
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"\n]+)"[^\n]*$', re.MULTILINE)


@dataclass(frozen=True)
class Mutation:
    """One mistake.

    Attributes
    ----------
    line : int, of the text
    kind : str, one of KINDS
    what : str, the sentence of a table: "`__syncthreads()` deleted"
    start, end : int, the characters of the text that `new` replaces
    statement : bool; the replaced text is a whole statement, up to its semicolon
    """

    line: int
    kind: str
    what: str
    start: int
    end: int
    new: str
    statement: bool = False

    def of(self, text, new=None):
        """Return `text` with the mistake, or with `new` in its place."""
        return text[: self.start] + (self.new if new is None else new) + text[self.end :]


def mutations(text, kinds=KINDS):
    """Return every Mutation of a text, in the order of its lines.

    Parameters
    ----------
    text : str, CUDA C++
    kinds : names of KINDS
    """
    code = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    found = [*_of_calls(text, code), *_of_indices(text, code)]
    return sorted((one for one in found if one.kind in kinds), key=lambda one: (one.start, one.kind))


def with_headers(text):
    """Return (text with its course headers in place of their includes, function of a line: (file or "", its line))."""
    lines, origins, seen = [], [], set()

    def add(part, file):
        for number, line in enumerate(part.split("\n"), 1):
            include = _INCLUDE.match(line)
            if include and (KERNELS_ROOT / include[1]).is_file():
                if include[1] not in seen:
                    seen.add(include[1])
                    add((KERNELS_ROOT / include[1]).read_text(encoding="utf-8"), include[1])
                continue
            lines.append("" if line.strip() == "#pragma once" else line)
            origins.append((file, number))

    add(text, "")
    return "\n".join(lines), lambda line: origins[line - 1]


def _of_calls(text, code):
    for call in _CALL.finditer(code):
        name, end = call["name"], _closing(code, call.end() - 1)
        if end is None or _is_declared(code, call.start()):
            continue
        shown, line = _short(text[call.start() : end]), text.count("\n", 0, call.start()) + 1
        is_statement = code[end:].lstrip()[:1] == ";"
        for kind, names in DELETED.items():
            if name in names and is_statement:
                yield Mutation(line, kind, f"`{shown}` deleted", call.start(), end, "", True)
        if name == "__syncthreads" and is_statement:
            new = "(threadIdx.x != 0 ? __syncthreads() : void())"
            yield Mutation(line, "skipped barrier", f"thread 0 skips `{shown}`", call.start(), end, new, True)
        arguments = _arguments(text, code, call.end(), end - 1)
        if (atomic := _ATOMIC.fullmatch(name)) and len(arguments) == (3 if atomic[1] == "CAS" else 2):
            new = _PLAIN[atomic[1]].format(*arguments[1:])
            plain = f"[&] {{ auto* word = {arguments[0]}; const auto old = *word; *word = {new}; return old; }}()"
            yield Mutation(line, "atomic", f"`{shown}` made plain", call.start(), end, plain)
        if name == "__ldcg" and len(arguments) == 1:
            yield Mutation(line, "ldcg", f"`{shown}` made plain", call.start(), end, f"(*({arguments[0]}))")


def _of_indices(text, code):
    names = set(_DECLARED.findall(code))
    for match in _INDEX.finditer(code):
        name, end = match[1], _closing(code, match.end() - 1)
        if end is None or not (name in names or name.endswith("_smem")) or _is_declared(code, match.start()):
            continue
        index, line = text[match.end() : end - 1], text.count("\n", 0, match.start()) + 1
        if index.strip():
            what = f"`{name}[{_short(index)}]` with 1 more"
            yield Mutation(line, "index", what, match.end(), end - 1, f"({index}) + 1")


def _closing(code, opening):
    """The position after the bracket that closes the one at `opening`, or None."""
    depth = 0
    for position in range(opening, len(code)):
        depth += code[position] in "([{"
        depth -= code[position] in ")]}"
        if depth == 0:
            return position + 1
        if code[position] == ";":
            return None
    return None


def _arguments(text, code, start, end):
    """The arguments between two positions, split at the commas of the outermost level."""
    depth, cuts = 0, [start - 1]
    for position in range(start, end):
        depth += code[position] in "([{"
        depth -= code[position] in ")]}"
        if code[position] == "," and depth == 0:
            cuts.append(position)
    cuts.append(end)
    return [text[a + 1 : b].strip() for a, b in zip(cuts, cuts[1:], strict=False)]


def _is_declared(code, start):
    """Whether a type precedes the name at `start`: a declaration, no use."""
    before = re.split(r"[;{}]", code[max(0, start - 400) : start])[-1]
    words = re.findall(r"[A-Za-z_]\w*", before)
    if "__shared__" in words:
        return True
    return bool(words) and words[0] not in _STATEMENTS and not re.search(r"[-=+/%()\[\]?!|^.]", before)


def _short(text):
    text = " ".join(text.split())
    return text if len(text) <= 48 else text[:45] + "…"
