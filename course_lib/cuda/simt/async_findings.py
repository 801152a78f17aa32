"""Sentences of the findings about asynchronous operations: TMA copies, wgmma operands, their barriers and fences.

May import: nothing of the course.
"""

# What an agent does; the order is that of AgentKind in runtime/async_proxy.h.
AGENTS = ("tma_load", "tma_store_read", "tma_store_write", "wgmma")
# by agent, when it wrote the bytes, and when it reads them: what it is, and what to wait for
_WRITERS = {
    "tma_load": ("the TMA load of {other} writes", "the mbarrier on which it completes"),
    "tma_store_write": ("the TMA store of {other} writes", "its bulk group (bulk_wait_group)"),
}
_READERS = {
    "tma_load": ("the TMA load of {other} reads", "the mbarrier on which it completes"),
    "tma_store_read": ("the TMA store of {other} reads", "its bulk group (bulk_wait_group_read)"),
    "wgmma": ("the wgmma of {other} reads", "its group (wgmma_wait_group)"),
}


def thread_text(raw, which="thread"):
    """Return `thread (3,0,0)`."""
    return "thread ({},{},{})".format(*raw[which])


class AsyncSentences:
    """Part of findings.Reader: one method for each kind of finding."""

    def async_race(self, raw, space, other):
        """Return the sentence of a race with an asynchronous operation, or None for a race between threads."""
        thread, verb = thread_text(raw), "writes" if raw["is_write"] else "reads"
        if raw["detail"] == "mbarrier":
            return (
                f"{thread} {verb} {self.object(raw)}, which is an mbarrier (initialised at {other}); only the mbarrier "
                f"functions may touch it."
            )
        if not raw["detail"].startswith("agent "):
            return None
        agent = AGENTS[int(raw["detail"].split()[1])]
        table = _WRITERS if raw["other_is_write"] else _READERS
        does, wait = table.get(agent, ("the asynchronous operation of {other} uses", "it"))
        return (
            f"{thread} {verb} {self.object(raw)}, which {does.format(other=other)}; nothing orders this after a wait for "
            f"{wait} (a race on {space} memory)."
        )

    def _missing_fence(self, raw, space, other):
        if raw["detail"].startswith("wgmma"):
            return self.wgmma_fence(raw, other)
        writer = thread_text(raw, "other_thread")
        return (
            f"{self.object(raw)} was written by threads ({writer} at {other}) and is read by the async proxy here "
            f"without fence_proxy_async(): the thread that writes calls it after the write and before the barrier."
        )
