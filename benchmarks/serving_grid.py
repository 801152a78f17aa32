"""Serve a grid of clients, prompts and outputs, shared prefixes and conversations, and hold the simulator against it.

    python3 -m benchmarks.serving_grid --out benchmarks/results/h200/serving_grid.csv
    python3 -m benchmarks.serving_grid --cpu --out benchmarks/results/cpu/serving_grid.csv      the model that ships
    python3 -m benchmarks.serving_grid --dry

The engine with a server's budget of 2,048 tokens a step and 64 seats; on a GPU random weights in Qwen3-0.6B's shape,
with --cpu the shipped model. The traces are those of `course bench-serve`: closed loops of `batch` clients. Before them
a load of other lengths is run with each number of clients, and the simulator's step times are fitted to its steps;
sim_… is what the simulator then says of a cell, which it has not seen, and sim_error its tokens a second over the
measured ones, less 1. With --cpu the clock counts the seconds that the process computes, on one thread, so that other
programs on the machine change little.
"""

import sys
import time
from types import SimpleNamespace

import torch

from benchmarks.harness import Benchmark, main
from benchmarks.harness.about import versions
from benchmarks.harness.serving_engines import DRY_CONFIG
from benchmarks.harness.step_times import recorder
from course_lib.model import SIZES, Transformer
from course_lib.model.shipped import load_shipped
from course_lib.serving import bench, load, traces
from course_lib.serving.engine import ServingEngine, default_config
from course_lib.serving.simulator import SimulatedEngine, fit

SHAPE = "qwen3-0.6b-shape"
GPU = {"batches": (1, 8, 32, 64), "prompts": (128, 1024, 4096), "outputs": (64, 256), "fit": (100, 1024)}
CPU = {"batches": (1, 4, 16), "prompts": (64, 256), "outputs": (16, 48), "fit": (20, 120)}
DRY = {"batches": (1, 2), "prompts": (8,), "outputs": (3,), "fit": (3, 20)}
SIMULATED = ("tokens_per_s", "ttft_p50_ms", "tpot_p50_ms")


def loads(dry):
    """A load a cell, with the smallest sizes in a dry run; --cpu takes those of a CPU."""
    sizes = DRY if dry else CPU if "--cpu" in sys.argv else GPU
    cells = bench.grid(sizes["batches"], sizes["prompts"], sizes["outputs"])
    few = sizes["batches"][-2:], sizes["prompts"][-2:-1] or sizes["prompts"], sizes["outputs"][:1]
    traces_of = ("shared",) if sizes is CPU else ("shared", "turns")  # a clock of CPU time does not see a user think
    cells += [cell for trace in traces_of for cell in bench.grid(*few, trace=trace)]
    return [vars(cell) for cell in cells]


def prepared(options):
    """The engine and the step times that are fitted to a load of its own, kept for all cells."""
    if "target" not in options.earlier:
        sizes = DRY if options.dry else CPU if options.cpu else GPU
        model = _model(options)
        engine = ServingEngine(model, config=default_config(model))
        steps, clock = [], time.process_time if options.cpu else time.perf_counter
        for clients in sizes["batches"][::-1]:
            requests = traces.uniform_trace(3 * clients, *sizes["fit"], vocab_size=model.config.vocab_size, content=9)
            load.drive(engine, load.ClosedLoop(traces.uniform_trace(2, *sizes["fit"], vocab_size=200), 2))
            with recorder(engine, clock) as found:
                load.drive(engine, load.ClosedLoop(requests, clients), clock=clock)
            steps += [step for step in found if "ms" in step]
        options.earlier |= {"target": bench.Local(engine, clock=clock), "times": fit(steps), "config": engine.config}
    return SimpleNamespace(**options.earlier)


def _model(options):
    if options.dry:
        return Transformer.random(DRY_CONFIG)
    if options.cpu:
        torch.set_num_threads(1)
        return load_shipped("small", dtype=torch.float32)[0]
    return Transformer.random(SIZES[SHAPE], dtype=torch.bfloat16, device="cuda")


def rows_of(given, options):
    """The row of one cell: measured, and simulated."""
    ready, cell = prepared(options), bench.Cell(**given)
    seed = options.earlier["cells"] = options.earlier.get("cells", 0) + 1  # no cell has the prompts of another
    (row,) = bench.rows(ready.target, [cell], seconds=options.limit, seed=seed)
    if "tokens_per_s" in row:
        engine = SimulatedEngine(ready.config, ready.times)
        local = bench.Local(engine, clock=engine.clock, sleep=engine.sleep)
        local.vocab_size = ready.target.vocab_size
        (guess,) = bench.rows(local, [cell], warm=False, seed=seed)
        row |= {f"sim_{name}": guess[name] for name in SIMULATED}
        row["sim_error"] = guess["tokens_per_s"] / row["tokens_per_s"] - 1
    model = "tiny" if options.dry else "small" if options.cpu else SHAPE
    yield {"model": model} | bench.as_text(row)


def arguments(parser):
    """Options of this benchmark."""
    parser.add_argument("--cpu", action="store_true", help="the model that ships with the course, on this CPU")
    parser.add_argument("--limit", type=float, default=90, help="seconds of one cell")


def origin(options):
    """Columns about the machine; a CPU's rows say which it is."""
    if not options.dry and not options.cpu and not torch.cuda.is_available():
        sys.exit("no NVIDIA GPU is visible; --cpu measures the shipped model here, --dry tries the script")
    about = versions(options.commit, on_gpu=not options.dry and not options.cpu)
    return about | ({"device": "CPU, one thread"} if options.cpu and not options.dry else {})


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "host clock, closed loops, after a warm run of other tokens",
    keys=("model", *bench.KEYS),
    values=(*bench.MEASURED[:-1], *(f"sim_{name}" for name in SIMULATED), "sim_error", "note"),
    loads=loads,
    rows=rows_of,
    shown=("tokens_per_s", "ttft_p50_ms", "tpot_p50_ms", "hit_rate", "sim_tokens_per_s", "sim_error"),
    compared=("tokens_per_s",),
    quick={"prompt_len": (128,), "trace": ("grid",)},
    arguments=arguments,
    origin=origin,
    gpu=False,
)


if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
