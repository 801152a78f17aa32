"""What Nsight Compute sees of every rung of kernels_cu/flash_attention_2, and of SDPA's flash kernel beside them.

    python3 -m benchmarks.counters.flash_attention_2_rungs --out …/h200/flash_attention_2_rungs.csv --commit …

The script starts itself under ncu (``--launch`` runs every rung once). Counters, not times: ncu replays a launch and
leaves the clock alone, so a time belongs into flash_attention.csv. bfloat16, 16,384 tokens, num_heads * head_dim =
2048, every query sees every key.
"""

import sys

from benchmarks.counters import ncu

NUM_TOKENS, MODEL_DIM, SEQ_LEN = 16384, 2048, 4096
HEAD_DIMS = (128, 64)
LADDER = ("02_mma", "03_swizzled", "04_pipelined", "10_heavy_first")
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


def main():
    """Read the counters and write the CSV."""
    parser = ncu.parser(__doc__)
    options = parser.parse_args()
    if options.launch:
        return launch()
    if not options.out:
        parser.error("--out: where to write the rows")
    command = ncu.command(__file__, ["flash_attention_2_kernel", "flash_fwd_kernel"], METRICS)
    found = ncu.read(command, METRICS, digits=3)
    if len(found) != len(cases()):
        sys.exit(f"ncu saw {[kernel for kernel, _ in found]}; {len(cases())} launches were expected")
    rows = []
    for (variant, head_dim), (_, row) in zip(cases(), found, strict=True):
        name = variant if variant == PEER else f"flash_attention_2/{variant}"
        rows.append({"variant": name, "head_dim": head_dim, "seq_len": SEQ_LEN} | row)
    ncu.write(__file__, options, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
