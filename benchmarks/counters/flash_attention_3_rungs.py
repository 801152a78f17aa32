"""What Nsight Compute sees of every rung of kernels_cu/flash_attention_3, and of SDPA's cuDNN kernel beside them.

    python3 -m benchmarks.counters.flash_attention_3_rungs --out …/h200/flash_attention_3_rungs.csv

As flash_attention_2_rungs.py: counters, not times; bfloat16, 16,384 tokens, num_heads * head_dim = 2048, every query
sees every key. stall_wgmma: warps that wait for a product; stall_barrier: __syncthreads and named barriers;
stall_global_memory and stall_shared_memory hold the waits at mbarriers too.
"""

import sys

from benchmarks.counters import flash_attention_2_rungs as fa2
from benchmarks.counters.ncu import Counters, main
from course_lib.ops import flash_attention_3 as ops

PEER, PEER_KERNEL = "sdpa_cudnn", "cudnn_generated.*"
FA2_COLUMNS = (
    "instructions", "tensor_instructions", "shared_conflicts", "dram_read_bytes", "l2_bytes", "local_requests",
    "registers_per_thread", "percent_tensor", "percent_issue", "percent_special", "percent_warps",
    "stall_global_memory", "stall_shared_memory", "stall_math_pipe", "stall_barrier", "stall_fixed_latency",
)  # fmt: skip
METRICS = {name: fa2.METRICS[name] for name in FA2_COLUMNS} | {
    "stall_wgmma": fa2.STALL.format("gmma"),
    "stall_sleeping": fa2.STALL.format("sleeping"),
}


def rungs():
    """The stems of the rungs."""
    return [f"{ops.FAMILY}/{variant}" for variant in ops.VARIANTS]


def cases():
    """Every rung and the peer at each head_dim, in the order of launch."""
    return fa2.cases_of([*rungs(), PEER])


def launch(case):
    """Run one rung, or the peer, once."""
    fa2.launch_of(case, ops.plan)


COUNTERS = Counters(
    __doc__,
    __file__,
    fa2.kernels_of(rungs(), PEER_KERNEL),
    METRICS,
    cases,
    launch,
    compared=("instructions", "registers_per_thread", "percent_tensor"),
    digits=3,
)

if __name__ == "__main__":
    sys.exit(main(COUNTERS))
