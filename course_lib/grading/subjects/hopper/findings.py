"""What the machine's findings about copies, barriers and products mean: a code and advice for each pattern of sentence.

A finding says what happened and on which lines. It gets advice only as far as it excludes other causes. One mistake has
several findings, in several cases; the rows are in the order in which a cause comes before its consequences.

May import: report.verdict, evidence (as data).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ...report.verdict import Diagnosis

_ELSEWHERE = ("out_of_bounds", "misaligned", "bad_shuffle")  # come first, and need no advice


@dataclass(frozen=True)
class Row:
    """A pattern of findings: kind, what the sentence holds, the diagnosis's code and advice.

    `advice` may be a function (Fault, CaseEvidence) -> Diagnosis or None in place of text.
    """

    kind: str
    pattern: str
    code: str
    advice: str | Callable


_BYTES = (
    "Expect what the copies of one phase bring: every box in full, since elements outside the tensor arrive as zeros "
    "and count."
)
_WAIT_FIRST = (
    "The bytes land while the thread goes on. Before it touches them it waits for the phase in which they land: on the "
    "barrier that the copy was given, with the parity of this round."
)
_ASKED = (
    "mbarrier_try_wait_parity may return false, however often it was asked before: ask until it returns true, or call "
    "mbarrier_wait_parity, which does."
)
_RELEASED = "by all who read it, and the next load waits for that release"
SET_UP = (
    Row("bad_barrier", "with no barrier of the block between", "init_not_awaited",
        "A __syncthreads() between the initialisation and the first use lets all threads know of it."),
    Row("bad_barrier", "no thread has initialised", "barrier_not_initialised",
        "One thread initialises every barrier of every stage, before any other use."),
    Row("bad_barrier", "initialises the mbarrier .* a second time", "initialised_twice",
        "One thread initialises, once: a second mbarrier_init forgets the arrivals and the phase."),
    Row("missing_fence", "fence_mbarrier_init", "init_not_fenced",
        "Copies belong to another proxy, which sees the initialisation only after this fence."),
)  # fmt: skip
NAMED = (
    Row("bad_barrier", "no multiple of 32", "wrong_count", "Named barriers count threads in whole warps."),
    Row("bad_barrier", "gives named barrier .* a count of .* gave", "wrong_count",
        "All who meet at a named barrier give it the same count: the threads that wait and those that arrive."),
    Row("bad_barrier", "arrives at named barrier .* a second time", "arrives_twice",
        "Each warp arrives or waits once at a barrier before it opens."),
    Row("deadlock", "named barrier .* waits forever", "named_barrier_deadlock", ""),
)  # fmt: skip
PRODUCTS = (
    Row("bad_wgmma", "the descriptor of", "bad_descriptor", ""),
    Row("missing_fence", r"wgmma_fence\(\) is missing", "missing_wgmma_fence", ""),
    Row("in_flight", "", "in_flight",
        "The call starts the product and returns; its registers are the thread's again after the wait for its group."),
)  # fmt: skip
BYTES = (
    Row("deadlock", "missing and 0 bytes are expected", "no_arrival_at_full",
        "The bytes have come, and the phase also needs its arrival: the thread that loads says how many bytes to "
        "expect "
        "and arrives (mbarrier_arrive_expect_tx)."),
    Row("bad_barrier", "expected [\\d,]+ bytes", "wrong_bytes", _BYTES),
    Row("deadlock", "bytes are expected", "wrong_bytes", _BYTES),
)  # fmt: skip
POLLS = (Row("race", "mbarrier_try_wait_parity had returned false", "asked_and_went_on", _ASKED),)
STAGES = (
    Row("race", "^[^:]*: thread .* which the bulk load of .* writes", "read_before_landing", _WAIT_FIRST),
    Row("race", "wgmma of thread .* reads .* which the bulk load of .* writes", "read_before_landing", _WAIT_FIRST),
    Row("race", "bulk load started by .* writes .* which the wgmma of .* reads", "overwritten_early",
        f"The stage was free too early: it is released when the product that reads it is complete, {_RELEASED}."),
    Row("race", "bulk load started by .* writes .* which thread .* read", "overwritten_early",
        f"The stage was free too early: it is released after its last read, {_RELEASED}."),
    Row("race", "bulk load started by .* writes .* which the bulk load of", "overwritten_early",
        f"Two loads into the same bytes: a stage is loaded again after it was read {_RELEASED}."),
    Row("bad_barrier", "have come already", "too_many_arrivals",
        "The count of mbarrier_init is the number of arrivals of one phase: count who arrives in one round."),
    Row("missing_fence", "fence_proxy_async", "missing_proxy_fence",
        "wgmma and TMA read through the async proxy, which sees a thread's own writes only after this fence."),
    Row("deadlock", "forever for parity", "barrier_never_completes",
        "Either an arrival of that phase is missing, or the thread waits for a phase too far."),
    Row("bad_copy", "no thread waited for this copy", "copy_not_awaited",
        "Every copy that is started is waited for before the block ends."),
)  # fmt: skip
ROWS = (*SET_UP, *NAMED, *POLLS, *PRODUCTS, *BYTES, *STAGES)


def explainer(rows=ROWS):
    """The `explain` of an exercise: the Diagnosis of the first row that describes a finding of any case, or None."""

    def explain(_fault, _case, evidence):
        found = [(fault, case) for case in evidence.failing() for fault in case.faults]
        if any(fault.kind in _ELSEWHERE for fault, _ in found):
            return None
        for row in rows:
            for fault, case in found:
                if fault.kind == row.kind and re.search(row.pattern, fault.message):
                    diagnosis = row.advice(fault, case) if callable(row.advice) else said(row, fault, case)
                    if diagnosis is not None:
                        return diagnosis
        return None

    return explain


def said(row, fault, case):
    """The finding's own sentence, the row's advice, and the case."""
    message = fault.message.strip()
    message = message if message.endswith((".", "?")) else message + "."
    parts = (message, row.advice, f"(Case: {case.case.name}.)")
    return Diagnosis(row.code, " ".join(part for part in parts if part), fault.line)


# Rows [block, warp, kind, start, end, thread, offset] of ledger["timeline"], in logical time (Report.timeline).
# thread and offset: of a load, the thread of the block that issued it and its first byte in shared memory; else None.
BLOCK, WARP, KIND, START, END, THREAD, OFFSET = range(7)


def events(ledger, kind):
    """The timeline's rows of one kind, by start."""
    return sorted((row for row in ledger.get("timeline", ()) if row[KIND] == kind), key=lambda row: row[START])
