"""Rate of shared memory by stride, and latency of a chain of loads by working set, with kernels_cu/bandwidth.

    python3 -m benchmarks.bandwidth --out benchmarks/results/h200/bandwidth.csv
    python3 -m benchmarks.bandwidth --dry      runs every kernel small on the CPU and checks its result

shared rows: `gbps` counts 4 bytes for each read of each lane, on the whole card; `cycles` and `ns` are empty.
latency rows: one thread follows a chain of elements 256 bytes apart in random order. For one load, `cycles` of the SM's
clock in the second walk, and `ns` of the whole launch by its number of loads. A chain that fits into a cache is served
from it: L2 is flushed between runs only for the one that does not.
"""

import sys

import torch

from benchmarks.harness import Benchmark, main, rows_by_kind
from course_lib import cuda, measure

STRIDES, DRY_STRIDES = (1, 2, 4, 8, 16, 32, 31), (1, 32)
WORDS = 1024  # of shared memory, as the kernel says
REPEATS, DRY_REPEATS = 4096, 8
STEP = 64  # ints between two elements of a chain: 256 bytes
WORKING_SETS = (("L1", 16 << 10), ("L2", 8 << 20), ("device memory", 1 << 30))
DRY_WORKING_SETS = (("a small chain", 16 << 10),)
BEYOND_L2 = 128 << 20  # bytes
NUM_STEPS = 1 << 15  # of a walk; a chain with fewer elements is walked round and round


def loads(dry):
    shared = [{"kind": "shared", "case": f"stride {n}", "stride": n} for n in (DRY_STRIDES if dry else STRIDES)]
    return shared + [
        {"kind": "latency", "case": name, "working_set_bytes": num_bytes}
        for name, num_bytes in (DRY_WORKING_SETS if dry else WORKING_SETS)
    ]


def shared_row(load, options):
    """The row of a stride."""
    stride, device = load["stride"], options.device
    repeats, grid, block = (DRY_REPEATS, 2, 64) if options.dry else (REPEATS, 8 * num_processors(), 1024)
    kernel = cuda.load("bandwidth/01_shared_read.cu", defines={"STRIDE": stride, "REPEATS": repeats})
    x = torch.randint(0, 8, (WORDS,), device=device).float()
    out = torch.full((grid * block,), float("nan"), device=device)
    kernel(grid, block, x, out)
    lane = torch.arange(grid * block, device=device) % 32
    want = sum(x[(lane * stride + k) % WORDS] for k in range(repeats))  # small integers: exact
    row = load | {"kernel": kernel.name}
    if not torch.equal(out, want):
        return row | {"note": "wrong: the sums differ; not timed"}
    if options.dry:
        return row
    timing = measure.median_time(lambda: kernel(grid, block, x, out), num_runs=options.runs, on_gpu=True)
    rate = 4 * grid * block * repeats / timing.median_ms / 1e6
    return row | {"median_us": f"{timing.median_ms * 1e3:.2f}", "gbps": f"{rate:.0f}"}


def num_processors():
    return torch.cuda.get_device_properties(0).multi_processor_count


def chain(num_elements, device):
    """next (num_elements * STEP,) int32: one cycle through all elements in random order."""
    order = torch.randperm(num_elements)
    after = torch.empty(num_elements, dtype=torch.int64)
    after[order] = torch.roll(order, -1)
    links = torch.zeros(num_elements, STEP, dtype=torch.int32)
    links[:, 0] = (after * STEP).to(torch.int32)
    return links.flatten().to(device)


def last_of(links, num_steps):
    """The element at which so many steps along the chain end."""
    last, links = 0, links.cpu()
    for _ in range(num_steps):
        last = int(links[last])
    return last


def latency_row(load, options):
    """The row of a working set; the kernel walks its chain twice."""
    num_bytes, kernel = load["working_set_bytes"], cuda.load("bandwidth/02_pointer_chase.cu")
    num_elements = num_bytes // (4 * STEP)
    steps = num_elements if options.dry else NUM_STEPS
    links, out = chain(num_elements, options.device), torch.zeros(2, dtype=torch.int64, device=options.device)
    kernel(1, 1, links, out, steps)
    last, row = last_of(links, 2 * steps), load | {"kernel": kernel.name}
    if int(out[1]) != last:
        return row | {"note": f"wrong: the chain ended at {int(out[1])}, not at {last}; not timed"}
    if options.dry:
        return row
    settings = {"num_runs": options.runs, "on_gpu": True, "flush": num_bytes > BEYOND_L2}
    timing = measure.median_time(lambda: kernel(1, 1, links, out, steps), **settings)
    return row | {
        "median_us": f"{timing.median_ms * 1e3:.2f}",
        "cycles": f"{int(out[0]) / steps:.1f}",
        "ns": f"{timing.median_ms * 1e6 / (2 * steps):.1f}",
    }


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events",
    keys=("kind", "case", "kernel", "stride", "working_set_bytes"),
    values=("median_us", "gbps", "cycles", "ns", "note"),
    loads=loads,
    rows=rows_by_kind(shared=shared_row, latency=latency_row),
    shown=("median_us", "gbps", "cycles", "ns"),
    runs=25,
    packages=("cupy",),
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
