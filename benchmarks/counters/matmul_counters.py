"""What Nsight Compute sees of every step of kernels_cu/matmul: traffic at each level, and how busy each unit is.

    python3 -m benchmarks.counters.matmul_counters --out …/h200/matmul_counters.csv --commit …

The script starts itself under ncu (``--launch`` runs every step once). Counters, not times: ncu replays a launch and
leaves the clock alone, so a time belongs into matmul.csv. One size for all steps, square, random numbers.
"""

import sys

from benchmarks.counters import ncu

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


def main():
    """Read the counters and write the CSV."""
    parser = ncu.parser(__doc__)
    parser.add_argument("--size", type=int, default=SIZE)
    options = parser.parse_args()
    if options.launch:
        return launch(options.size)
    if not options.out:
        parser.error("--out: where to write the rows")
    command = ncu.command(__file__, ["matmul_kernel"], METRICS, "--size", str(options.size))
    found = [row for _, row in ncu.read(command, METRICS)]
    if len(found) != len(steps()):
        sys.exit(f"ncu saw {len(found)} launches; {len(steps())} were expected")
    rows = [
        {"variant": variant, "language": language, "size": options.size} | row
        for (variant, language), row in zip(steps(), found, strict=True)
    ]
    ncu.write(__file__, options, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
