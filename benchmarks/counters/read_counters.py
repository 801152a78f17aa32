"""Read memory counters with Nsight Compute on the GPU in hand and keep them as CSV.

    python3 -m benchmarks.counters.read_counters --out tests/simt/data/h200_counters.csv --commit …

The script starts itself under ncu (``--launch`` runs the cases of counter_cases.py once each), so one command makes the
file; its head says which command, device, driver and versions made it.
"""

import csv
import datetime
import subprocess
import sys
from pathlib import Path

from benchmarks import ROOT
from benchmarks.counters import ncu

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
    from benchmarks.counters.counter_cases import CASES

    for case in CASES:
        case.launch("cuda").run()


def head(command, commit):
    """Comment lines that say where the readings come from."""
    import torch

    from benchmarks.harness.about import driver

    version = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=False).stdout
    shown = " ".join([Path(command[0]).name, *command[1:-4], "python3", *command[-3:]])
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
    parser = ncu.parser(__doc__)
    parser.set_defaults(out=ROOT / "tests" / "simt" / "data" / "h200_counters.csv")
    options = parser.parse_args()
    if options.launch:
        launch()
        return
    from benchmarks.counters.counter_cases import CASES

    command = ncu.command(__file__, sorted({case.kernel for case in CASES}), METRICS)
    found = ncu.read(command, METRICS)
    expected = [case.kernel for case in CASES]
    if [kernel for kernel, _ in found] != expected:
        sys.exit(f"ncu saw {[kernel for kernel, _ in found]}, expected {expected}")
    missing = [column for column in METRICS if any(row[column] == "" for _, row in found)]
    if missing:
        sys.exit(f"ncu has no number for {', '.join(missing)} on this card")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("\n".join(head(command, options.commit)) + "\n")
        writer = csv.DictWriter(file, ["case", "kernel", *METRICS], lineterminator="\n")
        writer.writeheader()
        for case, (kernel, row) in zip(CASES, found, strict=True):
            writer.writerow({"case": case.name, "kernel": kernel} | row)
    print(f"{len(found)} readings in {options.out}")


if __name__ == "__main__":
    main()
