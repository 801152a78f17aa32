"""Time the softmax kernels of chapter 03: CUDA, Triton, torch, and a copy of the same bytes, which is the limit.

    python3 -m benchmarks.softmax --out benchmarks/results/h200/softmax.csv
    python3 -m benchmarks.softmax --dry      tiny sizes on a CPU, to try the script

Every variant is checked against float64 in the same run before it is timed. `gbps` counts the fewest bytes that a
softmax must move (read x once, write out once) over the median time, so that all rows compare with the copy of those
bytes; a kernel that reads twice cannot reach it where the row does not stay in a cache.
"""

import sys
from functools import partial

import torch

from benchmarks.harness import Benchmark, Variants, in_languages, largest_error, launched, main, rate_beside
from course_lib.ops import softmax as ops

NUMBERS, DRY_NUMBERS = 1 << 27, 1 << 12  # of each matrix; 512 MiB in float32, several times any L2
WIDTHS, DRY_WIDTHS = (128, 512, 1024, 4096, 16384, 65536), (128, 1024)
CHECKED_ROWS = 64
TOLERANCE = 1e-5
COPY = ("copy", "torch")


def loads(dry):
    numbers, widths = (DRY_NUMBERS, DRY_WIDTHS) if dry else (NUMBERS, WIDTHS)
    return [{"num_rows": numbers // width, "num_cols": width, "dtype": "float32"} for width in widths]


def torch_softmax(x):
    """The function that computes torch's softmax and returns (out,)."""
    out = torch.full_like(x, float("nan"))
    return lambda: (torch.softmax(x, dim=-1, out=out),)


def planned(x, variant, language):
    """The function that launches a variant and returns its outputs."""
    return launched(ops.plan(x, variant=variant, language=language))


def error_of(outputs, want):
    """Error of the checked rows."""
    return largest_error(outputs, [(outputs[0][: len(want)], want)])


def rows_of(load, options):
    """The rows of one width: the copy first, then every variant."""
    x = torch.randn(load["num_rows"], load["num_cols"], device=options.device)
    other, check = torch.empty_like(x), partial(error_of, want=x[:CHECKED_ROWS].double().softmax(-1))
    variants = Variants(options)

    def add(name, prepare, *check):
        variants.add(dict(zip(("variant", "language"), name, strict=True)), prepare, *check)

    add(COPY, lambda: lambda: other.copy_(x))
    add(("torch.softmax", "torch"), partial(torch_softmax, x), check, TOLERANCE)
    for name in in_languages("softmax", ops.ROW_VARIANTS):
        add(name, partial(planned, x, *name), check, TOLERANCE)
    num_bytes = 2 * x.numel() * x.element_size()
    yield from variants.timed(load, rate_beside(COPY, "copy_percent", num_bytes))


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, variants in turns, L2 flushed, middle half in low_us to high_us",
    keys=("variant", "language", "num_rows", "num_cols", "dtype"),
    values=("median_us", "low_us", "high_us", "gbps", "copy_percent", "max_error", "note"),
    loads=loads,
    rows=rows_of,
    shown=("median_us", "gbps", "copy_percent"),
    runs=25,
    packages=("cupy",),
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
