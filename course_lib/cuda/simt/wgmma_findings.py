"""Sentences of the findings about wgmma: registers in flight, fences, descriptors, lanes and groups.

May import: simt.async_findings.
"""

from .async_findings import thread_text

_SWIZZLES = ("no swizzle", "the swizzle of 128 bytes", "the swizzle of 64 bytes", "the swizzle of 32 bytes")
_REGISTERS = {"d": "accumulator d[{}]", "a": "register a[{}] of the left operand"}


class WgmmaSentences:
    """Part of findings.Reader: a method for each kind of finding; `raw["detail"]` is written by runtime/wgmma_*.cpp."""

    def _in_flight(self, raw, space, other):
        which, number = raw["detail"].split()
        verb = "writes" if raw["is_write"] else "reads"
        return (
            f"{thread_text(raw)} {verb} {_REGISTERS[which].format(number)} while the wgmma of {other} that uses it "
            f"is in flight; wait for its group first (wgmma_wait_group)."
        )

    def wgmma_fence(self, raw, other):
        """Return the sentence of a missing wgmma_fence()."""
        what = raw["detail"].split()[1:]
        if what == ["first"]:
            return f"wgmma_fence() is missing: {thread_text(raw)} has called none before its first wgmma."
        return (
            f"wgmma_fence() is missing: {thread_text(raw)} wrote {_REGISTERS[what[0]].format(what[1])} at {other}, "
            f"after its last wgmma_fence()."
        )

    def _bad_wgmma(self, raw, space, other):
        kind, *parts = raw["detail"].split("|")
        return getattr(self, "_wgmma_" + kind)(raw, other, *parts)

    def _wgmma_unequal(self, raw, other, what):
        if what == "line":
            return (
                f"{thread_text(raw)} calls another wgmma than {thread_text(raw, 'other_thread')} at {other}; all 128 "
                f"threads of a warpgroup call the same one."
            )
        return (
            f"{thread_text(raw)} passes another {what.removeprefix('the ')} than {thread_text(raw, 'other_thread')} at "
            f"{other}; all 128 threads of a warpgroup call the same wgmma with the same arguments."
        )

    def _wgmma_memory(self, raw, other):
        return f"d and a of {thread_text(raw)} must be local arrays of the thread: they are registers on a GPU."

    def _wgmma_gone(self, raw, other):
        return (
            f"the accumulators of this wgmma are local to a function that returned before {thread_text(raw)} waited; "
            f"declare them in the function that waits."
        )

    def _wgmma_overlap(self, raw, other):
        return (
            f"{thread_text(raw)} passes registers of the wgmma of {other}, which is in flight; only the same "
            f"accumulators may be used again before its wait (wgmma_wait_group)."
        )

    def _wgmma_descriptor(self, raw, other, which, field, value, multiple):
        value, multiple = int(value), int(multiple)
        if field == "base offset":
            return f"the descriptor of {which} has base offset {value}; the machine supports 0 only (wgmma_descriptor)."
        if field == "start":
            return (
                f"the descriptor of {which} begins at byte {value} of shared memory, {value % multiple} bytes into a "
                f"swizzle pattern; it may begin in the first row of a pattern only, and patterns begin at multiples of "
                f"{multiple}."
            )
        if field == "step":
            return (
                f"the descriptor of {which} begins {value} bytes into the row; a step of one wgmma along k is "
                f"{multiple} bytes."
            )
        return (
            f"the descriptor of {which} has {field} = {value}; it must be a multiple of {multiple}, the bytes of a "
            f"swizzle pattern of 8 rows."
        )

    def _wgmma_swizzle(self, raw, other, which, field, written):
        return (
            f"the descriptor of {which} says {_SWIZZLES[int(field)]}, and its bytes were written by a TMA load with "
            f"{_SWIZZLES[int(written)]}."
        )

    def _wgmma_uncovered(self, raw, other):
        return (
            f"{thread_text(raw)} waits here for all committed groups, and the wgmma of {other} is in none: "
            f"wgmma_commit_group() is missing."
        )

    def _wgmma_unfinished(self, raw, other):
        return f"{thread_text(raw)} returned while this wgmma was in flight; wgmma_wait_group<0>() is missing."

    def _wgmma_uncommitted(self, raw, other):
        return f"{thread_text(raw)} returned while this wgmma was in flight; wgmma_commit_group() is missing."

    def wgmma_deadlock(self, raw, other):
        """Return the sentence of a wgmma that waits for lanes that never come."""
        _, lanes, warp, warpgroup, state = raw["detail"].split("|")
        who = f"warp {warp} (lanes {lanes})" if lanes else f"warp {warp}"
        at = {"returned": "already returned", "waits": f"waits at {other}", "calls": f"calls another wgmma at {other}"}
        return (
            f"wgmma waits for {who} of warpgroup {warpgroup}, which {at[state]}; all four warps of it must call wgmma."
        )
