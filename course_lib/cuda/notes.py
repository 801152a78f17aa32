"""What ptxas tells about wgmma and setmaxnreg (its notes C75xx): what each means and what to do about it.

ptxas repairs a missing wait or fence and goes on, slower: the values stay right, and only its log, the machine code and
the SIMT machine show the mistake. The notes are those of ptxas 13.0, each provoked with a small kernel
(tests/unit/test_compiler_notes.py).

May import: nothing of the course.
"""

import re

_CODE = re.compile(r"\((C75\d\d)\)")
_WAIT = "Move it behind the wgmma_wait_group that covers the wgmma."
# code -> (what it means, what to do)
_MEANINGS = {
    "C7508": (
        "setmaxnreg does nothing, because the registers at the kernel's start are not known",
        "Declare __launch_bounds__(threads, 1): the blocks an SM as well.",
    ),
    "C7510": (
        "the wgmmas run one after another, because a function is called while they are in flight",
        "Take printf, assert and functions that are not inlined out of the loop.",
    ),
    "C7511": (
        "the wgmmas run one after another, because the registers do not suffice for their accumulators",
        "Take a smaller tile, or fewer threads a block, so that each has more registers.",
    ),
    "C7512": (
        "the wgmmas run one after another, because the registers do not suffice for what is in flight",
        "Take a smaller tile, or give the consumers more registers (setmaxnreg).",
    ),
    "C7513": (
        "the wgmmas run one after another, because registers of an A operand are written while a wgmma may read them",
        f"That is packing P too early. {_WAIT}",
    ),
    "C7514": (
        "the wgmmas run one after another, because accumulators are read while a wgmma may write them",
        f"That is a missing wait, or rescaling O too early. {_WAIT}",
    ),
    "C7515": (
        "the wgmmas run one after another, because accumulators are written while a wgmma may write them",
        f"That is a missing wait, or clearing them too early. {_WAIT}",
    ),
    "C7517": (
        "ptxas has added a wait before registers that a wgmma in flight still writes",
        "The source lacks one: call wgmma_wait_group before the accumulators are used.",
    ),
    "C7519": (
        "ptxas has added a wgmma.fence before a wgmma whose registers were written",
        "The source lacks one: call wgmma_fence() before the first wgmma and after writing accumulators or A.",
    ),
}
_OTHER = ("ptxas could not compile wgmma or setmaxnreg as written", "Compare with the neighbouring kernels.")


def codes(notes):
    """The codes in a compiler's notes, each once: ["C7514", "C7517"]."""
    return list(dict.fromkeys(_CODE.findall(notes)))


def is_about_wgmma(line):
    """Whether a line of ptxas's log is such a note."""
    return _CODE.search(line) is not None


def meaning(code):
    """Two sentences on a code: what it means, and what to do."""
    what, remedy = _MEANINGS.get(code, _OTHER)
    return f"{code}: {what}. {remedy}"


def explained(notes):
    """A compiler's notes with the meaning of each code below them.

    Parameters
    ----------
    notes : str, as in Cubin.notes
    """
    return "\n".join([*notes.splitlines(), *map(meaning, codes(notes))])
