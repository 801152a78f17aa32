"""Sentences of races between threads: what was accessed, by whom, and what does not order the two accesses.

May import: simt.async_findings.
"""

from .async_findings import thread_text

# By the runtime's word (runtime/why_unordered.h): why nothing orders two accesses between which atomics lie.
_UNORDERED = {
    "acquire": (
        " and published by a fence and an atomic; an atomic here has observed that one, but no {fence} follows it "
        "before this access, so old bytes may be in use (__ldcg does not replace the fence)"
    ),
    "release": (
        "; no {fence} lies between that write and the atomic of its block that announces it, so the write may become "
        "visible after the atomic"
    ),
    "block scope": (
        "; only a __threadfence_block() lies between that write and the atomic of its block that announces it, and it "
        "orders nothing for other blocks: call {fence}"
    ),
    "atomic of block scope": (
        "; one of the two is an atomic of block scope (its name ends in _block), which is no atomic for other blocks"
    ),
}

_REFUSED = " The thread's last mbarrier_try_wait_parity had returned false."


def _index(triple):
    return "({},{},{})".format(*triple)


def _of_block(raw, which=""):
    return f"{thread_text(raw, which + 'thread')} of block {_index(raw[which + 'block'])}"


class RaceSentences:
    """Part of findings.Reader; `other` is the text of the other access's line."""

    def equal_writes(self, raw, other):
        """Return the remark on two unordered writes of one value."""
        return (
            f"{_of_block(raw)} writes {self.object(raw)}, which {_of_block(raw, 'other_')} wrote at {other}, and "
            f"nothing orders the two; both wrote the same value, so this is no finding."
        )

    def _race(self, raw, space, other):
        detail = raw["detail"].removesuffix(" refused")
        sentence = self._unrefused_race(raw | {"detail": detail}, space, other)
        return sentence if detail == raw["detail"] else sentence + _REFUSED

    def _unrefused_race(self, raw, space, other):
        sentence = self.async_race(raw, space, other)
        if sentence:
            return sentence
        same_block = raw["block"] == raw["other_block"]
        verb = "writes" if raw["is_write"] else "reads"
        earlier = "wrote" if raw["other_is_write"] else "read"
        thread, other_thread = self.actor(raw), thread_text(raw, "other_thread")
        if not same_block:
            thread += f" of block {_index(raw['block'])}"
            other_thread += f" of block {_index(raw['other_block'])}"
        missing = "with no barrier between them" if raw["issues_async"] else "with no barrier between"
        missing = missing if same_block else "with nothing that orders the two blocks"
        if raw["detail"] == "in flight":
            return (
                f"{thread} {verb} {self.object(raw)} while the asynchronous copy that {other_thread} started at "
                f"{other} is still in flight; wait for it first (a race on shared memory)."
            )
        if raw["detail"] == "source":
            return (
                f"{thread} writes {self.object(raw)} before the asynchronous copy that {other_thread} started at "
                f"{other} has surely read it; wait for the copy first (a race on global memory)."
            )
        if raw["detail"] == "landed":
            return (
                f"{thread} {verb} {self.object(raw)}, which {other_thread} wrote by the asynchronous copy it waited "
                f"for at {other}, {missing} (a race on shared memory)."
            )
        why = _UNORDERED.get(raw["detail"], " {missing}").format(
            missing=missing, fence="__threadfence_block()" if same_block else "__threadfence()"
        )
        return (
            f"{thread} {verb} {self.object(raw)}, which {other_thread} {earlier} at {other}{why} "
            f"(a race on {space} memory)."
        )
