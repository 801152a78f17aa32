"""Load on an engine, and what its users see: time to the first token, time between tokens, throughput.

    run = drive(engine, OpenLoop(arriving(requests, rate=8)))
    summary(run)

An open loop sends each request at its time, whatever the engine does, and its times count from that intended arrival;
a client that waited for the engine before it sent would leave out exactly the waiting that it should measure
(coordinated omission). A closed loop has a fixed number of clients, each with one request in flight.

May import: errors, expect, request, traces.
"""

import heapq
import math
import time
from dataclasses import dataclass, field

from .. import expect
from ..errors import ArgumentError, ServingError
from .request import checked_requests
from .traces import Conversation

PERCENTILES = (50, 99)
LONGEST_SLEEP = 0.05  # seconds between two looks at the clock while nothing runs


@dataclass
class Timeline:
    """One request as its client saw it; times in seconds from the start of the run.

    Attributes
    ----------
    name : str
    arrival : float, when it was meant to be sent
    num_prompt, num_cached : int, prompt tokens, and those taken from the prefix cache
    times : list of float, when each token came; over HTTP each piece of text, which may hold several
    tokens : list of int, empty where they are not known
    count : int or None, tokens where they are not one a time
    finish_reason, error : str or None
    """

    name: str
    arrival: float
    num_prompt: int
    num_cached: int = 0
    times: list = field(default_factory=list)
    tokens: list = field(default_factory=list)
    count: int | None = None
    finish_reason: str | None = None
    error: str | None = None

    @property
    def num_tokens(self):
        """Tokens that came."""
        return len(self.times) if self.count is None else self.count

    @property
    def ttft(self):
        """Seconds from the intended arrival to the first token."""
        return self.times[0] - self.arrival

    @property
    def tpot(self):
        """Mean seconds of each token after the first; None where there is one."""
        return (self.times[-1] - self.times[0]) / (self.num_tokens - 1) if self.num_tokens > 1 else None

    @property
    def gaps(self):
        """Seconds between neighbouring tokens."""
        return [b - a for a, b in zip(self.times, self.times[1:], strict=False)]


@dataclass(frozen=True)
class Sample:
    """The engine after one step."""

    time: float
    running: int
    waiting: int
    kv_use: float
    num_tokens: int


@dataclass
class Run:
    """What a load did: a Timeline a request, a Sample a step, and how long it took."""

    timelines: dict = field(default_factory=dict)
    samples: list = field(default_factory=list)
    seconds: float = 0.0
    stats: object = None


class OpenLoop:
    """Requests at their arrival times, in order."""

    def __init__(self, requests):
        self.remaining = sorted(checked_requests(requests), key=lambda item: item.arrival, reverse=True)
        self.num_requests = len(self.remaining)

    def due(self, now):
        """The requests whose time has come."""
        found = []
        while self.remaining and self.remaining[-1].arrival <= now:
            found.append(self.remaining.pop())
        return [(item, item.arrival) for item in found]

    def next_time(self):
        """Seconds of the next arrival, or None."""
        return self.remaining[-1].arrival if self.remaining else None

    def finished(self, name, tokens, now):
        """A request ended: nothing depends on it."""


class ClosedLoop:
    """`clients` clients, each of which sends its next request when its last one has ended."""

    def __init__(self, requests, clients):
        self.remaining, self.free = checked_requests(requests)[::-1], expect.whole("clients", clients, 1)
        self.num_requests = len(self.remaining)

    def due(self, now):
        """The requests of clients that are free; each arrives now."""
        count = min(self.free, len(self.remaining))
        self.free -= count
        return [(self.remaining.pop(), now) for _ in range(count)]

    def next_time(self):
        """None: only the end of a request lets another one begin."""

    def finished(self, name, tokens, now):
        """A client is free."""
        self.free += 1


class Conversing:
    """Conversations: each turn follows the answer before it, after its user has thought."""

    def __init__(self, conversations):
        for user in conversations if isinstance(conversations, list | tuple) else [conversations]:
            expect.kind("a conversation", user, Conversation, how="traces.conversations makes them")
        self.users = {user.name: user for user in conversations}
        self.ready = [(user.arrival, user.name, user.request(0)) for user in conversations]
        heapq.heapify(self.ready)
        self.sent = {}
        self.num_requests = sum(len(user.turns) for user in conversations)

    def due(self, now):
        """The turns whose time has come."""
        found = []
        while self.ready and self.ready[0][0] <= now:
            arrival, _, item = heapq.heappop(self.ready)
            self.sent[item.name] = item
            found.append((item, arrival))
        return found

    def next_time(self):
        """Seconds of the next turn that is known, or None."""
        return self.ready[0][0] if self.ready else None

    def finished(self, name, tokens, now):
        """Plan the next turn of the user whose turn ended."""
        user, turn = name.rsplit(".", 1)
        user, following = self.users[user], int(turn) + 1
        history = (*self.sent.pop(name).prompt, *tokens)
        if following < len(user.turns):
            item = user.request(following, history, now + user.think)
            heapq.heappush(self.ready, (item.arrival, user.name, item))


