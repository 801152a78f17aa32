"""What the machine's findings mean in the three loops, and whether the third still overlaps.

May import: verdict, subjects.hopper.findings.
"""

import re
from dataclasses import replace
from types import SimpleNamespace

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.hopper.findings import (
    BLOCK,
    END,
    POLLS,
    PRODUCTS,
    STAGES,
    START,
    WARP,
    Row,
    events,
    explainer,
)

OVERLAPPED = 2  # the loop whose contract asks for it
_SCALING = 40  # units of logical time from the issue of a product to the wait for it, with scaling in between

_NAMES = ("q_full", "k_full[0]", "k_full[1]", "v_full[0]", "v_full[1]", "empty[0]", "empty[1]")  # of Barriers
_TOO_OFTEN = (
    "The producer loads as often as a stage is released: one thread of the consumer releases it, once for each tile, "
    "when "
    "nothing reads the tile any more."
)
_explain = explainer(
    (
        *POLLS,
        *PRODUCTS,
        Row("bad_barrier", "arrives at the mbarrier .* have come already", "released_too_often", _TOO_OFTEN),
        Row("race", "bulk load started by .* writes .* which the bulk load of", "released_too_often", _TOO_OFTEN),
        *STAGES[:4],
        Row("deadlock", "forever for parity .* of the mbarrier", "barrier_never_completes",
            "Every phase of k_full, v_full and q_full has one arrival, the producer's, and every phase of empty one, "
            "of "
            "the consumer: each stage is released once for each of its tiles."),
        *STAGES[4:],
    )
)  # fmt: skip


def explain(fault, case, evidence):
    """The diagnosis of the first failing case, with the barriers' names: Barriers is one variable for the machine."""
    for one in evidence.failing():
        found = _explain(fault, case, SimpleNamespace(failing=lambda one=one: [one]))
        if found is not None:
            named = re.sub(r"barriers\[([0-6])\]", lambda match: _NAMES[int(match[1])], found.sentence)
            return replace(found, sentence=named)
    return None


def judge_overlap(case, ledger):
    """Diagnosis of a third loop that is right and no longer overlaps, or None."""
    num_tiles = case.sizes["num_tiles"]
    if case.sizes["part"] != OVERLAPPED or num_tiles < 2:
        return None
    kept = _under_way(ledger)
    if kept >= num_tiles - 1:
        return None
    return Diagnosis(
        "no_overlap",
        f"Right, and the product with V no longer runs while the scores are scaled: that was so in {kept} of "
        f"{num_tiles - 1} turns. wgmma_wait_group<1>() waits for all groups but the newest. (Case: {case.name}.)",
    )


def _under_way(ledger):
    """How many products of warp 0 were in flight for as long as scaling takes before the thread waited for them."""
    waits = [row for row in events(ledger, "wgmma_wait") if (row[BLOCK], row[WARP]) == (0, 0)]
    count = 0
    for product in events(ledger, "wgmma"):
        covering = [w[START] for w in waits if w[START] >= product[START] and w[END] >= product[END]]
        count += bool(covering) and min(covering) - product[START] >= _SCALING
    return count
