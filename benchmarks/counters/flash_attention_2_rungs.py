"""What Nsight Compute sees of every rung of kernels_cu/flash_attention_2, and of SDPA's flash kernel beside them.

    python3 -m benchmarks.counters.flash_attention_2_rungs --out …/h200/flash_attention_2_rungs.csv

The case file starts itself under ncu (``--launch`` runs every rung once). Counters, not times: ncu replays a launch and
leaves the clock alone, so a time belongs in flash_attention.csv. bfloat16, 16,384 tokens, num_heads * head_dim = 2048,
every query sees every key.
"""

import sys

from benchmarks.counters.ncu import Counters, main
from course_lib.cuda.steps import step
from course_lib.ops import flash_attention_2 as ops

NUM_TOKENS, MODEL_DIM, SEQ_LEN = 16384, 2048, 4096
HEAD_DIMS = (128, 64)
FLOAT32 = "01_loop_order"  # has no tensor cores: flash_attention_1.py and loop_order.py time it
FAMILY, PEER = "flash_attention_2", "sdpa_flash"
PEER_KERNEL = "flash_fwd_kernel"
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
# column of the CSV -> metric of Nsight Compute. A stall: warps that wait for that reason per issued instruction
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


def rungs():
    """The stems of the rungs."""
    return [f"{FAMILY}/{variant}" for variant in ops.VARIANTS if variant != FLOAT32]


def kernels_of(stems, peer_kernel):
    """The names of the functions that ncu watches: the first kernel of every rung, and the peer's."""
    return tuple(dict.fromkeys([*(step(stem).kernels[0] for stem in stems), peer_kernel]))


def cases():
    """Every rung and the peer at each head_dim, in the order of launch."""
    return cases_of([*rungs(), PEER])


def cases_of(names):
    """The variants of these names at each head_dim."""
    return [{"variant": name, "head_dim": head_dim, "seq_len": SEQ_LEN} for head_dim in HEAD_DIMS for name in names]


def launch(case):
    """Run one rung, or the peer, once."""
    launch_of(case, ops.plan)


def launch_of(case, plan):
    """Run one variant once: a backend of SDPA, or what `plan` gives for a rung."""
    import torch

    from benchmarks.harness.sdpa import BACKENDS, sdpa

    shape = (NUM_TOKENS // SEQ_LEN, MODEL_DIM // case["head_dim"], SEQ_LEN, case["head_dim"])
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    if case["variant"] in BACKENDS:
        sdpa(BACKENDS[case["variant"]])(q, k, v)
    else:
        plan(q, k, v, variant=case["variant"].rpartition("/")[2]).run()


COUNTERS = Counters(
    __doc__,
    __file__,
    kernels_of(rungs(), PEER_KERNEL),
    METRICS,
    cases,
    launch,
    compared=("instructions", "registers_per_thread", "ldmatrix_conflicts", "percent_tensor"),
    digits=3,
)

if __name__ == "__main__":
    sys.exit(main(COUNTERS))
