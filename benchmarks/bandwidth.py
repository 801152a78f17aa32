"""Rate of shared memory by stride, and latency of a chain of loads by working set, with kernels_cu/bandwidth.

    python3 -m benchmarks.bandwidth --out benchmarks/results/h200/bandwidth.csv --commit $(git rev-parse --short HEAD)
    python3 -m benchmarks.bandwidth --dry      runs every kernel small on the CPU, checks its result, writes nothing

shared rows: `gbps` counts 4 bytes for each read of each lane, on the whole card; `cycles` and `ns` are empty.
latency rows: one thread follows a chain of places 256 bytes apart in random order. For one load, `cycles` of the SM's
clock in the second walk, and `ns` of the whole launch by its number of loads. A chain that fits into a cache is served
from it: L2 is flushed between runs only for the one that does not.
"""

import argparse
import csv
import os
import sys
from pathlib import Path

import torch

from benchmarks.harness.about import versions
from course_lib import cuda, measure

COLUMNS = ["kind", "case", "kernel", "stride", "working_set_bytes", "median_us", "gbps", "cycles", "ns"]
COLUMNS += ["device", "driver", "torch", "triton", "cupy", "commit", "date"]
STRIDES = (1, 2, 4, 8, 16, 32, 31)
WORDS = 1024  # of shared memory, as the kernel says
STEP = 64  # ints between two places of a chain: 256 bytes
LATENCY_CASES = (("L1", 16 << 10), ("L2", 8 << 20), ("device memory", 1 << 30))
BEYOND_L2 = 128 << 20  # bytes
NUM_STEPS = 1 << 15  # of a walk; a chain with fewer places is walked round and round


def shared_launch(stride, repeats, grid, block, device):
    """(kernel, arguments) of one stride, after a run whose result was checked."""
    kernel = cuda.load("bandwidth/01_shared_read.cu", defines={"STRIDE": stride, "REPEATS": repeats})
    x = torch.randint(0, 8, (WORDS,), device=device).float()
    out = torch.full((grid * block,), float("nan"), device=device)
    kernel(grid, block, x, out)
    lane = torch.arange(grid * block, device=device) % 32
    want = sum(x[(lane * stride + k) % WORDS] for k in range(repeats))  # small integers: exact
    if not torch.equal(out, want):
        sys.exit(f"stride {stride} read something else: nothing wrong is timed")
    return kernel, (x, out)


def shared_rows(strides, repeats, grid, block, device, timed):
    """A row for every stride; `gbps` is None when nothing is timed."""
    for stride in strides:
        kernel, arguments = shared_launch(stride, repeats, grid, block, device)
        found = {"kind": "shared", "case": f"stride {stride}", "kernel": kernel.name, "stride": stride}
        if timed:
            timing = measure.median_time(lambda: kernel(grid, block, *arguments), on_gpu=True)  # noqa: B023 - called here
            rate = 4 * grid * block * repeats / timing.median_ms / 1e6
            found |= {"median_us": f"{timing.median_ms * 1e3:.2f}", "gbps": f"{rate:.0f}"}
        yield found


def chain(num_places, device):
    """next (num_places * STEP,) int32: one cycle through all places in random order."""
    order = torch.randperm(num_places)
    after = torch.empty(num_places, dtype=torch.int64)
    after[order] = torch.roll(order, -1)
    places = torch.zeros(num_places, STEP, dtype=torch.int32)
    places[:, 0] = (after * STEP).to(torch.int32)
    return places.flatten().to(device)


def latency_rows(cases, device, timed):
    """A row for every working set."""
    kernel = cuda.load("bandwidth/02_pointer_chase.cu")
    for name, num_bytes in cases:
        num_places = num_bytes // (4 * STEP)
        steps = NUM_STEPS if timed else num_places
        places, out = chain(num_places, device), torch.zeros(2, dtype=torch.int64, device=device)
        kernel(1, 1, places, out, steps)
        last = 0
        host = places.cpu()
        for _ in range(2 * steps):
            last = int(host[last])
        if int(out[1]) != last:
            sys.exit(f"{name}: the chain ended at {int(out[1])}, not at {last}: nothing wrong is timed")
        found = {"kind": "latency", "case": name, "kernel": kernel.name, "working_set_bytes": num_bytes}
        if timed:
            options = {"on_gpu": True, "flush": num_bytes > BEYOND_L2}
            timing = measure.median_time(lambda: kernel(1, 1, places, out, steps), **options)  # noqa: B023
            found |= {"median_us": f"{timing.median_ms * 1e3:.2f}", "cycles": f"{int(out[0]) / steps:.1f}"}
            found["ns"] = f"{timing.median_ms * 1e6 / (2 * steps):.1f}"
        yield found


def main():
    """Time everything and write the CSV, or try everything on the CPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    parser.add_argument("--dry", action="store_true", help="small, on the CPU, writes nothing")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.dry:
        small = [("a small chain", 16 << 10)]
        for found in [*shared_rows((1, 32), 8, 2, 64, "cpu", False), *latency_rows(small, "cpu", False)]:
            print(f"{found['kind']:<8} {found['case']:<14} right; nothing timed")
        return
    if options.out is None:
        parser.error("say where the rows go: --out benchmarks/results/<device>/bandwidth.csv")
    about, num_sms = versions(options.commit, also=("cupy",)), torch.cuda.get_device_properties(0).multi_processor_count
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("# medians of CUDA events; python3 -m benchmarks.bandwidth\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        shared = shared_rows(STRIDES, 4096, 8 * num_sms, 1024, "cuda", True)
        for rows in (shared, latency_rows(LATENCY_CASES, "cuda", True)):
            for found in rows:
                writer.writerow(found | about)
                print({key: value for key, value in found.items() if key != "kernel"})


if __name__ == "__main__":
    main()
