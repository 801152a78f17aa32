"""What the machine's findings mean in this ring: who is ahead of whom, and from which round on.

May import: verdict, evidence (as data), subjects.hopper.findings; tiles.
"""

import re

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.hopper.findings import (
    BYTES,
    POLLS,
    SET_UP,
    STAGES,
    THREAD,
    Row,
    events,
    explainer,
    said,
)

from .tiles import loaded_more, tiles_of

_ARRIVES = re.compile(r"thread \((\d+),.* arrives at the mbarrier full")
_EXPECTED = re.compile(r"expected ([\d,]+) bytes.* ([\d,]+) arrived")
_BLOCKED = re.compile(
    r"(\d+) threads? waits? forever for parity (\d) of the mbarrier (full|empty)(?:\[(\d+)\])?: phase (\d+) .*?"
    r"complete; (?:(\d+) of its (\d+))?"
)


def is_first_round(case):
    """Whether no stage is used twice in the case."""
    tile_rows, stages = case.case.sizes["tile_rows"], case.case.sizes["stages"]
    return max(case.case.options["lengths"]) <= tile_rows * stages


def _in_first_round(row):
    """The row, for cases that use no stage twice: there no other round can be meant."""

    def tell(fault, case):
        return said(row, fault, case) if is_first_round(case) else None

    return Row(row.kind, row.pattern, row.code, tell)


def _producers(fault, case):
    """Several threads that arrive at full or load, in a run as far as it went."""
    loads = events(case.first.ledger or {}, "tma_load")
    arriving = (_ARRIVES.search(one.message) for one in case.faults)
    threads = {row[THREAD] for row in loads} | {int(match[1]) for match in arriving if match}
    advice = "One thread loads: the phase of full has one arrival, that of the thread that expects the bytes."
    return said(Row("", "", "several_producers", advice), fault, case) if len(threads) > 1 else None


def _loaded_more(fault, case):
    """A race of two loads where more loads than tiles were started."""
    loads = events(case.first.ledger or {}, "tma_load")
    found = loaded_more(case.case, loads)
    if found is None or len(loads) < tiles_of(case.case):
        return None
    return said(Row("", "", *found), fault, case)


def _bytes(fault, case):
    """More bytes than a phase expects, where it expects a tile: two loads on one phase."""
    sizes, found = case.case.sizes, _EXPECTED.search(fault.message)
    tile_bytes = sizes["tile_rows"] * sizes["cols"] * 4
    if (
        not is_first_round(case)
        or not found
        or int(found[1].replace(",", "")) != tile_bytes
        or int(found[2].replace(",", "")) < 2 * tile_bytes
    ):
        return None
    advice = "Two loads complete on one phase: each stage has a barrier of its own, and one load in each round."
    return said(Row("", "", "loads_share_a_phase", advice), fault, case)


def _reused(fault, case):
    """A stage that is read and written at the same time, from the second round on."""
    if not any(re.search(_READS, one.message) for one in case.faults if one.kind == "race"):
        return said(STAGES[3], fault, case)
    return said(Row("", "", "stage_reused", _REUSED), fault, case)


def _blocked(fault, case):
    """Both sides of a deadlock, as far as they are known."""
    found = [(_BLOCKED.search(one.message), one) for one in case.faults if one.kind == "deadlock"]
    sides = {match[3]: match for match, _ in reversed(found) if match}
    if not sides:
        return None
    words = "; ".join(_side(match) for match in sides.values())
    code, advice = _cause(sides, case)
    line = next(one.line for match, one in found if match)
    return Diagnosis(code, f"line {line}: {words}. {advice} (Case: {case.case.name}.)", line)


def _side(match):
    threads, parity, name, stage, phase, missing, count = match.groups()
    barrier = f"{name}[{stage}]" if stage else name
    who = "the producer" if name == "empty" else f"{threads} consumer{'s' if threads != '1' else ''}"
    come = (
        f"{int(count) - int(missing)} of its {count} arrivals have come" if missing else "its bytes have not all come"
    )
    verb = "wait" if name == "full" and threads != "1" else "waits"
    return f"{who} {verb} for ever at {barrier} for parity {parity}: its phase {phase} does not end, {come}"


def _cause(sides, case):
    empty, full = sides.get("empty"), sides.get("full")
    if empty is not None and full is not None:
        if empty[5] == "0" and is_first_round(case):
            return "first_round", (
                "No stage has been released yet, and the producer waits for that: in the first round it waits for the "
                "phase before phase 0, which has parity 1 and counts as completed."
            )
        come = int(empty[7] or 0) - int(empty[6] or 0)
        if come == 0:
            return "never_released", "The consumers have read the stage; after the read each of them arrives at empty."
        return "release_incomplete", (
            f"mbarrier_init has told empty to wait for {empty[7]} arrivals in each round, and {come} came: the count "
            "is the "
            "number of arrivals of one round."
        )
    return STAGES[-2].code, STAGES[-2].advice


_READS = "^[^:]*: thread .* reads .* which the bulk load of .* writes"
_REUSED = (
    "Right as long as each stage is used once. From the second round on either the consumers go by the phase of the "
    "round before, or the producer loads into a stage that not all consumers have read."
)
_COLLIDE = "Two loads of the first round write the same bytes: each tile is loaded once, into a stage of its own."
_AHEAD = (
    "The producer came to this stage again before the consumers were through with it: it waits for `empty` of the "
    "stage, "
    "with the parity of its round inverted, and `empty` counts all who arrive in one round."
)
explain = explainer(
    (
        *SET_UP,
        *POLLS,
        Row("bad_barrier", "arrives at the mbarrier full", "", _producers),
        *map(_in_first_round, BYTES[:1]),
        Row("bad_barrier", "expected .* arrived", "", _bytes),
        *map(_in_first_round, BYTES[1:]),
        _in_first_round(Row(
            "race", "bulk load started by .* writes .* which the bulk load of", "loads_collide", _COLLIDE)),
        Row("race", "bulk load started by .* writes .* which the bulk load of", "", _loaded_more),
        _in_first_round(STAGES[0]),
        Row("bad_barrier", "arrives at the mbarrier full", "producer_ahead", _AHEAD),
        Row("bad_barrier", "expected .* arrived", "producer_ahead", _AHEAD),
        Row("deadlock", "the mbarrier full.* bytes are expected", "producer_ahead", _AHEAD),
        Row("race", "which the bulk load of .* writes|bulk load started by .* writes", "", _reused),
        *STAGES[5:7],
        Row("deadlock", "forever for parity", "", _blocked),
        *STAGES[8:],
    )
)  # fmt: skip
