"""Bandwidth of global memory by access pattern and by working set, with the micro-kernels of kernels_cu/access.

    python3 -m benchmarks.access --out benchmarks/results/h200/access.csv
    python3 -m benchmarks.access --dry      tiny sizes on a CPU, to try the script

pattern rows: one launch over a matrix far larger than L2; `useful_gbps` counts the bytes that the kernel asked for,
read and written, `moved_gbps` the 32-byte sectors that such a pattern touches.
working_set rows: the same float4 copy repeated over one buffer pair, without a flush: a working set that fits stays in
L2.
"""

import sys

import torch

from benchmarks.harness import Benchmark, main, microseconds, rows_by_kind
from course_lib import cuda, measure

NUM_FLOATS, DRY_NUM_FLOATS = 1 << 26, 1 << 10  # written: 256 MiB
BLOCK = 256
STRIDES, OFFSETS = (1, 2, 4, 8, 16, 32), (0, 1, 8)
WORKING_SETS, DRY_WORKING_SETS = tuple(1 << exponent for exponent in range(20, 31)), (1 << 14,)  # bytes
REPEATS, NUM_SAMPLES = 20, 25  # copies in one graph, so that launches cost nothing; replays


def loads(dry):
    cases = [*(f"stride_{stride}" for stride in STRIDES), *(f"offset_{offset}" for offset in OFFSETS), "float4"]
    sets = DRY_WORKING_SETS if dry else WORKING_SETS
    return [{"kind": "pattern", "case": case} for case in cases] + [
        {"kind": "working_set", "case": f"{num_bytes >> 20} MiB", "working_set_bytes": num_bytes} for num_bytes in sets
    ]


def pattern(case, num_floats, device):
    """(kernel, arguments, threads, wanted output, useful bytes, moved bytes) of a pattern."""
    name, _, number = case.rpartition("_")
    step = int(number) if name else 0
    if name == "stride":
        n = num_floats if step <= 8 else num_floats // 4
        kernel = cuda.load("access/01_global_stride.cu", defines={"STRIDE": step})
        x, useful, moved = torch.randn(n * step, device=device), 8 * n, (4 * min(step, 8) + 4) * n
        return kernel, (x, torch.empty(n, device=device), n), n, x[::step], useful, moved
    n, out = num_floats, torch.empty(num_floats, device=device)
    if name == "offset":
        kernel = cuda.load("access/02_global_offset.cu", defines={"OFFSET": step})
        x, moved = torch.randn(n + step, device=device), (4 if step % 8 == 0 else 5) * n + 4 * n
        return kernel, (x, out, n), n, x[step:], 8 * n, moved
    x = torch.randn(n, device=device)
    return cuda.load("access/03_global_vector.cu"), (x, out, n // 4), n // 4, x, 8 * n, 8 * n


def copied(kernel, arguments, threads, want):
    """The function that launches a copy, after a run that was checked; None where the copy is wrong."""
    arguments[1].fill_(float("nan"))

    def run():
        kernel(-(-threads // BLOCK), BLOCK, *arguments)

    run()
    return run if torch.equal(arguments[1], want) else None


def pattern_row(load, options):
    """The row of a pattern, timed with L2 flushed."""
    num_floats = DRY_NUM_FLOATS if options.dry else NUM_FLOATS
    kernel, arguments, threads, want, useful, moved = pattern(load["case"], num_floats, options.device)
    run = copied(kernel, arguments, threads, want)
    row = load | {"kernel": kernel.name, "working_set_bytes": useful}
    if run is None or options.dry:
        return row | {"note": "" if run else "wrong: not timed"}
    return row | speed(measure.median_time(run, num_runs=options.runs, on_gpu=True), useful, moved)


def working_set_row(load, options):
    """The row of a working set: medians of graphs of REPEATS copies."""
    kernel, num_bytes = cuda.load("access/03_global_vector.cu"), load["working_set_bytes"]
    n = num_bytes // 2 // 16
    x, out = torch.randn(4 * n, device=options.device), torch.empty(4 * n, device=options.device)
    run = copied(kernel, (x, out, n), n, x)
    row = load | {"kernel": kernel.name}
    if run is None or options.dry:
        return row | {"note": "" if run else "wrong: not timed"}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            run()
    samples = sorted(replayed(graph) for _ in range(NUM_SAMPLES))
    quarter = NUM_SAMPLES // 4
    timing = measure.Timing(samples[2 * quarter], samples[quarter], samples[3 * quarter], NUM_SAMPLES, "gpu")
    return row | speed(timing, num_bytes, num_bytes)


def replayed(graph):
    """Milliseconds of one copy of the graph, which is warm: it has just run."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / REPEATS


def speed(timing, useful, moved):
    """Columns of a timed row."""
    rates = {"useful_gbps": useful, "moved_gbps": moved}
    return microseconds(timing, digits=2) | {
        column: f"{num_bytes / timing.median_ms / 1e6:.0f}" for column, num_bytes in rates.items()
    }


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, middle half in low_us to high_us",
    keys=("kind", "case", "kernel", "working_set_bytes"),
    values=("median_us", "low_us", "high_us", "useful_gbps", "moved_gbps", "note"),
    loads=loads,
    rows=rows_by_kind(pattern=pattern_row, working_set=working_set_row),
    shown=("median_us", "useful_gbps", "moved_gbps"),
    quick={"case": ("stride_1", "stride_8", "offset_1", "float4")},
    runs=25,
    packages=("cupy",),
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
