"""What Nsight Compute sees of every step of kernels_cu/matmul: traffic at each level, and how busy each unit is.

    python3 benchmarks/matmul_counters.py --out benchmarks/results/h200/matmul_counters.csv --commit …

The script starts itself under ncu (``--launch`` runs every step once). Counters, not times: ncu replays a launch and
leaves the clock alone, so a time belongs into matmul.csv. One size for all steps, square, random numbers.
"""

import argparse
import csv
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

SIZE = 2048
TRITON_TILES = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}  # autotune must not run
# column of the CSV -> metric of Nsight Compute
METRICS = {
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_bytes": "lts__t_bytes.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "shared_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "instructions": "smsp__inst_executed.sum",
    "tensor_instructions": "sm__inst_executed_pipe_tensor.sum",
    "registers_per_thread": "launch__registers_per_thread",
    "percent_tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "percent_fma": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "percent_issue": "smsp__issue_active.avg.pct_of_peak_sustained_elapsed",
    "percent_shared": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "percent_l2": "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    "percent_dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "percent_warps": "sm__warps_active.avg.pct_of_peak_sustained_elapsed",
}


def steps():
    """[(variant, language)] in the order in which they are launched."""
    from course_lib.ops.matmul import VARIANTS

    return [*((variant, "cuda") for variant in VARIANTS), ("08_pipelined", "triton")]


def launch(size):
    """Run every step once, in order; ncu watches."""
    import torch

    from course_lib.ops.matmul import HALF_VARIANTS, plan_matmul

    torch.manual_seed(0)
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    for variant, language in steps():
        operands = (a.half(), b.half()) if variant in HALF_VARIANTS else (a, b)
        plan_matmul(*operands, variant=variant, language=language, tiles=_tiles(language)).run()
    torch.cuda.synchronize()


def _tiles(language):
    return TRITON_TILES if language == "triton" else None


def ncu_command(size):
    """The ncu command line; --clock-control none leaves the card as it is found."""
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    form = ["--csv", "--page", "raw", "--print-units", "base", "--kernel-name-base", "function"]
    which = ["--kernel-name", "regex:^matmul_kernel$", "--metrics", ",".join(METRICS.values())]
    script = [str(Path(__file__).relative_to(ROOT)), "--launch", "--size", str(size)]
    return [ncu, "--clock-control", "none", *form, *which, sys.executable, *script]


def parse(text):
    """Rows of ncu's raw page, one dict of column to number for each launch, in order."""
    table = list(csv.DictReader(io.StringIO(text[text.index('"ID"') :])))
    launches = [row for row in table if row["ID"].strip()]  # the row without an ID holds the units
    return [{column: _number(row.get(metric)) for column, metric in METRICS.items()} for row in launches]


def _number(text):
    """ncu's number without its commas; nothing where the card has no such counter."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return ""
    return int(value) if value == int(value) else round(value, 2)


def main():
    """Read the counters and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launch", action="store_true", help="only launch the steps (what ncu runs)")
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    options = parser.parse_args()
    if options.launch:
        return launch(options.size)
    if not options.out:
        parser.error("--out: where to write the rows")
    from about import COLUMNS, versions

    done = subprocess.run(ncu_command(options.size), capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode or '"ID"' not in done.stdout:
        sys.exit(f"ncu failed ({done.returncode}):\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    found = parse(done.stdout)
    if len(found) != len(steps()):
        sys.exit(f"ncu saw {len(found)} launches; {len(steps())} were expected")
    about = versions(options.commit)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("# Nsight Compute, one launch each, clock left as it is; python3 benchmarks/matmul_counters.py\n")
        writer = csv.DictWriter(file, ["variant", "language", "size", *METRICS, *COLUMNS], lineterminator="\n")
        writer.writeheader()
        for (variant, language), row in zip(steps(), found, strict=True):
            writer.writerow({"variant": variant, "language": language, "size": options.size} | row | about)
    print(f"{len(found)} readings in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
