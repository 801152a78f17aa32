"""What Nsight Compute sees of every rung of kernels_cu/flash_attention_2, and of SDPA's flash kernel beside them.

    python3 benchmarks/flash_attention_2_rungs.py --out benchmarks/results/h200/flash_attention_2_rungs.csv --commit …

The script starts itself under ncu (``--launch`` runs every rung once). Counters, not times: ncu replays a launch and
leaves the clock alone, so a time belongs into flash_attention.csv. bfloat16, 16,384 tokens, num_heads * head_dim =
2048, every query sees every key.
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

NUM_TOKENS, MODEL_DIM, SEQ_LEN = 16384, 2048, 4096
HEAD_DIMS = (128, 64)
LADDER = ("02_mma", "03_swizzled", "04_pipelined", "05_tuned")
PEER = "sdpa_flash"
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
# column of the CSV -> metric of Nsight Compute. A stall column: warps that wait for that reason, an issued instruction
METRICS = {
    "instructions": "smsp__inst_executed.sum",
    "tensor_instructions": "sm__inst_executed_pipe_tensor.sum",
    "ldmatrix_requests": "smsp__inst_executed_op_ldsm.sum",
    "ldmatrix_wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum",
    "ldmatrix_conflicts": "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum",
    "shared_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "l2_bytes": "lts__t_bytes.sum",
    "local_requests": "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum",
    "registers_per_thread": "launch__registers_per_thread",
    "percent_tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "percent_issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "percent_shared": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_active",
    "percent_special": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "percent_warps": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "stall_global_memory": STALL.format("long_scoreboard"),
    "stall_shared_memory": STALL.format("short_scoreboard"),
    "stall_shared_queue": STALL.format("mio_throttle"),
    "stall_math_pipe": STALL.format("math_pipe_throttle"),
    "stall_barrier": STALL.format("barrier"),
    "stall_fixed_latency": STALL.format("wait"),
}


def cases():
    """[(variant, head_dim)] in the order in which they are launched."""
    return [(variant, head_dim) for head_dim in HEAD_DIMS for variant in (*LADDER, PEER)]


def launch():
    """Run every case once, in order; ncu watches."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from course_lib.ops import flash_attention_2

    torch.manual_seed(0)
    for variant, head_dim in cases():
        shape = (NUM_TOKENS // SEQ_LEN, MODEL_DIM // head_dim, SEQ_LEN, head_dim)
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        if variant == PEER:
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                torch.nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            flash_attention_2.plan(q, k, v, variant=variant).run()
        torch.cuda.synchronize()


def ncu_command():
    """The ncu command line; --clock-control none leaves the card as it is found."""
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    form = ["--csv", "--page", "raw", "--print-units", "base", "--kernel-name-base", "function"]
    which = [
        "--kernel-name",
        "regex:^(flash_attention_2_kernel|flash_fwd_kernel)$",
        "--metrics",
        ",".join(METRICS.values()),
    ]
    return [
        ncu,
        "--clock-control",
        "none",
        *form,
        *which,
        sys.executable,
        str(Path(__file__).relative_to(ROOT)),
        "--launch",
    ]


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
    return int(value) if value == int(value) else round(value, 3)


def main():
    """Read the counters and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launch", action="store_true", help="only launch the rungs (what ncu runs)")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    options = parser.parse_args()
    if options.launch:
        return launch()
    if not options.out:
        parser.error("--out: where to write the rows")
    from about import COLUMNS, versions

    done = subprocess.run(ncu_command(), capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode or '"ID"' not in done.stdout:
        sys.exit(f"ncu failed ({done.returncode}):\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    found = parse(done.stdout)
    if len(found) != len(cases()):
        sys.exit(f"ncu saw {len(found)} launches; {len(cases())} were expected:\n{done.stdout[-3000:]}")
    about = versions(options.commit)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write(
            "# Nsight Compute, one launch each, clock left as it is; python3 benchmarks/flash_attention_2_rungs.py\n"
        )
        writer = csv.DictWriter(file, ["variant", "head_dim", "seq_len", *METRICS, *COLUMNS], lineterminator="\n")
        writer.writeheader()
        for (variant, head_dim), row in zip(cases(), found, strict=True):
            name = variant if variant == PEER else f"flash_attention_2/{variant}"
            writer.writerow({"variant": name, "head_dim": head_dim, "seq_len": SEQ_LEN} | row | about)
    print(f"{len(found)} readings in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
