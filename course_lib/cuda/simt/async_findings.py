"""Sentences of the findings about asynchronous operations: TMA, wgmma operands, mbarriers, named barriers, registers.

May import: nothing of the course.
"""

# What an agent does; the order is that of AgentKind in runtime/async_proxy.h.
AGENTS = ("tma_load", "tma_store_read", "tma_store_write", "wgmma")
_OPERATIONS = {
    "tma_load": "the bulk load started by ",
    "tma_store_read": "the bulk store started by ",
    "tma_store_write": "the bulk store started by ",
    "wgmma": "the wgmma of ",
}
# by agent, when it wrote the bytes, and when it reads them: what it does, and what to wait for
_WRITERS = {
    "tma_load": ("the bulk load of {} writes", "the mbarrier on which it completes"),
    "tma_store_write": ("the bulk store of {} writes", "its group (bulk_wait_group)"),
}
_READERS = {
    "tma_load": ("the bulk load of {} reads", "the mbarrier on which it completes"),
    "tma_store_read": ("the bulk store of {} reads", "its group (bulk_wait_group_read)"),
    "wgmma": ("the wgmma of {} reads", "its group (wgmma_wait_group)"),
}


def thread_text(raw, which="thread"):
    """Return `thread (3,0,0)`."""
    return "thread ({},{},{})".format(*raw[which])


def _plural(count, noun):
    return f"{int(count):,} {noun}" + ("" if int(count) == 1 else "s")


