"""Read memory counters with Nsight Compute on the GPU in hand and keep them as CSV.

    python3 benchmarks/read_counters.py --out tests/simt/data/h200_counters.csv --commit $(git rev-parse --short HEAD)

The script starts itself under ncu (``--launch`` runs the cases of counter_cases.py once each), so one command makes the
file; its head says which command, device, driver and versions made it.
"""

import argparse
import csv
import datetime
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

# column of the CSV -> metric of Nsight Compute
METRICS = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_requests": "smsp__inst_executed_op_shared_ld.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_requests": "smsp__inst_executed_op_shared_st.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "ldmatrix_requests": "smsp__inst_executed_op_ldsm.sum",
    "cp_async_requests": "smsp__inst_executed_op_ldgsts.sum",
    "cp_async_wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
    "cp_async_conflicts": "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
    "local_load_requests": "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum",
    "local_store_requests": "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum",
    "registers_per_thread": "launch__registers_per_thread",
}


def launch():
    """Run every case once, in order; ncu watches."""
    from counter_cases import CASES

    for case in CASES:
        case.launch("cuda").run()


def ncu_command():
    """The ncu command line; --clock-control none leaves the card as it is found."""
    from counter_cases import CASES

    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    names = "|".join(sorted({case.kernel for case in CASES}))
    return [
        ncu,
        "--clock-control",
        "none",
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--kernel-name-base",
        "function",
        "--kernel-name",
        f"regex:^({names})$",
        "--metrics",
        ",".join(METRICS.values()),
        sys.executable,
        str(Path(__file__).relative_to(ROOT)),
        "--launch",
    ]


def parse(text):
    """Rows of ncu's raw page: one dict of metric to number for each launch, in order, with the kernel's name."""
    start = text.index('"ID"')
    table = list(csv.DictReader(io.StringIO(text[start:])))
    launches = [row for row in table if row["ID"].strip()]  # the row without an ID holds the units
    return [
        {
            "kernel": row["Kernel Name"].split("(")[0],
            **{column: int(float(row[metric].replace(",", "") or 0)) for column, metric in METRICS.items()},
        }
        for row in launches
    ]


def head(command, commit):
    """Comment lines that say where the readings come from."""
    import torch
    from about import driver

    version = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=False).stdout
    shown = " ".join([Path(command[0]).name, *command[1:-3], "python3", *command[-2:]])
    build = [line for line in version.splitlines() if "Version" in line]
    return [
        f"# device {torch.cuda.get_device_name()} · driver {driver()} · torch {torch.__version__} · "
        f"CUDA {torch.version.cuda}",
        f"# Nsight Compute {build[0].strip() if build else 'unknown'}",
        f"# commit {commit} · {datetime.date.today().isoformat()}",
        f"# {shown}",
    ]


def main():
    """Read the counters and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launch", action="store_true", help="only launch the cases (what ncu runs)")
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "simt" / "data" / "h200_counters.csv")
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    options = parser.parse_args()
    if options.launch:
        launch()
        return
    from counter_cases import CASES

    command = ncu_command()
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode or '"ID"' not in done.stdout:
        sys.exit(f"ncu failed ({done.returncode}):\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    rows = parse(done.stdout)
    expected = [case.kernel for case in CASES]
    if [row["kernel"] for row in rows] != expected:
        sys.exit(f"ncu saw {[row['kernel'] for row in rows]}, expected {expected}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("\n".join(head(command, options.commit)) + "\n")
        writer = csv.DictWriter(file, ["case", "kernel", *METRICS], lineterminator="\n")
        writer.writeheader()
        writer.writerows({"case": case.name, **row} for case, row in zip(CASES, rows, strict=True))
    print(f"{len(rows)} readings in {options.out}")


if __name__ == "__main__":
    main()
