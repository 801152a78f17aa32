"""Measure the GPU in hand, one case file after the other, and compare the new rows with the stored ones.

    python3 -m benchmarks.all                                    every case file, into results/<card>: `course bench`
    python3 -m benchmarks.all --quick --out-dir /tmp/rows        the course's speed, a few sizes of it: minutes
    python3 -m benchmarks.all --full --out-dir /tmp/rows         the same at every size
    python3 -m benchmarks.all decode matmul --out-dir /tmp/rows  some case files
    python3 -m benchmarks.all --quick --seconds 500 --out-dir …  within a time budget, shared among the case files

The course's speed: decoding, FlashAttention-2 forward and backward, FlashAttention-3, and the counters of the rungs.
Where no GPU is visible it says so and ends with exit code 2: rows of a CPU do not belong beside those of a GPU.
"""

import argparse
import importlib
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import RESULTS, ROOT
from benchmarks.counters import ncu
from benchmarks.harness.about import commit, folder_name
from benchmarks.harness.compare import NOISE_PERCENT, changes, report
from benchmarks.harness.rows import read
from course_lib import device

CASES = (
    "softmax", "access", "bandwidth", "naive_attention", "flash_attention_1", "loop_order", "matmul", "decode",
    "decode_splits", "decode_graphs", "page_sizes", "paged_prefill", "engine", "flash_attention", "flash_attention_3",
    "flash_attention_3_backward", "norm", "activation", "rope", "cross_entropy", "embedding",
    "sampling", "w4a16", "moe", "mla", "score_mods", "model", "serving",
    "serving_grid",
    "scaling",
)  # fmt: skip
COUNTERS = (
    "matmul_counters",
    "flash_attention_2_rungs",
    "flash_attention_3_rungs",
    "read_counters",
)  # need Nsight Compute
SPEED = ("decode", "flash_attention", "flash_attention_3", "flash_attention_2_rungs")
FILES = {"read_counters": "readings"}  # case file -> CSV file, where the names differ
GRACE = 120.0  # seconds that a case file may run beyond its share of the budget


def module_name(name):
    """The module of a case file."""
    return f"benchmarks.counters.{name}" if name in COUNTERS else f"benchmarks.{name}"


def command(name, options, seconds):
    """The command line that measures one case file."""
    found = [sys.executable, "-m", module_name(name), "--out", str(out_of(name, options.out_dir))]
    found += ["--commit", options.commit]
    if name in COUNTERS:
        return found
    found += ["--quick"] if options.quick else []
    found += ["--dry"] if options.dry else []
    for option in ("runs", "also"):
        found += [f"--{option}", str(getattr(options, option))] if getattr(options, option) else []
    return found + ([] if seconds is None else ["--seconds", f"{seconds:.0f}"])


def out_of(name, folder):
    """The CSV file of a case file."""
    return folder / f"{FILES.get(name, name)}.csv"


def measure(name, options, seconds):
    """Run one case file; True when it ended well. What it wrote before it was stopped stays."""
    if name in COUNTERS and not ncu.program():
        print(f"{name}: left out, ncu (Nsight Compute) is not installed here", flush=True)
        return True
    limit = None if seconds is None else seconds + GRACE
    try:
        return subprocess.run(command(name, options, seconds), cwd=ROOT, timeout=limit).returncode == 0
    except subprocess.TimeoutExpired:
        print(f"{name}: stopped after {limit:.0f} s", flush=True)
        return False


def written(path, started):
    """The rows of a file that was written after this time; none where an older file is all there is."""
    return read(path) if path.is_file() and path.stat().st_mtime >= started else []


def compared(name, rows, stored):
    """[Change] of one case file's rows."""
    module = importlib.import_module(module_name(name))
    declared = getattr(module, "BENCHMARK", None) or getattr(module, "COUNTERS", None)
    return changes(declared.keys, declared.compared, rows, stored) if declared else []


def parsed(arguments=None):
    """The command line; None where there is no GPU to measure."""
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.all", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"case files: {', '.join((*CASES, *COUNTERS))}")
    parser.add_argument("--quick", action="store_true", help="a few loads of each; without names the course's speed")
    parser.add_argument("--full", action="store_true", help="every load; without names the course's speed")
    parser.add_argument("--out-dir", type=Path, help="where the rows go; default: benchmarks/results/<card>")
    parser.add_argument("--stored", type=Path, help="the rows to compare with; default: benchmarks/results/<card>")
    parser.add_argument("--commit", default=None, help="whose code is measured; default: $COMMIT, or git's HEAD")
    parser.add_argument("--runs", type=int, help="timed runs of each variant")
    parser.add_argument("--seconds", type=float, help="time budget of everything together")
    parser.add_argument("--noise", type=float, default=NOISE_PERCENT, help="percent that count as the same")
    parser.add_argument("--also", help="a folder of installed packages, searched last: where the peers are")
    parser.add_argument("--dry", action="store_true", help="tiny sizes on the CPU; the rows are not measurements")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in (*CASES, *COUNTERS)]
    if unknown:
        parser.error(f"no such case file: {', '.join(unknown)}")
    options.names = options.names or (SPEED if options.quick or options.full else (*CASES, *COUNTERS))
    if options.out_dir is None and (options.dry or options.quick or options.seconds):
        parser.error("give --out-dir: such a run would replace the stored rows by fewer or by none")
    if options.dry:
        options.names = [name for name in options.names if name not in COUNTERS]
    elif not device.has_gpu():
        return None
    card = RESULTS / ("dry" if options.dry else folder_name(device.current().name))
    options.out_dir, options.stored = (options.out_dir or card).resolve(), options.stored or card
    options.commit = options.commit or commit()
    return options


def main(arguments=None):
    """Run the case files that this machine can run; exit code 1 when one failed."""
    options = parsed(arguments)
    if options is None:
        print("No NVIDIA GPU is visible here, so there is nothing to time. The stored rows are in benchmarks/results.")
        return 2
    began, failed, reports = time.perf_counter(), [], []
    for index, name in enumerate(options.names):
        stored, seconds = read(out_of(name, options.stored)), None
        if options.seconds is not None:
            left = options.seconds - (time.perf_counter() - began)
            seconds = max(0.0, left) / (len(options.names) - index)
        print(f"=== {name}", flush=True)
        started = time.time()
        failed += [] if measure(name, options, seconds) else [name]
        found = compared(name, written(out_of(name, options.out_dir), started), stored)
        reports.append(f"=== {name}: new rows beside the stored ones\n{report(found, options.noise)}")
    print("\n".join(reports))
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
