"""Time attention step by step against one fused kernel, over sequence length; rows for chapter 00.

    python3 -m benchmarks.naive_attention --out benchmarks/results/h200/naive_attention.csv --commit …
    python3 -m benchmarks.naive_attention --dry --out /tmp/dry.csv      tiny sizes on a CPU, to try the script

naive       four torch kernels: scores, scale, softmax, weights times v; the N x N matrix goes through memory
sdpa_flash  scaled_dot_product_attention with the flash backend, named, so that no other one is taken
sdpa_cudnn  the same with cuDNN's

Every variant is checked against float64 in the same run, at every size, before it is timed. The naive one is left out,
with the reason in `note`, where its two matrices would need more than --limit-gib.
"""

import argparse
import csv
import os
import sys
from pathlib import Path

import torch

from benchmarks import ROOT
from benchmarks.harness.about import COLUMNS as ABOUT
from benchmarks.harness.about import versions
from benchmarks.harness.sdpa import BACKENDS, sdpa
from course_lib import measure

HEADS = 16
SEQ_LENS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
HEAD_DIMS = (64, 128)
DTYPES = ("float16", "bfloat16")
DRY = {"seq_lens": (64, 96, 256), "head_dims": (64,), "dtypes": ("float32",)}
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
CHECKED_ROWS = 64  # query rows of the first head that are compared with float64
COLUMNS = [
    "variant", "language", "batch_size", "num_heads", "head_dim", "seq_len", "dtype", "median_us", "low_us", "high_us",
    "peak_bytes", "formula_bytes", "tflops", "max_error", "note", *ABOUT,
]  # fmt: skip


def naive(q, k, v):
    """softmax(q k^T / sqrt(head_dim)) v in four kernels, every intermediate written to memory."""
    scores = q @ k.transpose(-1, -2)
    scores = scores * q.shape[-1] ** -0.5
    probs = torch.softmax(scores, dim=-1)
    return probs @ v


def error_of(function, q, k, v):
    """Largest error of the checked rows against float64; everything must be finite."""
    out = function(q, k, v)
    if not torch.isfinite(out).all():
        return float("inf")
    want = naive(q[:, :1, :CHECKED_ROWS].double(), k[:, :1].double(), v[:, :1].double())
    return (out[:, :1, :CHECKED_ROWS].double() - want).abs().max().item()


def row_of(variant, function, tensors, cost, dtype, num_runs):
    """One row: checked, then peak memory, then the median time."""
    on_gpu = tensors[0].is_cuda
    error = error_of(function, *tensors)
    if not error <= TOLERANCE[dtype]:
        sys.exit(f"{variant} is wrong by {error} at {cost}, {dtype}: nothing wrong is timed")
    torch.cuda.empty_cache() if on_gpu else None
    peak = measure.peak_bytes(lambda: function(*tensors), on_gpu=on_gpu)
    timing = measure.median_time(lambda: function(*tensors), num_runs=num_runs, on_gpu=on_gpu)
    return {
        "median_us": f"{timing.median_ms * 1e3:.1f}",
        "low_us": f"{timing.low_ms * 1e3:.1f}",
        "high_us": f"{timing.high_ms * 1e3:.1f}",
        "peak_bytes": peak,
        "tflops": f"{cost.flop / timing.median_ms / 1e9:.2f}",
        "max_error": f"{error:.1e}",
    }


def rows_of(cost, dtype, variants, options):
    """Rows of one size, naive first."""
    shape = (1, cost.num_heads, cost.seq_len, cost.head_dim)
    tensors = [torch.randn(shape, device=options.device, dtype=getattr(torch, dtype)) for _ in range(3)]
    for variant, function in variants.items():
        step_by_step = variant == "naive"
        row = {
            "variant": variant, "language": "torch", "batch_size": 1, "num_heads": cost.num_heads,
            "head_dim": cost.head_dim, "seq_len": cost.seq_len, "dtype": dtype,
            "formula_bytes": cost.step_by_step_bytes if step_by_step else cost.fewest_bytes,
        }  # fmt: skip
        if step_by_step and 2 * cost.matrix_bytes > options.limit_gib * 2**30:
            needed = 2 * cost.matrix_bytes / 2**30
            row["note"] = f"two matrices take {needed:.0f} GiB; the limit of this run is {options.limit_gib} GiB"
        else:
            try:
                row |= row_of(variant, function, tensors, cost, dtype, options.runs)
            except RuntimeError as error:  # the named backend does not exist here
                row["note"] = str(error).strip().splitlines()[0]
        yield row


def parsed():
    """The command line; a dry run may not write where the course keeps its numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--limit-gib", type=int, default=24, help="memory that the naive matrices may take")
    parser.add_argument("--dry", action="store_true", help="tiny sizes on the CPU; the rows are worth nothing")
    options = parser.parse_args()
    if options.dry and (ROOT / "benchmarks") in options.out.resolve().parents:
        parser.error("a dry run measures nothing: give --out a place outside benchmarks/")
    options.device = "cpu" if options.dry else "cuda"
    if not options.dry and not torch.cuda.is_available():
        parser.error("no NVIDIA GPU is visible; --dry tries the script on a CPU")
    return options


def main():
    """Time everything and write the CSV."""
    options = parsed()
    torch.manual_seed(0)
    sizes = DRY if options.dry else {"seq_lens": SEQ_LENS, "head_dims": HEAD_DIMS, "dtypes": DTYPES}
    variants = {"naive": naive} | {name: sdpa(backend) for name, backend in BACKENDS.items()}
    if options.dry:
        del variants["sdpa_cudnn"]
    about = versions(options.commit, on_gpu=not options.dry)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("# medians of CUDA events, L2 flushed between runs; peak_bytes: allocated beyond the inputs; ")
        file.write("python3 -m benchmarks.naive_attention\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for dtype in sizes["dtypes"]:
            for head_dim in sizes["head_dims"]:
                for seq_len in sizes["seq_lens"]:
                    cost = measure.AttentionCost(seq_len, head_dim, HEADS, torch.finfo(getattr(torch, dtype)).bits // 8)
                    for row in rows_of(cost, dtype, variants, options):
                        writer.writerow(row | about)
                        said = row.get("note") or f"{row['median_us']:>9} us {row['tflops']:>7} TFLOP/s"
                        print(f"{dtype:<9} d={head_dim:<4} N={seq_len:<6} {row['variant']:<11} {said}", flush=True)


if __name__ == "__main__":
    main()
