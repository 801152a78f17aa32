"""Recorded runs as spans: events of the SIMT machine, and stored rows of a GPU's clock.

May import: schedule.
"""

import re
from collections import Counter
from dataclasses import replace

from .schedule import Span

COPIES = "TMA copies"
_KINDS = {"tma_load": "copy", "tma_store": "store", "wgmma": "wgmma"}  # all other events are waits
_NAMES = (  # what a line of a kernel does: pattern -> label
    (r"mbarrier_(?:try_)?wait_parity\(&?(?:\w+\.)?(\w+)", r"\1"),
    (r"named_barrier_sync\((\w+)", r"\1"),
    (r"(wgmma_wait_group<\d+>)", r"\1"),
    (r"__syncthreads\(\)", "block"),
    (r"(?:load_panels|tma_load\w*|bulk_load)\b[^(]*\((\w+?)_smem", r"\1"),
    (r"issue_(\w)_(\w)\b", r"\1\2"),
)


def line_labels(source):
    """{line: name} of the waits, copies and products in a kernel's text, as names for `spans_of_events`.

    A wait is named after its barrier ("k_full"), a copy after its tile ("K"), a product after its operands ("QK").
    """
    labels = {}
    for number, text in enumerate(source.splitlines(), start=1):
        for pattern, name in _NAMES:
            if match := re.search(pattern, text):
                label = match.expand(name)
                labels[number] = label.upper() if len(label) <= 2 else label
                break
    return labels


def spans_of_events(events, actors, *, block=0, labels=None, softmax_after="QK"):
    """Spans of one block from ``report.timeline`` of a profile with ``timeline=True``.

    Copies go to the lane "TMA copies", products to "products of …". Neighbouring copies or products of one line are one
    bar. A copy or product that ends just when a wait of another actor ends is taken as its cause.

    Parameters
    ----------
    events : sequence with .block, .warp, .kind, .start, .end, .line, and of a wait .barrier and .parity or None
    actors : dict, name -> the warp that is drawn for this actor; events of other warps are left out
    block : int
    labels : dict, line -> name, as `line_labels` gives them; default: "line 31"
    softmax_after : str, the name of the product whose end begins a softmax, which is no event: it is drawn until the
        actor's next event
    """
    names, labels = {warp: name for name, warp in actors.items()}, labels or {}
    kept = [event for event in events if event.block == block and event.warp in names]
    if not kept:
        raise ValueError(f"No event of block {block} is from the warps {sorted(names)}; profile with timeline=True.")
    spans, stages = [], _stages(kept, labels)
    for warp, name in names.items():
        own = sorted((event for event in kept if event.warp == warp), key=lambda event: (event.start, event.end))
        for event, start, end in _joined(own):
            label = _label(event.line, labels)
            if event.kind in _KINDS:
                lane = _products(name) if event.kind == "wgmma" else COPIES
                spans.append(Span(lane, _KINDS[event.kind], start, end, label, "", event.line))
            else:
                spans.append(Span(name, "wait", start, end, "", label + stages.get(_key(event), ""), event.line))
    owners = {_products(name): name for name in actors}
    spans = _with_causes(_numbered(sorted(spans, key=_times)), owners)
    return sorted(spans + _softmaxes(spans, softmax_after, owners), key=_times)


def _times(span):
    return span.start, span.end


def _products(actor):
    """The lane of an actor's products."""
    return f"products of {actor.removeprefix('consumer ')}"


def _label(line, labels):
    return labels.get(line, "" if line is None else f"line {line}")


def _key(event):
    return event.line, getattr(event, "barrier", None), getattr(event, "parity", None)


def _stages(events, labels):
    """{key of a wait: "[1] parity 0"}: mbarriers of one name are numbered in the order of their initialisation."""
    waits = {_key(event): _label(event.line, labels) for event in events if getattr(event, "barrier", None) is not None}
    barriers = {}
    for (_, barrier, _), name in waits.items():
        barriers.setdefault(name, set()).add(barrier)
    texts = {}
    for key, name in waits.items():
        order = sorted(barriers[name])
        stage = f"[{order.index(key[1])}]" if len(order) > 1 else ""
        texts[key] = f"{stage} parity {key[2]}"
    return texts


def _joined(events):
    """(first event, start, end) of each run of copies or products of one line; waits stay single."""
    runs = []
    for event in events:
        if runs and event.kind in _KINDS and (runs[-1][0].kind, runs[-1][0].line) == (event.kind, event.line):
            first, start, end = runs[-1]
            if event.start <= end:
                runs[-1] = (first, start, max(end, event.end))
                continue
        runs.append((event, event.start, event.end))
    return runs


def _numbered(spans):
    """The copies or products of one lane and name get numbers, if there are several: "K 0", "K 1"."""
    totals, seen = Counter((span.actor, span.label) for span in spans if span.kind != "wait"), Counter()
    numbered = []
    for span in spans:
        key = span.actor, span.label
        label = f"{span.label} {seen[key]}" if span.kind != "wait" and totals[key] > 1 else span.label
        seen[key] += span.kind != "wait"
        numbered.append(replace(span, label=label))
    return numbered


def _with_causes(spans, owners):
    """A copy that ends when a wait ends gets the wait's barrier; a product gives its name to its owner's wait."""
    waits, named = {}, list(spans)
    for number, span in enumerate(spans):
        if span.kind == "wait" and span.end > span.start:
            waits.setdefault(span.end, []).append(number)
    for number, span in enumerate(spans):
        owner = owners.get(span.actor) if span.kind == "wgmma" else None
        for wait in waits.get(span.end, ()) if span.kind != "wait" else ():
            barrier = f"{span.label}, {owner}" if owner else spans[wait].barrier
            if owner in (None, spans[wait].actor):
                named[number] = replace(span, barrier=barrier)
                named[wait] = replace(spans[wait], barrier=barrier)
    return named


def _softmaxes(spans, product, owners):
    """A softmax after each product of this name, until the next event of the product's owner."""
    found = []
    for span in spans:
        name, _, number = span.label.partition(" ")
        if span.kind == "wgmma" and name == product:
            own = (other for other in spans if other.actor in (span.actor, owners[span.actor]))
            following = min((other.start for other in own if other.start >= span.end), default=span.end)
            found.append(Span(owners[span.actor], "softmax", span.end, following, number or "0"))
    return found


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
