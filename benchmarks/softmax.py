"""Time the softmax kernels of chapter 03 on the GPU in hand: CUDA, Triton, torch, and the copy that none can beat.

    python3 -m benchmarks.softmax --out benchmarks/results/h200/softmax.csv --commit $(git rev-parse --short HEAD)

Every variant is checked against float64 in the same run before it is timed. `gbps` counts the fewest bytes that a
softmax must move (read x once, write out once) over the median time, so that all rows compare with the copy of those
bytes; a kernel that reads twice cannot reach it where the row does not stay in a cache.
"""

import argparse
import csv
import os
import sys
from pathlib import Path

import torch

from benchmarks.harness.about import versions
from course_lib import measure
from course_lib.ops import softmax as ops

NUMBERS = 1 << 27  # of each matrix: 512 MiB in float32, several times any L2
WIDTHS = (128, 512, 1024, 4096, 16384, 65536)
VARIANTS = [
    (variant, language)
    for variant in ("01_three_pass", "02_online", "03_online_warp")
    for language in ("cuda", "triton")
]
COLUMNS = [
    "variant",
    "language",
    "num_rows",
    "num_cols",
    "dtype",
    "median_us",
    "low_us",
    "high_us",
    "gbps",
    "copy_percent",
    "max_error",
    "device",
    "driver",
    "torch",
    "triton",
    "cupy",
    "commit",
    "date",
]


def checked(variant, language, x, want):
    """(function to time, largest error against float64 on the rows that `want` holds)."""
    if language == "torch":
        out = torch.empty_like(x)

        def run():
            torch.softmax(x, dim=-1, out=out)
    else:
        launch = ops.plan(x, variant=variant, language=language)
        out, run = launch.outputs[0], launch.run
    out.fill_(float("nan"))
    run()
    error = (out[: len(want)].double() - want).abs().max().item()
    if not error <= 1e-5 or not torch.isfinite(out).all():
        sys.exit(f"{variant} in {language} is wrong by {error} at {tuple(x.shape)}: nothing wrong is timed")
    return run, error


def rows_of(num_cols, num_runs):
    """Rows for one width: the copy first, then every variant."""
    num_rows = NUMBERS // num_cols
    x = torch.randn(num_rows, num_cols, device="cuda")
    want = x[:64].double().softmax(-1)
    other = torch.empty_like(x)
    num_bytes = 2 * x.numel() * x.element_size()
    candidates = [("copy", "torch", lambda: other.copy_(x), None)]
    candidates += [("torch.softmax", "torch", *checked(None, "torch", x, want))]
    candidates += [(variant, language, *checked(variant, language, x, want)) for variant, language in VARIANTS]
    copy_ms, rows = None, []
    for variant, language, run, error in candidates:
        timing = measure.median_time(run, num_runs=num_runs, on_gpu=True)
        copy_ms = copy_ms or timing.median_ms
        rows.append(
            {
                "variant": variant,
                "language": language,
                "num_rows": num_rows,
                "num_cols": num_cols,
                "dtype": "float32",
                "median_us": f"{timing.median_ms * 1e3:.1f}",
                "low_us": f"{timing.low_ms * 1e3:.1f}",
                "high_us": f"{timing.high_ms * 1e3:.1f}",
                "gbps": f"{num_bytes / timing.median_ms / 1e6:.0f}",
                "copy_percent": f"{100 * copy_ms / timing.median_ms:.1f}",
                "max_error": "" if error is None else f"{error:.1e}",
            }
        )
    return rows


def main():
    """Time everything and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    parser.add_argument("--runs", type=int, default=25)
    options = parser.parse_args()
    torch.manual_seed(0)
    about = versions(options.commit, also=("cupy",))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write(
            "# medians of CUDA events, L2 flushed between runs, middle half in low_us to high_us; "
            "python3 -m benchmarks.softmax\n"
        )
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for num_cols in WIDTHS:
            for row in rows_of(num_cols, options.runs):
                writer.writerow(row | about)
                print(
                    f"{row['num_cols']:>6} {row['variant']:<15} {row['language']:<7} {row['median_us']:>9} us "
                    f"{row['gbps']:>5} GB/s {row['copy_percent']:>6} % of copy"
                )


if __name__ == "__main__":
    main()
