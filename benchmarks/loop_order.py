"""Time both loop orders in float32, forward and backward: K and V outside (chapter 06) and Q outside (chapter 07).

    python3 -m benchmarks.loop_order --out benchmarks/results/h200/loop_order.csv
    python3 -m benchmarks.loop_order --dry     tiny sizes on a CPU, to try the script

The teaching kernels on CUDA, head_dim 64, full attention, TF32 off; inputs, check against float64 and timing are those
of flash_attention_1.py. `num_blocks` is the number of blocks of a launch of the walk; an H100 or H200 has 132
processors. `tflops` counts the products of the definition, 2 forward and 5 backward; dk_dv and dq of chapter 07 do 7.
"""

import sys

from benchmarks.flash_attention_1 import HEAD_DIM, inputs_of, measured, wanted
from benchmarks.harness import Benchmark, main
from course_lib.ops import flash_attention_1, flash_attention_1_backward, flash_attention_2

SIZES = ((16, 512), (264, 512), (16, 1024), (264, 1024), (16, 2048), (264, 2048), (16, 4096))  # num_heads, seq_len
BLOCK_M = BLOCK_N = 32


def loads(dry):
    return [
        {"num_heads": num_heads, "head_dim": HEAD_DIM, "seq_len": seq_len, "dtype": "float32"}
        for num_heads, seq_len in (((2, 40),) if dry else SIZES)
    ]


def kv_outside(q, k, v):
    """The forward pass of chapter 06, as a function that gives (out, lse)."""
    launch = flash_attention_1.plan(q, k, v, block_m=BLOCK_M, block_n=BLOCK_N)
    return lambda: (launch.run(), (launch.outputs[0], launch.outputs[3]))[1]


def q_outside(q, k, v):
    """The forward pass of chapter 07's first step, as a function that gives (out, lse)."""
    launch = flash_attention_2.plan(q, k, v, variant="01_loop_order", block_m=BLOCK_M, block_n=BLOCK_N)
    return lambda: (launch.run(), launch.outputs)[1]


def forward(plan):
    """prepare(q, k, v, d_out) of a forward pass; its function gives `out` alone, as the reference does."""

    def prepare(q, k, v, d_out):
        run = plan(q, k, v)
        return lambda: run()[:1]

    return prepare


def backward(plan, forward):
    """prepare(q, k, v, d_out) of a backward pass; the forward pass that it needs is run once."""

    def prepare(q, k, v, d_out):
        launches = plan(q, k, v, *forward(q, k, v)(), d_out)
        return lambda: (launches.run(), launches.outputs)[1]

    return prepare


def candidates(num_heads, seq_len):
    """[(variant, pass, blocks of the walk, prepare)]"""
    blocks = num_heads * -(-seq_len // BLOCK_M)
    kv_backward = backward(flash_attention_1_backward.plan, kv_outside)
    q_backward = backward(flash_attention_2.plan_backward, q_outside)
    return [
        ("attention/06_flash_attention_1", "forward", num_heads, forward(kv_outside)),
        ("flash_attention_2/01_loop_order", "forward", blocks, forward(q_outside)),
        ("attention/08_flash_attention_1_backward", "backward", num_heads, kv_backward),
        (flash_attention_2.STEM_BACKWARD, "backward", blocks, q_backward),
    ]


def rows_of(load, options):
    """The rows of one size."""
    num_heads, seq_len = load["num_heads"], load["seq_len"]
    tensors = inputs_of(load, options)
    want = wanted(*tensors)
    for variant, which, num_blocks, prepare in candidates(num_heads, seq_len):
        row = load | {"variant": variant, "language": "cuda", "pass": which, "num_blocks": num_blocks}
        flop = 2 * (2 if which == "forward" else 5) * num_heads * seq_len**2 * HEAD_DIM
        yield row | measured(prepare, tensors, want[which], flop, options)


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, L2 flushed between runs",
    keys=("variant", "language", "pass", "num_heads", "head_dim", "seq_len", "num_blocks", "dtype"),
    values=("median_us", "low_us", "high_us", "peak_bytes", "tflops", "max_error", "note"),
    loads=loads,
    rows=rows_of,
    shown=("median_us", "tflops"),
    quick={"seq_len": (1024,)},
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
