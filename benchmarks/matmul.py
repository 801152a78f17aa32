"""Time every step of kernels_cu/matmul beside cuBLAS, over the size of square matrices.

    python3 -m benchmarks.matmul --out benchmarks/results/h200/matmul.csv
    python3 -m benchmarks.matmul --dry      tiny sizes on a CPU, to try the script

float32 (01 to 05) beside torch.mm in full float32, without TF32; float16 (06 to 09, and 08 in Triton) beside torch.mm
in float16, which is cuBLAS. All variants of one size are timed in turns, so that a change of the clock affects all of
them; L2 is flushed before each run, and the GPU is kept busy while the launch is being queued, so that no host time is
counted. Random numbers. Every variant is checked against float64 before it is timed; max_error is in units of
sqrt(size_k), the spread of the elements.
"""

import sys
from functools import partial

import torch

from benchmarks.harness import Benchmark, Variants, in_languages, largest_error, main
from course_lib.ops.matmul import HALF_VARIANTS, HOPPER_VARIANTS, STEPS, plan_matmul

SIZES, DRY_SIZES = (1024, 2048, 4096, 8192), (72, 136)
DTYPES = ("float16", "float32")
LARGEST = {"01_naive": 2048, "02_coalesced": 4096, "03_shared_tile": 4096}  # the others go up to the end
CHECKED_ROWS = 64
SLOW_MS = 10.0  # slower variants are run less often
CUBLAS = ("cublas", "torch")


def loads(dry):
    return [
        {"dtype": dtype} | dict.fromkeys(("size_m", "size_n", "size_k"), size)
        for dtype in DTYPES
        for size in (DRY_SIZES if dry else SIZES)
    ]


def tolerance(dtype, size_k):
    """How far an element may be off, in units of sqrt(size_k), the spread of the elements.

    Halves: the rounding of the result, which is up to five spreads away from zero. Floats: size_k roundings of partial
    sums that grow to one spread, whose sum wanders as far as sqrt(size_k) of them; eight times that is the limit.
    """
    return 4e-3 if dtype == "float16" else 8 * 2.0**-24 * size_k**0.5


def names_of(dtype):
    """[(variant, language)] of a dtype, cuBLAS first."""
    halves = (*HALF_VARIANTS, *HOPPER_VARIANTS)
    return [CUBLAS, *in_languages("matmul", [name for name in STEPS if (name in halves) == (dtype == "float16")])]


def call_of(variant, language, a, b):
    """The function that multiplies and returns (product,); the product is NaN before its first call."""
    if variant == "cublas":
        out, run = a.new_empty(a.shape[0], b.shape[1]), None
    else:
        launch = plan_matmul(a, b, variant=variant, language=language)
        out, run = launch.outputs[0], launch.run
    out.fill_(float("nan"))
    run = run or (lambda: torch.mm(a, b, out=out))
    return lambda: (run(), (out,))[1]


def error_of(outputs, a, b):
    """Largest error of the first and last rows against float64 in units of sqrt(size_k); infinity for NaN."""
    parts = (slice(0, CHECKED_ROWS), slice(-CHECKED_ROWS, None))
    pairs = [(outputs[0][rows], a[rows].double() @ b.double()) for rows in parts]
    return largest_error(outputs, pairs, scale=lambda _: a.shape[1] ** 0.5)


def rows_of(load, options):
    """The rows of one size."""
    torch.set_float32_matmul_precision("highest")  # cuBLAS in float32, not in TF32
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False  # summed in float32, as ours
    dtype, size = load["dtype"], load["size_m"]
    a, b = (torch.randn(size, size, device=options.device).to(getattr(torch, dtype)) for _ in range(2))
    variants, check = Variants(options, slow_ms=SLOW_MS), partial(error_of, a=a, b=b)
    for name in names_of(dtype):
        columns = dict(zip(("variant", "language"), name, strict=True))
        if size > LARGEST.get(name[0], size):
            variants.skip(columns, f"not timed above {LARGEST[name[0]]}: it takes too long")
        else:
            variants.add(columns, partial(call_of, *name, a, b), check, tolerance(dtype, size))
    yield from variants.timed(load, speed)


def speed(row, median_ms, times):
    """Columns of a timed row: the rate, and its share of cuBLAS's."""
    return {
        "tflops": f"{2 * row['size_m'] ** 3 / median_ms / 1e9:.2f}",
        "percent_of_cublas": f"{100 * times[CUBLAS].median_ms / median_ms:.1f}" if CUBLAS in times else "",
    }


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, variants in turns, L2 flushed",
    keys=("variant", "language", "dtype", "size_m", "size_n", "size_k"),
    values=("median_us", "low_us", "high_us", "tflops", "percent_of_cublas", "max_error", "note"),
    loads=loads,
    rows=rows_of,
    shown=("median_us", "tflops", "percent_of_cublas"),
    quick={"size_m": (2048, 4096)},
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
