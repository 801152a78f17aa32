"""The engine without a model: the real scheduler, and step times from a line that was fitted to measured steps.

    times = fit(rows)                                   # rows of benchmarks.serving --steps
    engine = SimulatedEngine(config, times)
    run = load.drive(engine, load.OpenLoop(requests), clock=engine.clock, sleep=engine.sleep)

A step takes base + token x its tokens + key x the keys that it reads, with one line for decode steps and one for those
with parts of prompts; `scaled` carries a line to another model by the formulas of `roof`. Simulated time passes only in
steps and while no request is there, so that thousands of requests take seconds.

May import: errors, expect, model, roof, scheduled, scheduler, torch.
"""

from collections import deque
from dataclasses import dataclass, replace

import torch

from .. import expect
from ..errors import ArgumentError
from ..model import ModelConfig
from .roof import Costs
from .scheduled import Scheduled
from .scheduler import Scheduler

# A. Grattafiori and others, "The Llama 3 Herd of Models", 2024, table 3, https://arxiv.org/abs/2407.21783
LLAMA_3_70B = ModelConfig("llama", 128256, 8192, 80, 64, 8, 128, 28672, 8192, 1e-5, 5e5, tie_embeddings=False)
COLUMNS = ("ms", "num_tokens", "kv_tokens", "is_decode")  # of a measured step
COMPARED = ("tokens_per_s", "seconds", "ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms", "itl_p50_ms")


@dataclass(frozen=True)
class Line:
    """Seconds of a step: base + token * tokens + key * keys read."""

    base: float
    token: float
    key: float

    def seconds(self, num_tokens, kv_tokens):
        return self.base + self.token * num_tokens + self.key * kv_tokens


@dataclass(frozen=True)
class StepTimes:
    """Times of the steps of one model on one device.

    Attributes
    ----------
    decode, mixed : Line, of steps of one token a sequence, and of the others
    device, model : str
    """

    decode: Line
    mixed: Line
    device: str = ""
    model: str = ""

    def seconds(self, step):
        """Of a scheduler's Step."""
        keys = sum(piece.start + piece.num_tokens for piece in step.pieces)
        return (self.decode if step.is_decode else self.mixed).seconds(step.num_tokens, keys)


def fit(rows, *, device="", model=""):
    """StepTimes from measured steps.

    Parameters
    ----------
    rows : list of dict with ms, num_tokens, kv_tokens, is_decode; text or numbers
    """
    rows = _measured(rows)
    kinds = [[row for row in rows if row["is_decode"] == kind] for kind in (1, 0)]
    decode, mixed = (_line(kind) if kind else None for kind in kinds)
    if decode is None and mixed is None:
        raise ArgumentError("There is no measured step to fit; run benchmarks.serving with --steps FILE.")
    return StepTimes(decode or mixed, mixed or decode, device, model)


def _measured(rows):
    """Rows whose columns are numbers, of text or numbers; ArgumentError where one is missing or none."""
    if not isinstance(rows, list | tuple):
        raise ArgumentError(f"rows is {expect.shown(rows)}; expected a list of dict, one for each step.")
    return [_measured_row(number, expect.kind("a row", row, dict)) for number, row in enumerate(rows)]


def _measured_row(number, row):
    found = {}
    for name in COLUMNS:
        try:
            found[name] = float(row[name])
        except (KeyError, TypeError, ValueError):
            came = expect.shown(row[name]) if name in row else "missing"
            raise ArgumentError(f"{name} of row {number} is {came}; expected a number.") from None
        expect.real(f"{name} of row {number}", found[name], 0, above=0 if name == "ms" else None)
    if found["is_decode"] not in (0, 1):
        raise ArgumentError(f"is_decode of row {number} is {found['is_decode']}; expected 0 or 1.")
    return found


def _line(rows):
    """The Line of least squared relative errors whose coefficients are not negative."""
    y = torch.tensor([float(row["ms"]) / 1e3 for row in rows], dtype=torch.float64)
    sizes = [[1.0, float(row["num_tokens"]), float(row["kv_tokens"])] for row in rows]
    x = torch.tensor(sizes, dtype=torch.float64) / y[:, None]
    columns = [column for column in range(3) if x[:, column].any()]  # what never came has no price
    while True:
        scale = x[:, columns].norm(dim=0)
        found = torch.linalg.lstsq(x[:, columns] / scale, torch.ones_like(y)[:, None], driver="gelsd").solution[:, 0]
        if (found >= 0).all() or len(columns) == 1:
            break
        columns.pop(int(found.argmin()))  # a negative cost has no meaning: leave that size out
    values = dict(zip(columns, (found / scale).tolist(), strict=True))
    return Line(*(values.get(column, 0.0) for column in range(3)))


