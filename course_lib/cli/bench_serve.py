"""`course bench-serve`: load on the serving engine in this process, or on a server; rows and times.

May import: everything.
"""

import csv
import sys
import time
from dataclasses import asdict
from pathlib import Path

from ..errors import CourseError

HELP = "measure a serving engine under load: throughput, time to the first token, time between tokens"
TRACES = "closed loops, the same with a shared prefix, conversations, or Poisson arrivals"
SHOWN = ("tokens_per_s", "ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "itl_p99_ms", "kv_peak", "hit_rate")
BAR = 24  # characters


def add_arguments(parser):
    """The options of `course bench-serve`; those of the engine are those of `course serve`."""
    from . import serve

    serve.add_engine_arguments(parser)
    parser.add_argument("--url", help="a running server, such as http://127.0.0.1:8000/v1; default: in this process")
    parser.add_argument("--trace", choices=("grid", "shared", "turns", "poisson"), default="grid", help=TRACES)
    sizes = {"nargs": "+", "type": int, "metavar": "N"}
    parser.add_argument("--batch", **sizes, default=(1, 8, 32, 64), help="clients; default: 1 8 32 64")
    parser.add_argument("--prompt", **sizes, default=(128, 1024, 4096), help="tokens; default: 128 1024 4096")
    parser.add_argument("--output", **sizes, default=(64, 256), help="tokens; default: 64 256")
    parser.add_argument("--rate", nargs="+", type=float, default=(1.0, 2.0, 4.0), help="requests a second of poisson")
    parser.add_argument("--seconds", type=float, default=120.0, help="of one cell at most; default: 120")
    parser.add_argument("--out", type=Path, help="a CSV file for the rows")
    parser.add_argument("--samples", type=Path, help="a CSV file for the state of the engine over time")
    parser.add_argument("--seed", type=int, default=0)


def run(options):
    """Measure every cell, print a line for each, store what was asked for."""
    from ..serving import bench

    cells = _cells(options, bench)
    target = _target(options, bench)
    kept = _Samples(options.samples)
    bar = _Bar(len(cells))
    with _Csv(options.out, (*bench.KEYS, *bench.MEASURED)) as rows, kept:
        found = bench.rows(target, cells, seed=options.seed, progress=bar.show, seconds=options.seconds, keep=kept.keep)
        for row in map(bench.as_text, found):
            rows.write(row)
            bar.clear()
            print(_line(row, bench.KEYS), flush=True)
    return 0


def _cells(options, bench):
    if options.trace == "poisson":
        found = [bench.arrivals(options.rate, p, o) for p in options.prompt[:1] for o in options.output[:1]]
        return found[0]
    return bench.grid(options.batch, options.prompt, options.output, trace=options.trace)


def _target(options, bench):
    if options.url:
        import httpx

        try:
            return bench.Remote(options.url)
        except (httpx.HTTPError, KeyError, IndexError) as error:
            raise CourseError(
                f"{options.url}: no server answers there ({error}); start one with `course serve`."
            ) from None
    from ..serving.engine import ServingEngine
    from .serve import config_of

    model = _model(options)
    return bench.Local(ServingEngine(model, config=config_of(options, model)))


def _model(options):
    """A model as `course serve` loads it, or random weights in a named shape."""
    import torch

    from ..model import SIZES, Transformer
    from .serve import loaded, place_of

    if options.model not in SIZES:
        return loaded(options)[0]
    place = place_of(options)
    dtype = getattr(torch, options.dtype or ("float32" if place == "cpu" else "bfloat16"))
    return Transformer.random(options.model, dtype=dtype, device=place)


def _line(row, keys):
    sizes = " ".join(f"{name}={row[name]}" for name in keys if row.get(name) not in (None, 0, "", "0"))
    numbers = "  ".join(f"{name} {row[name]}" for name in SHOWN if name in row)
    return f"{sizes:<52} {row['note'] if row.get('note') and not numbers else numbers}"


class _Bar:
    """One line on the terminal that says how far the cell is."""

    def __init__(self, num_cells):
        self.num_cells, self.number, self.cell, self.last = num_cells, 0, None, 0.0
        self.visible = sys.stderr.isatty()

    def show(self, cell, done, total):
        if cell is not self.cell:
            self.cell, self.number = cell, self.number + 1
        now = time.monotonic()
        if not self.visible or now - self.last < 0.1:
            return
        self.last, full = now, BAR * done // max(1, total)
        text = f"cell {self.number}/{self.num_cells} [{'#' * full:<{BAR}}] {done}/{total} requests"
        print(f"\r{text}", end="", file=sys.stderr, flush=True)

    def clear(self):
        if self.visible:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class _Csv:
    """A CSV file that is written row by row, or nothing."""

    def __init__(self, path, columns):
        self.path, self.columns, self.file = path, columns, None

    def __enter__(self):
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = self.path.open("w", newline="", encoding="utf-8")
            self.writer = csv.DictWriter(self.file, self.columns, lineterminator="\n", extrasaction="ignore")
            self.writer.writeheader()
        return self

    def write(self, row):
        if self.file:
            self.writer.writerow(row)
            self.file.flush()

    def __exit__(self, *_):
        if self.file:
            self.file.close()


class _Samples(_Csv):
    """The samples of every cell."""

    def __init__(self, path):
        super().__init__(path, ("cell", "trace", "batch", "rate", "prompt_len", "output_len", "time", "running",
                                "waiting", "kv_use", "num_tokens"))  # fmt: skip
        self.number = 0

    def keep(self, cell, run):
        for item in run.samples:
            self.write(asdict(cell) | {"cell": self.number} | asdict(item))
        self.number += 1
