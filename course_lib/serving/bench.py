"""Rows of `course bench-serve`: a grid of batch, prompt and output lengths, arrival rates, shared prefixes, turns.

    for row in rows(Local(engine), grid((1, 8), (128,), (64,))): …

May import: errors, load, traces; http_load inside Remote.
"""

import asyncio
import itertools
from dataclasses import asdict, dataclass

from . import load, traces

BATCHES, PROMPTS, OUTPUTS = (1, 8, 32, 64), (128, 1024, 4096), (64, 256)
WAVES = 2  # requests of each client of a closed loop
KEYS = ("trace", "batch", "rate", "prompt_len", "output_len")
MEASURED = (
    "tokens_per_s", "requests", "errors", "seconds", "output_tokens",
    *(f"{name}_p{percent}_ms" for name in ("ttft", "tpot", "itl", "latency") for percent in load.PERCENTILES),
    "kv_peak", "hit_rate", "preemptions", "note",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One load.

    Attributes
    ----------
    trace : "grid" (closed loop of `batch` clients), "poisson" (`rate` arrivals a second), "shared" (a closed loop whose
        prompts share 15 of 16 of their tokens) or "turns" (`batch` users with 4 turns each)
    prompt_len, output_len : int, tokens; of "turns" the user's tokens of a turn
    batch : int, clients; 0 for "poisson"
    rate : float, requests a second; 0 for closed loops
    num_requests : int
    """

    trace: str
    prompt_len: int
    output_len: int
    batch: int = 0
    rate: float = 0
    num_requests: int = 0

    @property
    def longest(self):
        """Tokens of the longest request, prompt and output."""
        turns = TURNS if self.trace == "turns" else 1
        return turns * (self.prompt_len + self.output_len)

    def source(self, vocab_size, seed=0):
        """The load itself."""
        sizes = self.num_requests, self.prompt_len, self.output_len
        more = {"seed": seed, "vocab_size": min(vocab_size, traces.BENCH_IDS + 1)}
        if self.trace == "turns":
            return load.Conversing(traces.conversations(self.batch, TURNS, *sizes[1:], think=0.1, **more))
        if self.trace == "shared":
            own = max(1, self.prompt_len // 16)
            requests = traces.shared_prefix_trace(sizes[0], self.prompt_len - own, own, sizes[2], **more)
            return load.ClosedLoop(requests, self.batch)
        requests = traces.fixed_trace(*sizes, **more)
        if self.trace == "poisson":
            return load.OpenLoop(traces.arriving(requests, self.rate, seed=seed))
        return load.ClosedLoop(requests, self.batch)


TURNS = 4


def grid(batches=BATCHES, prompts=PROMPTS, outputs=OUTPUTS, *, trace="grid"):
    """Cells of a closed loop, small ones first."""
    return [
        Cell(trace, prompt, output, batch=batch, num_requests=WAVES * batch + 2 * (batch == 1))
        for prompt, output, batch in itertools.product(prompts, outputs, batches)
    ]


def arrivals(rates, prompt_len, output_len, *, seconds=10.0):
    """Cells of Poisson arrivals, about `seconds` of them each."""
    return [
        Cell("poisson", prompt_len, output_len, rate=rate, num_requests=max(2, round(rate * seconds))) for rate in rates
    ]


class Local:
    """An engine in this process.

    Parameters
    ----------
    engine : ServingEngine
    clock, sleep : as load.drive takes them, for a SimulatedEngine
    """

    def __init__(self, engine, **clock):
        self.engine, self.clock = engine, clock
        self.max_len = engine.scheduler.config.max_model_len or 1 << 30
        model = getattr(engine, "model", None)
        self.vocab_size = model.config.vocab_size if model else traces.BENCH_IDS + 1

    def drive(self, source, **more):
        """The Run of a load."""
        return load.drive(self.engine, source, **more, **self.clock)


class Remote:
    """A server.

    Parameters
    ----------
    url : str, with its /v1
    model : str or None: the first that the server names
    """

    def __init__(self, url, model=None, *, vocab_size=256):
        import httpx

        found = httpx.get(f"{url.rstrip('/')}/models", timeout=10).raise_for_status().json()["data"]
        chosen = next((item for item in found if item["id"] == model), found[0])
        self.url, self.model, self.vocab_size = url, model or chosen["id"], vocab_size
        self.max_len = chosen.get("max_model_len") or 1 << 30

    def drive(self, source, **more):
        """The Run of a load."""
        from .http_load import drive_http

        return asyncio.run(drive_http(self.url, self.model, source, **more))


def rows(target, cells, *, warm=True, seed=0, progress=None, seconds=float("inf"), keep=None):
    """Yield a row for each cell: its sizes and what was measured, or a note that says why nothing was.

    Parameters
    ----------
    target : Local or Remote
    warm : bool; run two requests of each cell's lengths first, whose tokens are others
    progress : function(cell, requests done, requests in all), or None
    seconds : float, of one cell
    keep : function(cell, Run), for what a row does not hold, or None
    """
    for number, cell in enumerate(cells):
        row = {name: value for name, value in asdict(cell).items() if name in KEYS}
        if cell.longest > target.max_len:
            yield row | {"note": f"left out: {cell.longest} tokens, and the model takes {target.max_len}"}
            continue
        if warm:
            few = Cell("grid", cell.longest - cell.output_len, min(2, cell.output_len), batch=2, num_requests=2)
            target.drive(few.source(target.vocab_size, seed=seed + 1000 + number), seconds=seconds)
        told = (lambda done, total, cell=cell: progress(cell, done, total)) if progress else None
        source = cell.source(target.vocab_size, seed=seed + number)
        run = target.drive(source, progress=told, seconds=seconds)
        if keep:
            keep(cell, run)
        yield row | {name: value for name, value in load.summary(run).items() if name in MEASURED} | _note(run)


def _note(run):
    errors = [line.error for line in run.timelines.values() if line.error]
    return {"note": f"{len(errors)} failed, the first: {errors[0]}"} if errors else {}


def as_text(row):
    """A row whose numbers have few digits, None as nothing."""
    few = {name: value for name, value in row.items() if value is not None}
    return {name: f"{value:.4g}" if isinstance(value, float) and abs(value) < 1000 else
            f"{value:.1f}" if isinstance(value, float) else value for name, value in few.items()}  # fmt: skip
