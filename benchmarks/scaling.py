"""Time what several GPUs of one host do together, beside what torch has for it; chapter 15.

    python3 -m benchmarks.scaling --ranks 4 --out benchmarks/results/h100/scaling.csv
    python3 -m benchmarks.scaling --ranks 2 --only part=context --out /tmp/context.csv
    python3 -m benchmarks.scaling --dry              two processes with gloo and tiny sizes, to try the script

Each part runs in processes of its own, one a GPU, started by course_lib.parallel.run: a part that fails or hangs ends
at its time limit, keeps the rows that it has, and leaves a row that says why. NVLink multicast is off in all of them.

collectives  all_reduce, all_gather, reduce_scatter, all_to_all, send from 1 kB to 1 GB beside raw torch.distributed
context      causal attention of 32k to 128k tokens, ring and Ulysses, beside torch's context_parallel
model        prefill and decode of an 8B-shaped Llama beside one rank and torch.distributed.tensor.parallel
expert       a layer of a mixture of experts beside one rank and all_to_all_single with torch._grouped_mm
transfer     keys and values between two pools of pages beside a send and a copy between the GPUs

median_us   of a call on the slowest rank, all ranks started together; `inner` calls timed as one
bus_gbps    bytes that a rank sends by the ring formulas, over the time; wire_bytes are those counted in one call
speedup     the time of one rank over this one's; ratio_to_best_peer: that of the fastest peer
max_error   against float64 or against one rank, in a check before; a variant that is wrong is not timed
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Benchmark, main
from benchmarks.ranks.report import of_part
from course_lib.errors import CourseError
from course_lib.parallel import run

PARTS = ("context", "model", "collectives", "transfer", "expert")
KEYS = ("part", "ranks", "op", "variant", "bytes", "batch_size", "seq_len")
LIMIT, DRY_LIMIT = 150.0, 60.0  # seconds of a part


def loads(dry):
    return [{"part": part} for part in PARTS]


def arguments(parser):
    parser.add_argument("--ranks", type=int, default=2, help="GPUs, one process each")
    parser.add_argument("--part-seconds", type=float, default=None, help="time limit of a part")
    parser.add_argument("--backend", choices=("threads", "gloo"), default="gloo", help="of a dry run")


def rows(load, options):
    """The rows of one part, as far as it came."""
    began = time.perf_counter()
    limit = options.part_seconds or (DRY_LIMIT if options.dry else LIMIT)
    backend = options.backend if options.dry else "nccl"
    with tempfile.TemporaryDirectory() as folder:
        path, problem = Path(folder) / "rows", None
        try:
            task = (load["part"], str(path), options.runs, options.dry)
            run(of_part, options.ranks, *task, backend=backend, seconds=limit)
        except CourseError as error:
            problem = str(error).splitlines()[0]
            print("\n".join(getattr(error, "__notes__", [])), file=sys.stderr, flush=True)
        yield from latest(path.read_text(encoding="utf-8").splitlines() if path.exists() else [])
    if problem:
        note = f"not finished after {time.perf_counter() - began:.0f} s: {problem[:300]}"
        yield load | {"ranks": options.ranks, "variant": "", "note": note}


def latest(lines):
    """The rows in the order of their first report, each as it was reported last."""
    found = {}
    for row in map(json.loads, lines):
        found[tuple(str(row.get(key, "")) for key in KEYS)] = row
    return found.values()


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "CUDA events on every rank, medians of the slowest rank",
    keys=KEYS,
    values=(
        "inner",
        "median_us",
        "bus_gbps",
        "tflops",
        "tokens_per_s",
        "speedup",
        "ratio_to_best_peer",
        "wire_bytes",
        "max_error",
        "note",
    ),  # fmt: skip
    loads=loads,
    rows=rows,
    shown=("median_us", "bus_gbps", "tflops", "speedup", "ratio_to_best_peer"),
    runs=7,
    arguments=arguments,
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
