"""Who waits for whom inside a block: spans of time, and a model of the loop of chapter 08 that produces them.

A span is what one actor does from `start` to `end`: a warp that works or waits, a copy from its issue to its landing, a
product from its issue to its completion. Recorded runs and the model below give the same records.

May import: nothing of the course.
"""

from dataclasses import dataclass

KINDS = ("copy", "wgmma", "softmax", "issue", "store", "arrive", "wait")


@dataclass(frozen=True)
class Span:
    """One bar of the timeline.

    Attributes
    ----------
    actor : str, the lane: a warp, a warpgroup, "TMA copies", the products of a warpgroup
    kind : str, one of KINDS; an "arrive" has no duration
    start, end : float, in one unit for all spans of a picture: SIMT steps, ns
    label : str, what is copied or computed: "K 3"
    barrier : str; of a wait, what it waits for, with the parity: "k_full[1] parity 0"; of any other span, what its end
        completes or arrives at. The same text on both draws an arrow
    line : int or None, of the kernel's source
    """

    actor: str
    kind: str
    start: float
    end: float
    label: str = ""
    barrier: str = ""
    line: int | None = None

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"A span of {self.actor!r} has kind {self.kind!r}; expected one of {', '.join(KINDS)}.")
        if self.end < self.start:
            raise ValueError(f"A span of {self.actor!r} ends at {self.end}, before its start {self.start}; swap them.")

    def sentence(self):
        """The span in words, for texts that a reader hears."""
        words = {"wait": "waits", "arrive": "arrives"}.get(self.kind, self.kind)
        name = " ".join(filter(None, (words, self.label)))
        target = {"wait": "for", "arrive": "at"}.get(self.kind, "completing")
        return f"{self.actor}: {name}{f' {target} {self.barrier}' * bool(self.barrier)}, {_times(self)}"


def _times(span):
    line = f", line {span.line}" if span.line is not None else ""
    return f"at {span.end:g}{line}" if span.end == span.start else f"{span.start:g} to {span.end:g}{line}"


def spans_between(spans, start, end):
    """Spans that overlap [start, end], cut to it."""
    kept = (span for span in spans if span.end >= start and span.start <= end)
    cut = ((span, max(span.start, start), min(span.end, end)) for span in kept)
    return [Span(s.actor, s.kind, first, last, s.label, s.barrier, s.line) for s, first, last in cut]


def releases(spans, *, least=0.0):
    """[(wait, span that ended it)]: the last span of another actor with the same `barrier`, ended when the wait ends.

    Parameters
    ----------
    spans : sequence of Span
    least : float, waits that are not longer are left out
    """
    pairs = []
    for wait in spans:
        if wait.kind == "wait" and wait.barrier and wait.end - wait.start > least:
            causes = [
                span
                for span in spans
                if span.kind != "wait" and span.barrier == wait.barrier and span.actor != wait.actor
            ]
            causes = [span for span in causes if span.end <= wait.end + 1e-9]
            if causes:
                pairs.append((wait, max(causes, key=lambda span: span.end)))
    return pairs


def waiting_time(spans):
    """{actor: time in waits}, of the actors that wait at all."""
    waited = {}
    for span in spans:
        if span.kind == "wait":
            waited[span.actor] = waited.get(span.actor, 0.0) + span.end - span.start
    return waited


def attention_schedule(num_tiles=4, num_groups=2, *, overlap=False, ping_pong=False, **durations):
    """Spans of a producer and its consumer warpgroups that walk over tiles of keys: a model, not a measurement.

    The tensor cores serve one product at a time, in the order of issue; copies land one after the other. K and V have
    two stages each, and the producer loads K(j) before V(j), as the kernels of flash_attention_3 do.

    Parameters
    ----------
    num_tiles, num_groups : int, at least 1
    overlap : bool; the softmax of a tile runs under the second product of the previous one
    ping_pong : bool; two warpgroups issue their products in turn, by named barriers
    durations : product=1, softmax=2.5, copy=0.6 in any one unit: of one product of one warpgroup, of the softmax of its
        scores, of the copy of a tile of K or of V

    Returns
    -------
    list of Span, by start
    """
    length = {"product": 1.0, "softmax": 2.5, "copy": 0.6, **durations}
    if num_tiles < 1 or num_groups < 1 or len(length) > 3:
        raise ValueError(f"Expected at least 1 tile and 1 warpgroup, got {num_tiles} and {num_groups}; {length}.")
    if ping_pong and num_groups != 2:
        raise ValueError(f"Ping-pong is between 2 warpgroups, got num_groups={num_groups}; pass ping_pong=False.")
    programs = {"producer": _producer(num_tiles, num_groups, length["copy"])}
    for group in range(num_groups):
        program = _overlapped if overlap else _in_order
        programs[f"consumer {group}"] = program(group, num_tiles, length, ping_pong)
    return sorted(_run(programs), key=lambda span: (span.start, span.end))


def _full(tensor, tile):
    return f"{tensor}_full[{tile % 2}] parity {tile // 2 % 2}"


def _empty(tensor, tile):
    return f"{tensor}_empty[{tile % 2}] parity {tile // 2 % 2}"


