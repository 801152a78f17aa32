"""Measure the GPU in hand; ``course bench`` runs this.

    python3 -m benchmarks.run [--device h200] [--commit …]

Writes softmax.csv, access.csv, bandwidth.csv, naive_attention.csv, flash_attention_1.csv, loop_order.csv, matmul.csv,
decode.csv, decode_splits.csv, decode_graphs.csv, page_sizes.csv, paged_prefill.csv and readings.csv (which needs Nsight
Compute) to benchmarks/results/<device>. Where there is no GPU it says so and ends with exit code 2: numbers of a CPU
would not belong beside those of a GPU.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks import ROOT
from course_lib import device


def folder_name(name):
    """ "NVIDIA H200" -> "h200", "NVIDIA GeForce RTX 4090" -> "rtx-4090"."""
    words = re.sub(r"NVIDIA|GeForce|Tesla", " ", name).lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def commit():
    """The short name of the commit, "unknown" outside a clone."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def main():
    """Run the benchmarks that this machine can run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="folder under benchmarks/results; default: from the card's name")
    parser.add_argument("--commit", default=None)
    options = parser.parse_args()
    if not device.has_gpu():
        print("No NVIDIA GPU is visible here, so there is nothing to time. The stored rows are in benchmarks/results.")
        return 2
    folder = ROOT / "benchmarks" / "results" / (options.device or folder_name(device.current().name))
    name = options.commit or commit()
    families = (
        "softmax",
        "access",
        "bandwidth",
        "naive_attention",
        "flash_attention_1",
        "loop_order",
        "matmul",
        "decode",
        "decode_splits",
        "decode_graphs",
        "page_sizes",
        "paged_prefill",
    )
    scripts = [(family, folder / f"{family}.csv") for family in families]
    if shutil.which("ncu") or Path("/usr/local/cuda/bin/ncu").exists():
        scripts.append(("counters.read_counters", folder / "readings.csv"))
    status = 0
    for script, out in scripts:
        command = [sys.executable, "-m", f"benchmarks.{script}", "--out", str(out), "--commit", name]
        status = subprocess.run(command, cwd=ROOT).returncode or status
    return status


if __name__ == "__main__":
    sys.exit(main())