def drive(engine, source, *, progress=None, clock=time.perf_counter, sleep=time.sleep, seconds=float("inf")):
    """Run a load in this process and return its Run.

    Parameters
    ----------
    engine : ServingEngine, or anything with add, abort, step, has_work and stats
    source : OpenLoop, ClosedLoop or Conversing
    progress : function(requests done, requests in all), or None
    seconds : float; what has not ended after this time is aborted, and its timeline says so
    """
    if not all(callable(getattr(source, name, None)) for name in ("due", "next_time", "finished")):
        raise ArgumentError(f"source is {expect.shown(source)}; expected an OpenLoop, a ClosedLoop or a Conversing.")
    if not (isinstance(seconds, float) and seconds == float("inf")):
        expect.real("seconds", seconds, above=0)
    longest = LONGEST_SLEEP if sleep is time.sleep else float("inf")  # a simulated clock needs no second look
    run, start, done = Run(), clock(), 0
    while (now := clock() - start) < seconds:
        found = source.due(now)
        for item, arrival in found:
            done += _add(engine, run, item, arrival, source, now)
        if engine.has_work:
            outputs = engine.step()
            now = clock() - start
            done += sum(_take(run, output, source, now) for output in outputs)
            run.samples.append(sample(engine, now, sum(len(output.tokens) for output in outputs)))
            if progress:
                progress(done, source.num_requests)
        elif source.next_time() is not None:
            sleep(max(0.0, min(source.next_time() - now, seconds - now, longest)))
        elif not found:
            break
    run.seconds, run.stats = clock() - start, engine.stats()
    for timeline in run.timelines.values():
        if timeline.finish_reason is None and timeline.error is None:
            engine.abort(timeline.name)
            timeline.error = f"not ended after {seconds:g} s"
    return run


def _add(engine, run, item, arrival, source, now):
    """Send a request; returns 1 when the engine refused it, since it is then done."""
    timeline = run.timelines[item.name] = Timeline(item.name, arrival, len(item.prompt))
    try:
        engine.add(item)
    except ServingError as error:
        timeline.error = str(error)
        source.finished(item.name, (), now)
        return 1
    return 0


def _take(run, output, source, now):
    """Note the tokens of an Output; returns whether its request ended."""
    timeline = run.timelines[output.name]
    timeline.times += [now] * len(output.tokens)
    timeline.tokens += output.tokens
    timeline.num_cached = output.num_cached_tokens
    timeline.finish_reason = output.finish_reason
    if output.finish_reason is None:
        return False
    source.finished(output.name, timeline.tokens, now)
    return True


def sample(engine, now, num_tokens):
    """The Sample of an engine."""
    stats = engine.stats()
    return Sample(now, stats.num_running, stats.num_waiting, stats.kv_usage, num_tokens)


def percentile(values, percent):
    """The value that `percent` of 100 of the values do not exceed, by nearest rank; None where there is none."""
    return _percentiles(values, [expect.real("percent", percent, 0, 100)])[0]


def _percentiles(values, percents):
    """`percentile` for each of `percents`; the values are checked and sorted once."""
    try:
        ordered = sorted(expect.real("a value", value) for value in values)
    except TypeError:
        raise ArgumentError(f"values is {expect.shown(values)}; expected a list of numbers.") from None
    return [ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)] if ordered else None for percent in percents]


def summary(run):
    """Columns of a Run, numbers: throughput, percentiles in ms, use of the cache, errors."""
    expect.kind("run", run, Run, how="drive(engine, source) gives one")
    ended = [line for line in run.timelines.values() if line.error is None and line.times]
    num_tokens = sum(line.num_tokens for line in run.timelines.values())
    values = {
        "ttft": [line.ttft for line in ended],
        "tpot": [line.tpot for line in ended if line.tpot is not None],
        "itl": [gap for line in ended for gap in line.gaps],
        "latency": [line.times[-1] - line.arrival for line in ended],
    }
    row = {"requests": len(run.timelines), "errors": len(run.timelines) - len(ended), "seconds": run.seconds}
    row |= {"output_tokens": num_tokens, "tokens_per_s": num_tokens / run.seconds if run.seconds else 0.0}
    for name, seconds in values.items():
        for percent, value in zip(PERCENTILES, _percentiles(seconds, PERCENTILES), strict=True):
            row[f"{name}_p{percent}_ms"] = None if value is None else 1e3 * value
    row["kv_peak"] = max((item.kv_use for item in run.samples), default=None)
    row["hit_rate"] = _hit_rate(run)
    row["preemptions"] = getattr(run.stats, "num_preemptions", None)
    return row


def _hit_rate(run):
    """Share of all prompt tokens that came from the prefix cache."""
    total = sum(line.num_prompt for line in run.timelines.values())
    return sum(line.num_cached for line in run.timelines.values()) / total if total else 0.0