def _producer(num_tiles, num_groups, copy):
    """K and V of every tile, each as soon as its stage is empty."""
    for tile in range(num_tiles):
        for tensor in "kv":
            if tile >= 2:
                needed = [f"{tensor} {tile - 2} released by {group}" for group in range(num_groups)]
                yield "wait", needed, _empty(tensor, tile - 2)
            name = f"{tensor.upper()} {tile}"
            yield "start", "TMA copies", "copy", copy, name, _full(tensor, tile), f"{tensor} {tile} landed"


def _turn(group, ping_pong, turn):
    """Wait for this consumer's turn; consumer 0 has the first."""
    if ping_pong and (turn or group == 1):
        yield "wait", [f"turn {turn} of {group}"], f"turn of consumer {group}"


def _pass_on(group, ping_pong, turn):
    if ping_pong:
        other = 1 - group
        yield "signal", f"turn {turn + group} of {other}", f"turn of consumer {other}"


def _issue(group, product, tile, length):
    """Wait for the operand, then start the product of a tile."""
    tensor = "k" if product == "QK" else "v"
    yield "wait", [f"{tensor} {tile} landed"], _full(tensor, tile)
    name = f"{product} {tile}"
    lane, barrier = f"products of {group}", f"{name}, consumer {group}"
    yield "start", lane, "wgmma", length["product"], name, barrier, f"{name} of {group}"


def _complete(group, product, tile):
    """Wait for the product, then release its operand."""
    tensor, name = "k" if product == "QK" else "v", f"{product} {tile}"
    yield "wait", [f"{name} of {group}"], f"{name}, consumer {group}"
    yield "signal", f"{tensor} {tile} released by {group}", _empty(tensor, tile)


def _in_order(group, num_tiles, length, ping_pong):
    """Scores, softmax, second product, each after the other; a turn is PV of one tile and QK of the next."""
    for tile in range(num_tiles):
        yield from _turn(group, ping_pong, tile)
        if tile:
            yield from _issue(group, "PV", tile - 1, length)
            if not ping_pong:
                yield from _complete(group, "PV", tile - 1)
        yield from _issue(group, "QK", tile, length)
        yield from _pass_on(group, ping_pong, tile)
        if tile and ping_pong:
            yield from _complete(group, "PV", tile - 1)
        yield from _complete(group, "QK", tile)
        yield "work", "softmax", length["softmax"], f"{tile}"
    yield from _issue(group, "PV", num_tiles - 1, length)
    yield from _complete(group, "PV", num_tiles - 1)


def _overlapped(group, num_tiles, length, ping_pong):
    """QK of a tile and PV of the previous one are in flight together; the softmax waits for QK alone."""
    for tile in range(num_tiles):
        yield from _turn(group, ping_pong, tile)
        yield from _issue(group, "QK", tile, length)
        if tile:
            yield from _issue(group, "PV", tile - 1, length)
        yield from _pass_on(group, ping_pong, tile)
        yield from _complete(group, "QK", tile)
        yield "work", "softmax", length["softmax"], f"{tile}"
        if tile:
            yield from _complete(group, "PV", tile - 1)
    yield from _issue(group, "PV", num_tiles - 1, length)
    yield from _complete(group, "PV", num_tiles - 1)


def _run(programs):
    """Run the operation that can begin first, until every program has ended; an engine serves in the order of issue."""
    done, free, spans = {}, {}, []
    clocks, following = dict.fromkeys(programs, 0.0), {name: next(p, None) for name, p in programs.items()}
    while any(following.values()):
        ready = {
            name: max([clocks[name], *(done[event] for event in op[1])]) if op[0] == "wait" else clocks[name]
            for name, op in following.items()
            if op and (op[0] != "wait" or all(event in done for event in op[1]))
        }
        actor = min(ready, key=ready.get)
        operation, *arguments = following[actor]
        clocks[actor] = _STEPS[operation](spans, done, free, actor, clocks[actor], *arguments)
        following[actor] = next(programs[actor], None)
    return spans


def _wait(spans, done, _free, actor, now, events, barrier):
    end = max([now, *(done[event] for event in events)])
    if end > now:
        spans.append(Span(actor, "wait", now, end, "", barrier))
    return end


def _signal(spans, done, _free, actor, now, event, barrier):
    done[event] = now
    spans.append(Span(actor, "arrive", now, now, "", barrier))
    return now


def _work(spans, _done, _free, actor, now, kind, duration, label):
    spans.append(Span(actor, kind, now, now + duration, label))
    return now + duration


def _start(spans, done, free, actor, now, lane, kind, duration, label, barrier, event):
    """Asynchronous: the actor goes on at once; what is queued shows as waiting on the engine's lane."""
    begin = max(now, free.get(kind, 0.0))
    queued = max(now, free.get(lane, 0.0))  # behind its own lane's previous bar, which is drawn
    if begin > queued:
        spans.append(Span(lane, "wait", queued, begin, "queued"))
    free[kind] = free[lane] = done[event] = begin + duration
    spans.append(Span(lane, kind, begin, begin + duration, label, barrier))
    return now


_STEPS = {"wait": _wait, "signal": _signal, "work": _work, "start": _start}
