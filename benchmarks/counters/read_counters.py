"""Read memory counters with Nsight Compute on the GPU in hand and keep them as CSV.

    python3 -m benchmarks.counters.read_counters --out tests/simt/data/h200_counters.csv

The script starts itself under ncu (``--launch`` runs the cases of counter_cases.py once each), so one command makes the
file; its head names that command, device, driver and versions.
"""

import datetime
import subprocess
import sys
from pathlib import Path

from benchmarks.counters import ncu
from benchmarks.counters.compare_counters import READINGS
from benchmarks.counters.counter_cases import CASES
from benchmarks.harness.about import commit, driver
from benchmarks.harness.rows import stored

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


def head(command, commit):
    """Comment lines that say where the readings come from."""
    import torch

    version = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=False).stdout
    shown = " ".join([Path(command[0]).name, *command[1:-4], "python3", *command[-3:]])
    build = [line for line in version.splitlines() if "Version" in line]
    return [
        f"device {torch.cuda.get_device_name()} · driver {driver()} · torch {torch.__version__} · "
        f"CUDA {torch.version.cuda}",
        f"Nsight Compute {build[0].strip() if build else 'unknown'}",
        f"commit {commit} · {datetime.date.today().isoformat()}",
        shown,
    ]


def main():
    """Read the counters and write the CSV."""
    options = ncu.parser_of(__doc__, __file__).parse_args()
    if options.launch:
        return ncu.run_all(lambda case: case.launch("cuda").run(), CASES)
    command = ncu.command(__file__, sorted({case.kernel for case in CASES}), METRICS)
    found = ncu.read(command, METRICS)
    expected = [case.kernel for case in CASES]
    if [kernel for kernel, _ in found] != expected:
        sys.exit(f"ncu saw {[kernel for kernel, _ in found]}, expected {expected}")
    missing = [column for column in METRICS if any(row[column] == "" for _, row in found)]
    if missing:
        sys.exit(f"ncu has no number for {', '.join(missing)} on this card")
    out = options.out or READINGS
    with stored(out, head(command, options.commit or commit()), ["case", "kernel", *METRICS]) as write:
        for case, (kernel, row) in zip(CASES, found, strict=True):
            write({"case": case.name, "kernel": kernel} | row)
    print(f"{len(found)} readings in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
