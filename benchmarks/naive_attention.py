"""Time softmax(QK^T/sqrt(d))V as separate torch operations beside the fused backends of scaled_dot_product_attention.

    python3 benchmarks/naive_attention.py --out benchmarks/results/h200/naive_attention.csv --commit $(git rev-parse --short HEAD)
    python3 benchmarks/naive_attention.py --out /tmp/rows.csv --dry      tiny sizes, no GPU: only that the script runs

Each variant is checked against float64 attention of 64 query rows of one head before it is timed. `peak_mb` is the most
memory in use while it ran, less its inputs (10^6 bytes); a variant that runs out of memory gets a row without times.
"""

import argparse
import csv
import datetime
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from course_lib import measure  # noqa: E402

COLUMNS = [
    "variant", "batch_size", "num_heads", "seq_len", "head_dim", "dtype", "median_us", "low_us", "high_us", "tflops",
    "peak_mb", "max_error", "device", "driver", "torch", "commit", "date",
]  # fmt: skip
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


def naive(q, k, v):
    """Three operations, each with its own pass over an N x N matrix in memory."""
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    return torch.softmax(scores, dim=-1) @ v


def fused(backend):
    """scaled_dot_product_attention with one named backend, so that no default can change under the measurement."""

    def run(q, k, v):
        with sdpa_kernel(BACKENDS[backend]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return run


def error_of(out, q, k, v):
    """Largest error of the first 64 rows of head 0 against float64."""
    q64, k64, v64 = q[0, 0, :64].double(), k[0, 0].double(), v[0, 0].double()
    want = torch.softmax(q64 @ k64.T * q.shape[-1] ** -0.5, dim=-1) @ v64
    return (out[0, 0, :64].double() - want).abs().max().item()


def row_of(name, run, tensors, options, on_gpu):
    """One measured row; without times where the memory does not suffice."""
    q = tensors[0]
    batch_size, num_heads, seq_len, head_dim = q.shape
    row = {
        "variant": name, "batch_size": batch_size, "num_heads": num_heads, "seq_len": seq_len, "head_dim": head_dim,
        "dtype": str(q.dtype).removeprefix("torch."),
    }  # fmt: skip
    try:
        if on_gpu:
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        error = error_of(run(*tensors), *tensors)
        if not error <= 2e-2:
            sys.exit(f"{name} is wrong by {error} at N = {seq_len}: nothing wrong is timed")
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
            run(*tensors)
            torch.cuda.synchronize()
            row["peak_mb"] = f"{(torch.cuda.max_memory_allocated() - before) / 1e6:.1f}"
        timing = measure.median_time(lambda: run(*tensors), num_runs=options.runs, on_gpu=on_gpu)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return row
    flop = 4 * batch_size * num_heads * seq_len**2 * head_dim
    row |= {"median_us": f"{timing.median_ms * 1e3:.1f}", "low_us": f"{timing.low_ms * 1e3:.1f}",
            "high_us": f"{timing.high_ms * 1e3:.1f}", "tflops": f"{flop / timing.median_ms / 1e9:.1f}",
            "max_error": f"{error:.1e}"}  # fmt: skip
    return row


def about(commit, on_gpu):
    """What every row says about the machine and the software."""
    driver = device = ""
    if on_gpu:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        driver = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        device = torch.cuda.get_device_name()
    return {"device": device or "cpu", "driver": driver, "torch": torch.__version__, "commit": commit,
            "date": datetime.date.today().isoformat()}  # fmt: skip


def main():
    """Time everything and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--dry", action="store_true", help="tiny sizes on the CPU, to see that the script runs")
    options = parser.parse_args()
    torch.manual_seed(0)
    on_gpu = not options.dry
    lengths = (64, 128) if options.dry else (512, 1024, 2048, 4096, 8192, 16384, 32768)
    variants = {"naive": naive} if options.dry else {"naive": naive, **{name: fused(name) for name in BACKENDS}}
    facts = about(options.commit, on_gpu)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("# medians of CUDA events, L2 flushed between runs; python3 benchmarks/naive_attention.py\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for head_dim in (64, 128):
            for seq_len in lengths:
                shape = (1, 16, seq_len, head_dim)
                tensors = [torch.randn(shape, dtype=torch.bfloat16, device="cuda" if on_gpu else "cpu") for _ in range(3)]
                for name, run in variants.items():
                    row = row_of(name, run, tensors, options, on_gpu)
                    writer.writerow(row | facts)
                    file.flush()
                    print(row)


if __name__ == "__main__":
    main()
