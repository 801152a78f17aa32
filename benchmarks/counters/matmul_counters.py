"""What Nsight Compute sees of every step of kernels_cu/matmul: traffic at each level, and how busy each unit is.

    python3 -m benchmarks.counters.matmul_counters --out …/h200/matmul_counters.csv

The case file starts itself under ncu (``--launch`` runs every step once). Counters, not times: ncu replays a launch and
leaves the clock alone, so a time belongs in matmul.csv. One size for all steps, square, random numbers.
"""

import sys

from benchmarks.counters.ncu import Counters, main
from benchmarks.harness import in_languages
from course_lib.ops.matmul import HALF_VARIANTS, VARIANTS, plan_matmul

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


def cases():
    """Every step, in the order of launch."""
    steps = in_languages("matmul", VARIANTS)
    return [{"variant": variant, "language": language, "size": SIZE} for variant, language in steps]


def launch(case):
    """Run one step once."""
    import torch

    dtype = torch.float16 if case["variant"] in HALF_VARIANTS else torch.float32
    a, b = (torch.randn(case["size"], case["size"], device="cuda").to(dtype) for _ in range(2))
    tiles = TRITON_TILES if case["language"] == "triton" else None
    plan_matmul(a, b, variant=case["variant"], language=case["language"], tiles=tiles).run()


COUNTERS = Counters(__doc__, __file__, ("matmul_kernel",), METRICS, cases, launch)

if __name__ == "__main__":
    sys.exit(main(COUNTERS))
