"""What a recorded timeline says about overlap: how many softmaxes of a warpgroup run while a product is in flight.

Times are basic blocks that a thread has executed. A row of a wait comes before the rows of the products it covers.
"""

from course_lib.grading.report.verdict import Diagnosis
from course_lib.grading.subjects.hopper.findings import BLOCK, END, KIND, START, WARP

SHARE = 1 / 3  # of a step: the softmax of 128 keys takes 0.6, rescaling and packing together 0.3, waits 0.1


def overlap_rule(case, ledger):
    """Diagnosis of a case in which too few softmaxes overlap a product, or None; cases without a timeline pass."""
    if not case.options.get("timeline"):
        return None
    num_tiles = -(-case.sizes["seq_len_kv"] // case.options["block_n"])
    rows = [row for row in ledger["timeline"] if row[KIND].startswith("wgmma")]
    if not rows:
        return Diagnosis("nothing_overlaps", f"In the case {case.name!r} no product was issued: nothing overlaps.")
    for block, warp in sorted({(row[BLOCK], row[WARP]) for row in rows}):
        waits = _waits([row for row in rows if (row[BLOCK], row[WARP]) == (block, warp)])
        found = _overlap(waits, num_tiles)
        if found["hidden"] < num_tiles - 1:
            return _say(case.name, warp, num_tiles, found)
    return None


def _waits(rows):
    """[(arrival at a wait, its end, first issue among the products that it covers or None, their number)], by time."""
    waits = []
    for row in rows:
        if row[KIND] == "wgmma_wait":
            waits.append([row[START], row[END], None, 0])
        elif waits:
            wait, start = waits[-1], row[START]
            wait[2], wait[3] = start if wait[2] is None else min(wait[2], start), wait[3] + 1
    return waits


def _overlap(waits, num_tiles):
    """What ran under products.

    Returns
    -------
    dict, "hidden": products that were in flight, with no other wait meanwhile, for SHARE of a step or longer;
    "together": products in flight when the wait for another one ends; "most": products that one wait covers
    """
    issues = [issue for _, _, issue, count in waits if count]
    step = (waits[-1][1] - issues[1]) / (num_tiles - 1) if len(issues) > 1 else 0.0
    together, hidden, last_end = 0, 0, 0
    for arrival, end, issue, count in waits:
        if count:
            together += issue < last_end
            hidden += arrival - max(issue, last_end) >= SHARE * step > 0.0
        last_end = end
    return {"together": together, "hidden": hidden, "most": max((wait[3] for wait in waits), default=0)}


def _say(name, warp, num_tiles, found):
    start = f"The values are right. In the case {name!r} ({num_tiles} tiles, warp {warp})"
    if found["hidden"]:
        return Diagnosis(
            "overlaps_in_part",
            f"{start} only {found['hidden']} of {num_tiles - 1} softmaxes run while a product is in flight. Issue both "
            "products in every step of the loop.",
        )
    if found["together"]:
        return Diagnosis(
            "waits_for_both",
            f"{start} nothing overlaps: two products are in flight together, but the second is waited for before the "
            "softmax has begun. Move wgmma_wait_group<0>() below the softmax.",
        )
    if found["most"] > 1:
        return Diagnosis(
            "waits_for_both",
            f"{start} nothing overlaps: one wait covers both products of a step, and the softmax begins after it. Wait "
            "for the older product alone: wgmma_wait_group<1>().",
        )
    return Diagnosis(
        "nothing_overlaps",
        f"{start} nothing overlaps: no product is in flight while a softmax runs. The scores of tile j and the "
        f"weights of "
        "tile j + 1 times V do not depend on each other: issue both before you wait.",
    )