class AsyncSentences:
    """Part of findings.Reader: the sentences of one finding each; `other` is the text of its second line."""

    def async_race(self, raw, space, other):
        """Return the sentence of a race with an asynchronous operation, or None for a race between threads."""
        thread, verb = self.actor(raw), "writes" if raw["is_write"] else "reads"
        if raw["detail"] == "mbarrier":
            return (
                f"{thread} {verb} {self.barrier(raw)}, which {other} initialised as an mbarrier; only the mbarrier "
                f"functions may touch it."
            )
        if not raw["detail"].startswith("agent "):
            return None
        agent = AGENTS[int(raw["detail"].split()[1])]
        table = _WRITERS if raw["other_is_write"] else _READERS
        does, wait = table[agent]
        return (
            f"{thread} {verb} {self.object(raw)}, which {does.format(other)}; nothing orders this after a wait for "
            f"{wait} (a race on {space} memory)."
        )

    def actor(self, raw):
        """Return `thread (3,0,0)`, or `the bulk load started by thread (3,0,0)`."""
        operation = _OPERATIONS[AGENTS[raw["issues_async"] - 1]] if raw["issues_async"] else ""
        return operation + thread_text(raw)

    def barrier(self, raw):
        """Name an mbarrier: `full[1]`, or `byte 2048 of dynamic shared memory`."""
        dynamic = self.result["shared"][1]
        if dynamic and raw["address"] >= dynamic:
            return f"byte {raw['address'] - dynamic:,} of dynamic shared memory"
        return self.object(raw)

    def _missing_fence(self, raw, space, other):
        if raw["detail"].startswith("wgmma"):
            return self.wgmma_fence(raw, other)
        writer = thread_text(raw, "other_thread")
        if raw["detail"] == "init":
            return (
                f"the copy completes on {self.barrier(raw)}, which {writer} initialised at {other} without "
                f"fence_mbarrier_init(): that thread calls it after mbarrier_init and before the barrier of the block."
            )
        return (
            f"{self.object(raw)}, written by {writer} at {other}, is read by the async proxy here without "
            f"fence_proxy_async(): the thread that writes calls it after the write and before the barrier."
        )

    def _bad_barrier(self, raw, space, other):
        what, *rest = raw["detail"].split("|")
        if what == "named":
            return self._bad_named_barrier(raw, other, rest)
        name, thread = self.barrier(raw), thread_text(raw)
        if what == "uninitialised":
            return f"{thread} uses the mbarrier {name}, which no thread has initialised (mbarrier_init)."
        if what == "unpublished":
            writer = thread_text(raw, "other_thread")
            return (
                f"{thread} uses the mbarrier {name}, which {writer} initialised at {other}, with no barrier of the "
                f"block between."
            )
        if what == "again":
            return f"{thread} initialises the mbarrier {name} a second time."
        if what == "arrivals":
            return (
                f"{thread} arrives at the mbarrier {name}, but the {_plural(rest[0], 'arrival')} of this phase have "
                f"come already."
            )
        expected, arrived = (f"{int(number):,}" for number in rest)
        where = f" (expected at {other})" if raw["other_code"] else ""
        return f"a phase of the mbarrier {name} expected {expected} bytes{where}, {arrived} arrived."

    def _bad_named_barrier(self, raw, other, parts):
        what, number, *rest = parts
        thread, name = thread_text(raw), f"named barrier {number}"
        if what == "multiple":
            return f"{thread} gives {name} a count of {rest[0]} threads, which is no multiple of 32."
        if what == "count":
            return (
                f"{thread} gives {name} a count of {rest[0]} threads, {thread_text(raw, 'other_thread')} at {other} "
                f"gave {rest[1]}."
            )
        return f"warp {rest[0]} ({thread}) arrives at {name} a second time before it has opened."

    def _bad_copy(self, raw, space, other):
        if raw["detail"] == "unwaited":
            return (
                f"no thread waited for this copy on the mbarrier {self.barrier(raw)} before the block ended; its "
                f"shared memory may belong to another block by then."
            )
        repair = "bulk_commit_group() and " if raw["detail"] == "uncommitted" else ""
        return (
            f"the block ended while this copy might still read its shared memory, which another block may get; add "
            f"{repair}bulk_wait_group_read<0>()."
        )

    def _bad_registers(self, raw, space, other):
        what, first, second = raw["detail"].split("|")
        if what == "part":
            return f"{second} threads of warpgroup {first} execute this setmaxnreg; all 128 must."
        name, side = ("setmaxnreg_inc", "more") if what == "inc" else ("setmaxnreg_dec", "fewer")
        return f"{name}<{first}> where each thread holds {second} registers; it must ask for {side}, or as many."

    def _remark(self, raw, space, other):
        if raw["detail"] == "equal writes":
            return self.equal_writes(raw, other)
        if raw["detail"].startswith("named|zero"):
            return f"{thread_text(raw)} comes to named barrier 0, which is that of __syncthreads()."
        _, _, number, arrived, count = raw["detail"].split("|")
        return f"{arrived} of {count} threads had arrived at named barrier {number} when the block ended."

    def async_deadlock(self, raw):
        """Return the sentence of a deadlock at an mbarrier, a named barrier or setmaxnreg; None for another one."""
        what, *rest = raw["detail"].split("|")
        if what == "pool":
            return f"registers {rest[0]} exceed the {int(rest[1]):,} of the block: setmaxnreg waits forever."
        if what == "named":
            return "; ".join(_named_deadlock(rest[first : first + 5]) for first in range(1, len(rest), 5)) + "."
        if what != "mbarrier":
            return None
        parity, phase, pending, count, expected, arrived, threads = map(int, rest)
        missing = (
            [f"{pending} of its {_plural(count, 'arrival')} {'is' if pending == 1 else 'are'} missing"]
            if pending
            else []
        )
        if arrived != expected:
            missing.append(f"{expected:,} bytes are expected, {arrived:,} arrived")
        who = f"{_plural(threads, 'thread')} wait{'s' if threads == 1 else ''} forever"
        state = f"phase {phase} (parity {phase % 2}) does not complete; {' and '.join(missing)}"
        return f"{who} for parity {parity} of the mbarrier {self.barrier(raw)}: {state}."


def _named_deadlock(parts):
    number, count, arrived, whole, in_part = parts
    come = f"warps {whole} wait or have arrived" if whole else "no whole warp has arrived"
    partly = f"; only some lanes of warps {in_part} have" if in_part else ""
    missing = int(count) - int(arrived)
    return f"named barrier {number} waits forever for {missing} of its {count} threads: {come}{partly}"