def fit_error(times, rows):
    """(relative error of the whole time, median of the steps' absolute relative errors) of measured steps."""
    expect.kind("times", times, StepTimes, how="fit(rows) gives them")
    rows = _measured(rows)
    if not rows:
        raise ArgumentError("rows is empty; an error is of at least one measured step.")
    lines = {1: times.decode, 0: times.mixed}
    taken = [float(row["ms"]) / 1e3 for row in rows]
    expected = [lines[int(row["is_decode"])].seconds(float(row["num_tokens"]), float(row["kv_tokens"])) for row in rows]
    errors = sorted(abs(a - b) / b for a, b in zip(expected, taken, strict=True))
    return sum(expected) / sum(taken) - 1, errors[len(errors) // 2]


def scaled(times, source, target, rates, *, cards=1, exchange=10e-6, itemsize=2, model=""):
    """StepTimes of another model on the same card, or on several that divide its weights and heads.

    The base is the weights' time on the card's roof and a rest for launches and host, which grows with the layers; a
    token costs its products, a key its bytes. An estimate, not a measurement.

    Parameters
    ----------
    source, target : ModelConfig, of `times` and of the result
    rates : (bytes a second, FLOP a second), as roof.card_rates gives them
    cards : int; with more than one, two exchanges a layer are added
    exchange : float, seconds of one all-reduce of a step's activations; an assumption
    """
    expect.kind("times", times, StepTimes, how="fit(rows) gives them")
    for name, config in (("source", source), ("target", target)):
        expect.kind(name, config, ModelConfig)
    cards, itemsize = expect.whole("cards", cards, 1), expect.whole("itemsize", itemsize, 1)
    exchange = expect.real("exchange", exchange, 0)
    if not isinstance(rates, list | tuple) or len(rates) != 2:
        raise ArgumentError(f"rates is {expect.shown(rates)}; expected (bytes a second, FLOP a second).")
    rates = [expect.real("a rate", rate, above=0) for rate in rates]
    old, new = Costs.of(source, itemsize), Costs.of(target, itemsize)
    layers = target.num_layers / source.num_layers
    between = 2 * target.num_layers * exchange if cards > 1 else 0.0

    def line(given):
        rest = max(0.0, given.base - old.weight_bytes / rates[0])
        base = rest * layers + new.weight_bytes / cards / rates[0] + between
        token = given.token * new.flops / old.flops / cards
        return Line(base, token, given.key * new.kv_bytes / old.kv_bytes / cards)

    return replace(times, decode=line(times.decode), mixed=line(times.mixed), model=model)


def deviations(simulated, measured, names=COMPARED):
    """(name, measured, simulated, relative error) of the columns of two summaries or rows; text or numbers."""
    pairs = [(name, float(measured[name]), float(simulated[name])) for name in names if measured.get(name)]
    return [(name, seen, found, found / seen - 1) for name, seen, found in pairs if seen]


@dataclass(frozen=True)
class Gauges:
    """State of an engine after a step."""

    num_running: int
    num_waiting: int
    kv_usage: float
    num_preemptions: int


class SimulatedEngine(Scheduled):
    """What a ServingEngine does, on a clock of its own; every token is 0."""

    def __init__(self, config, times):
        expect.kind("times", times, StepTimes, how="fit(rows) gives them")
        self.scheduler, self.times, self.now, self.in_flight = Scheduler(config), times, 0.0, deque()

    def clock(self):
        """Seconds that have passed."""
        return self.now

    def sleep(self, seconds):
        """Let time pass, at least a nanosecond: a wait that rounding makes 0 would be repeated for ever."""
        self.now += max(seconds, 1e-9)

    def step(self):
        """What ServingEngine.step does: with overlap, tokens come one step after the one that chose them.

        Returns
        -------
        outputs : list of Output
        """
        most = self.scheduler.config.max_in_flight
        step = self.scheduler.schedule()
        if step is not None:
            self.in_flight.append(step)
            self.now += self.times.seconds(step)
        if not self.in_flight or (step is not None and len(self.in_flight) < most):
            return []
        oldest = self.in_flight.popleft()
        return self.scheduler.commit(oldest, {piece.sequence.name: 0 for piece in oldest.pieces if piece.samples})

    def stats(self):
        """The gauges and counters that a load reads, under the names of ServingEngine.stats."""
        scheduler, counters = self.scheduler, self.scheduler.stats
        return Gauges(len(scheduler.running), len(scheduler.waiting), scheduler.kv_usage, counters.num_preempted)
