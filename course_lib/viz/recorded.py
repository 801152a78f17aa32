"""Recorded runs as spans: events of the SIMT machine, and stored rows of a GPU's clock.

May import: schedule.
"""

from dataclasses import replace

from .schedule import Span

COPIES = "TMA copies"
_KINDS = {"tma_load": "copy", "tma_store": "store", "wgmma": "wgmma"}  # all other events are waits


def spans_of_events(events, actors, *, block=0, labels=None):
    """Spans of one block from ``report.timeline`` of a profile with ``timeline=True``.

    Copies go to the lane "TMA copies", products to "products of …". An event has no barrier; a wait gets the label of
    its line, and a copy or product that ends just when a wait of another actor ends is taken as its cause.

    Parameters
    ----------
    events : sequence with .block, .warp, .kind, .start, .end, .line
    actors : dict, name -> warp whose events stand for that actor; events of other warps are left out
    block : int
    labels : dict, line -> what is waited for, copied or computed there; default: "line 31"
    """
    names, labels = {warp: name for name, warp in actors.items()}, labels or {}
    kept = [event for event in events if event.block == block and event.warp in names]
    if not kept:
        raise ValueError(f"No event of block {block} is from the warps {sorted(names)}; profile with timeline=True.")
    spans = []
    for event in kept:
        name, label, times = names[event.warp], _label(event.line, labels), (event.start, event.end)
        if event.kind not in _KINDS:
            spans.append(Span(name, "wait", *times, "", label, event.line))
        else:
            lane = f"products of {name.removeprefix('consumer ')}" if event.kind == "wgmma" else COPIES
            spans.append(Span(lane, _KINDS[event.kind], *times, label, "", event.line))
    return _with_causes(spans)


def _label(line, labels):
    return labels.get(line, "" if line is None else f"line {line}")


def _with_causes(spans):
    """A copy or product that ends when a wait ends gets the wait's barrier."""
    barriers = {span.end: span.barrier for span in reversed(spans) if span.kind == "wait" and span.end > span.start}
    return [
        span if span.kind == "wait" or span.end not in barriers else replace(span, barrier=barriers[span.end])
        for span in spans
    ]


def spans_of_rows(rows, *, block=None):
    """Spans from rows of a CSV file with the columns actor, kind, start, end, and if known label, barrier, line, block.

    Parameters
    ----------
    rows : sequence of dict, numbers as numbers or text; times in one unit, such as ns of the card's global timer
    block : int or None; keep only the rows of this block. Times then count from its first start
    """
    kept = [row for row in rows if block is None or int(row["block"]) == block]
    if not kept:
        raise ValueError(f"There are no rows{f' of block {block}' * (block is not None)}; nothing can be drawn.")
    first = min(float(row["start"]) for row in kept)
    return [
        Span(
            row["actor"],
            row["kind"],
            float(row["start"]) - first,
            float(row["end"]) - first,
            row.get("label") or "",
            row.get("barrier") or "",
            int(row["line"]) if row.get("line") else None,
        )
        for row in kept
    ]
