"""Bandwidth of global memory by access pattern and by working set, with the micro-kernels of kernels_cu/access.

    python3 -m benchmarks.access --out benchmarks/results/h200/access.csv --commit $(git rev-parse --short HEAD)

pattern rows: one launch over a matrix far larger than L2; `useful_gbps` counts the bytes that the kernel asked for,
read and written, `moved_gbps` the 32-byte sectors that such a pattern touches.
working_set rows: the same float4 copy again and again over one buffer pair, no flush: what fits in L2 stays there.
"""

import argparse
import csv
import os
import sys
from pathlib import Path

import torch

from benchmarks.harness.about import versions
from course_lib import cuda, measure

COLUMNS = ["kind", "case", "kernel", "working_set_bytes", "median_us", "low_us", "high_us", "useful_gbps", "moved_gbps"]
COLUMNS += ["device", "driver", "torch", "triton", "cupy", "commit", "date"]
N = 1 << 26  # floats written: 256 MiB
BLOCK = 256


def patterns():
    """(case, kernel, arguments, useful bytes, moved bytes) of every pattern; results are checked before timing."""
    for stride in (1, 2, 4, 8, 16, 32):
        n = N if stride <= 8 else N // 4
        kernel = cuda.load("access/01_global_stride.cu", defines={"STRIDE": stride})
        x, out = torch.randn(n * stride, device="cuda"), torch.empty(n, device="cuda")
        yield f"stride_{stride}", kernel, (x, out, n), n, 8 * n, (4 * min(stride, 8) + 4) * n, x[::stride]
    for offset in (0, 1, 8):
        kernel = cuda.load("access/02_global_offset.cu", defines={"OFFSET": offset})
        x, out = torch.randn(N + offset, device="cuda"), torch.empty(N, device="cuda")
        moved = (4 if offset % 8 == 0 else 5) * N + 4 * N
        yield f"offset_{offset}", kernel, (x, out, N), N, 8 * N, moved, x[offset:]
    kernel = cuda.load("access/03_global_vector.cu")
    x, out = torch.randn(N, device="cuda"), torch.empty(N, device="cuda")
    yield "float4", kernel, (x, out, N // 4), N // 4, 8 * N, 8 * N, x


def row(kind, case, kernel, timing, working_set, useful, moved):
    """One row of the CSV."""
    return {
        "kind": kind,
        "case": case,
        "kernel": kernel,
        "working_set_bytes": working_set,
        "median_us": f"{timing.median_ms * 1e3:.2f}",
        "low_us": f"{timing.low_ms * 1e3:.2f}",
        "high_us": f"{timing.high_ms * 1e3:.2f}",
        "useful_gbps": f"{useful / timing.median_ms / 1e6:.0f}",
        "moved_gbps": f"{moved / timing.median_ms / 1e6:.0f}",
    }


def pattern_rows():
    """A row for every pattern, timed with L2 flushed."""
    for case, kernel, arguments, threads, useful, moved, want in patterns():
        grid = -(-threads // BLOCK)
        arguments[1].fill_(float("nan"))
        kernel(grid, BLOCK, *arguments)
        if not torch.equal(arguments[1], want):
            sys.exit(f"{case} copied something else: nothing wrong is timed")
        timing = measure.median_time(lambda: kernel(grid, BLOCK, *arguments), on_gpu=True)  # noqa: B023 - called here
        yield row("pattern", case, kernel.name, timing, useful, useful, moved)


def working_set_rows():
    """A row for every size from 1 MiB to 1 GiB: 20 copies in one CUDA graph, so that launches cost nothing."""
    kernel, repeats = cuda.load("access/03_global_vector.cu"), 20
    for exponent in range(20, 31):
        num_bytes = 1 << exponent
        n = num_bytes // 2 // 16
        x, out = torch.randn(4 * n, device="cuda"), torch.empty(4 * n, device="cuda")
        kernel(-(-n // BLOCK), BLOCK, x, out, n)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(repeats):
                kernel(-(-n // BLOCK), BLOCK, x, out, n)
        samples = []
        for _ in range(25):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            graph.replay()
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            samples.append(start.elapsed_time(end) / repeats)
        samples.sort()
        timing = measure.Timing(samples[12], samples[6], samples[18], len(samples), "gpu")
        yield row("working_set", f"{num_bytes >> 20} MiB", kernel.name, timing, num_bytes, num_bytes, num_bytes)


def main():
    """Time everything and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    options = parser.parse_args()
    torch.manual_seed(0)
    about = versions(options.commit, also=("cupy",))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("# medians of CUDA events, middle half in low_us to high_us; python3 -m benchmarks.access\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for rows in (pattern_rows(), working_set_rows()):
            for found in rows:
                writer.writerow(found | about)
                print(
                    f"{found['kind']:<12} {found['case']:<10} {found['median_us']:>9} us "
                    f"useful {found['useful_gbps']:>6} GB/s, moved {found['moved_gbps']:>6} GB/s"
                )


if __name__ == "__main__":
    main()
