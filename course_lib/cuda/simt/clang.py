"""What is changed in clang++'s assembly text, so that the machine says the same as of g++'s.

May import: nothing of the course.
"""

import re

# Spills and reloads belong to no line for clang; a crash or a finding there would have none.
_NO_LINE = re.compile(r"^\s*\.loc\s+\d+\s+0\s.*\n", re.MULTILINE)
_CALL = re.compile(r"\s*(?:callq?|bl)\s+(\w+)")
_BLOCK, _CHECK = "__sanitizer_cov_trace_pc", "__ubsan_handle_"
_UNALIGNED = re.compile(r"\b__tsan_unaligned_")
_PACKED = re.compile(r"(?:[(,]|::)\s*(?:__)?packed(?:__)?\s*[\]),]|#\s*pragma\s+pack\b")


def as_of_gcc(assembly, source):
    """Return the text with all changes.

    Parameters
    ----------
    assembly : str, of a fast or a checked build
    source : str, the author's text
    """
    return with_whole_accesses(without_check_blocks(with_lines(assembly)), source)


def with_lines(assembly):
    """Let instructions without a line have that of the one before."""
    return _NO_LINE.sub("", assembly)


def without_check_blocks(assembly):
    """Remove the calls that count the two basic blocks of each check of an index or an alignment.

    g++ adds its checks after these calls: blocks of checks are no steps of a thread, and no logical time. A check is
    a block that calls the handler, and the block after it.
    """
    kept, last, after_check = [], None, False
    for line in assembly.split("\n"):
        called = _CALL.match(line)
        if called and called[1] == _BLOCK:
            if after_check:
                after_check = False
                continue
            last = len(kept)
        elif called:
            after_check = called[1].startswith(_CHECK)
            if after_check and last is not None:
                kept[last] = ""
            last = None
        kept.append(line)
    return "\n".join(kept)


def with_whole_accesses(assembly, source):
    """Report an access at less than its type's alignment as one number, as g++ does, not in aligned pieces.

    clang lowers the alignment of `*reinterpret_cast<int*>(&s[1])` to that of the array, and then checks no other. A
    structure is a call of memcpy for it; only the members of a packed one are unaligned by right.
    """
    return assembly if _PACKED.search(source) else _UNALIGNED.sub("__tsan_", assembly)
