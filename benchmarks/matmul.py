"""Time every step of kernels_cu/matmul beside cuBLAS, over the size of square matrices.

    python3 -m benchmarks.matmul --out benchmarks/results/h200/matmul.csv --commit …
    python3 -m benchmarks.matmul --dry --out /tmp/dry.csv      tiny sizes on a CPU, to try the script

float32 (01 to 05) beside torch.mm in full float32, without TF32; float16 (06 to 08, and 08 in Triton) beside torch.mm
in float16, which is cuBLAS. All variants of one size are timed in turns, run after run, so that a change of the clock
meets all of them; L2 is flushed before each run, and the GPU is kept busy while the launch is being queued, so that no
host time is counted. Random numbers. Every variant is checked against float64 before it is timed; max_error is what it
missed by, in units of sqrt(size_k), the spread of the elements.
"""

import argparse
import csv
import os
import statistics
import sys
from pathlib import Path

import torch

from benchmarks import ROOT
from benchmarks.harness.about import COLUMNS as ABOUT
from benchmarks.harness.about import versions
from course_lib.ops.matmul import HALF_VARIANTS, VARIANTS, plan_matmul

SIZES = (1024, 2048, 4096, 8192)
DTYPES = ("float16", "float32")
LARGEST = {"01_naive": 2048, "02_coalesced": 4096, "03_shared_tile": 4096}  # the others go up to the end
CHECKED_ROWS = 64
SLOW_MS = 10.0  # what takes longer is run SLOW_RUNS times
SLOW_RUNS = 4
FLUSH_BYTES = 256 << 20
BUSY_CYCLES = 600_000  # about 0.3 ms: longer than it takes to queue a launch
COLUMNS = [
    "variant", "language", "dtype", "size_m", "size_n", "size_k", "median_us", "low_us", "high_us", "tflops",
    "percent_of_cublas", "max_error", "note", *ABOUT,
]  # fmt: skip


def tolerance(dtype, size_k):
    """How far an element may be off, in units of sqrt(size_k), the spread of the elements.

    Halves: the rounding of the result, which is up to five spreads away from zero. Floats: size_k roundings of partial
    sums that grow to one spread, whose sum wanders as far as sqrt(size_k) of them; eight times that is the limit.
    """
    return 4e-3 if dtype == "float16" else 8 * 2.0**-24 * size_k**0.5


def variants(dtype):
    """[(variant, language)] of a dtype, cuBLAS first."""
    half = dtype == "float16"
    names = [(variant, "cuda") for variant in VARIANTS if (variant in HALF_VARIANTS) == half]
    return [("cublas", "torch"), *names, *([("08_pipelined", "triton")] if half else [])]


def call_of(variant, language, a, b):
    """(function without arguments that multiplies, the tensor it writes)."""
    if variant == "cublas":
        out = a.new_empty(a.shape[0], b.shape[1])
        return lambda: torch.mm(a, b, out=out), out
    launch = plan_matmul(a, b, variant=variant, language=language)
    return launch.run, launch.outputs[0]


def error_of(call, out, a, b):
    """Largest error of the first and last rows against float64 in units of sqrt(size_k); infinity for NaN."""
    out.fill_(float("nan"))
    call()
    if not torch.isfinite(out).all():
        return float("inf")
    worst = 0.0
    for rows in (slice(0, CHECKED_ROWS), slice(-CHECKED_ROWS, None)):
        worst = max(worst, (out[rows].double() - a[rows].double() @ b.double()).abs().max().item())
    return worst / a.shape[1] ** 0.5


def timed_in_turns(calls, num_runs):
    """{name: (median, low, high) in ms} of functions that are run in turns; a slow one sits most turns out."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    events, left = {name: [] for name in calls}, dict.fromkeys(calls, num_runs + 3)
    for turn in range(num_runs + 3):
        for name, call in calls.items():
            if left[name] <= 0:
                continue
            left[name] -= 1
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            flush.zero_()
            torch.cuda._sleep(BUSY_CYCLES)
            start.record()
            call()
            end.record()
            events[name].append((start, end))
        torch.cuda.synchronize()
        if turn == 0:  # the first run is warm-up: it only says how long one takes
            for name, pairs in events.items():
                if pairs[0][0].elapsed_time(pairs[0][1]) > SLOW_MS:
                    left[name] = min(left[name], SLOW_RUNS)
    found = {}
    for name, pairs in events.items():
        times = [start.elapsed_time(end) for start, end in pairs[3 if len(pairs) > SLOW_RUNS + 1 else 1 :]]
        low, median, high = statistics.quantiles(times, n=4, method="inclusive")
        found[name] = (median, low, high)
    return found


def rows_of(size, dtype, options):
    """The rows of one size."""
    a, b = (torch.randn(size, size, device=options.device).to(getattr(torch, dtype)) for _ in range(2))
    calls, errors, notes = {}, {}, {}
    for variant, language in variants(dtype):
        name = (variant, language)
        if size > LARGEST.get(variant, size):
            notes[name] = f"not timed above {LARGEST[variant]}: it takes too long"
            continue
        call, out = call_of(variant, language, a, b)
        errors[name] = error_of(call, out, a, b)
        if errors[name] <= tolerance(dtype, size):
            calls[name] = call
        else:
            notes[name] = f"wrong by {errors[name]:.1e}: not timed"
    times = {} if options.dry else timed_in_turns(calls, options.runs)
    for name in variants(dtype):
        row = {"variant": name[0], "language": name[1], "dtype": dtype, "note": notes.get(name, "")}
        row |= dict.fromkeys(("size_m", "size_n", "size_k"), size)
        if name in errors:
            row["max_error"] = f"{errors[name]:.1e}"
        if name in times:
            median, low, high = times[name]
            row |= {"median_us": f"{median * 1e3:.1f}", "low_us": f"{low * 1e3:.1f}", "high_us": f"{high * 1e3:.1f}"}
            row["tflops"] = f"{2 * size**3 / median / 1e9:.2f}"
            row["percent_of_cublas"] = f"{100 * times['cublas', 'torch'][0] / median:.1f}"
        yield row


def parsed():
    """The command line; a dry run may not write where the course keeps its numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--sizes", type=int, nargs="+", help="only these sizes")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES, help="only these types")
    parser.add_argument("--dry", action="store_true", help="tiny sizes on the CPU; the rows are worth nothing")
    options = parser.parse_args()
    if options.dry and (ROOT / "benchmarks") in options.out.resolve().parents:
        parser.error("a dry run measures nothing: give --out a place outside benchmarks/")
    if not options.dry and not torch.cuda.is_available():
        parser.error("no NVIDIA GPU is visible; --dry tries the script on a CPU")
    options.device = "cpu" if options.dry else "cuda"
    return options


def main():
    """Check and time everything, write the CSV; exit code 1 when a kernel was wrong."""
    options = parsed()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")  # cuBLAS in float32, not in TF32
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False  # summed in float32, as ours
    about = versions(options.commit, on_gpu=not options.dry)
    wrong = 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("# medians of CUDA events, variants in turns, L2 flushed; python3 -m benchmarks.matmul\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for dtype in options.dtypes:
            for size in options.sizes or ((72, 136) if options.dry else SIZES):
                for row in rows_of(size, dtype, options):
                    writer.writerow(row | about)
                    wrong += "wrong" in row["note"]
                    speed = f"{row.get('tflops', ''):>7} TFLOP/s {row.get('percent_of_cublas', ''):>6} % of cuBLAS"
                    print(
                        f"{dtype} {size:<5} {row['language']:<6} {row['variant']:<17} {row['note'] or speed}",
                        flush=True,
                    )
                file.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
