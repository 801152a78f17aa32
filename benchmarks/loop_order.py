"""Time both loop orders in float32, forward and backward: K and V outside (chapter 06) and Q outside (chapter 07).

    python3 -m benchmarks.loop_order --out benchmarks/results/h200/loop_order.csv --commit …
    python3 -m benchmarks.loop_order --dry --out /tmp/dry.csv     tiny sizes on a CPU, to try the script

The teaching kernels on CUDA, head_dim 64, full attention, TF32 off; inputs, check against float64 and timing are those
of benchmarks/flash_attention_1.py. `num_blocks` is what a launch of the walk has; an H100 or H200 has 132 processors.
`tflops` counts the products of the definition, 2 forward and 5 backward; dk_dv and dq of chapter 07 do 7.
"""

import csv
import sys
import time

import torch

from benchmarks.flash_attention_1 import HEAD_DIM, forward_ops, measured, parsed, wanted
from benchmarks.harness.about import COLUMNS as ABOUT
from benchmarks.harness.about import versions
from course_lib import cuda
from course_lib.ops import flash_attention_1_backward as backward_1
from course_lib.ops import flash_attention_2

SIZES = [(16, 512), (264, 512), (16, 1024), (264, 1024), (16, 2048), (264, 2048), (16, 4096)]  # heads, length
BLOCK_M = BLOCK_N = 32
ENTRY = "flash_attention_2_kernel"
COLUMNS = [
    "variant", "language", "pass", "num_heads", "head_dim", "seq_len", "num_blocks", "dtype", "median_us", "low_us",
    "high_us", "peak_bytes", "tflops", "max_error", "note", *ABOUT,
]  # fmt: skip


def loop_order_forward(q, k, v, d_out):
    """One launch of flash_attention_2/01_loop_order, and its lse."""
    defines = {"HEAD_DIM": HEAD_DIM, "BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N}
    kernel = cuda.load("flash_attention_2/01_loop_order.cu", ENTRY, defines=defines)
    out, lse = torch.empty_like(q), q.new_empty(q.shape[:3])
    arguments = (q, k, v, out, lse, q.shape[1] // k.shape[1], q.shape[2], k.shape[2], HEAD_DIM**-0.5, 0)
    grid = q.shape[0] * q.shape[1] * -(-q.shape[2] // BLOCK_M)
    return lambda: (kernel(grid, 128, *arguments), (out, lse))[1]


def flash_1_forward(q, k, v, d_out):
    """The forward pass of chapter 06, out and lse."""
    launch = forward_ops.plan(q, k, v, block_m=BLOCK_M, block_n=BLOCK_N)
    return lambda: (launch.run(), (launch.outputs[0], launch.outputs[3]))[1]


def backward(plan, forward):
    """A backward pass; the forward pass that it needs is run once."""

    def prepare(q, k, v, d_out):
        launches = plan(q, k, v, *forward(q, k, v, d_out)(), d_out)
        return lambda: (launches.run(), launches.outputs)[1]

    return prepare


def only_out(prepare):
    """The same with `out` alone, which is what the reference has."""
    return lambda *tensors: (lambda run: lambda: run()[:1])(prepare(*tensors))


def candidates(num_heads, seq_len):
    """[(variant, pass, blocks of the walk, prepare)]"""
    tiles = -(-seq_len // BLOCK_M)
    return [
        ("attention/06_flash_attention_1", "forward", num_heads, only_out(flash_1_forward)),
        ("flash_attention_2/01_loop_order", "forward", num_heads * tiles, only_out(loop_order_forward)),
        ("attention/08_flash_attention_1_backward", "backward", num_heads, backward(backward_1.plan, flash_1_forward)),
        (
            "flash_attention_2_backward/01_two_walks",
            "backward",
            num_heads * tiles,
            backward(flash_attention_2.plan_backward, loop_order_forward),
        ),
    ]


def rows_of(num_heads, seq_len, options):
    """The rows of one size."""
    tensors = [torch.randn(1, num_heads, seq_len, HEAD_DIM, device=options.device) for _ in range(4)]
    want = wanted(*tensors)
    for variant, which, num_blocks, prepare in candidates(num_heads, seq_len):
        row = {"variant": variant, "language": "cuda", "pass": which, "num_heads": num_heads, "head_dim": HEAD_DIM}
        row |= {"seq_len": seq_len, "num_blocks": num_blocks, "dtype": "float32", "note": ""}
        flop = 2 * (2 if which == "forward" else 5) * num_heads * seq_len**2 * HEAD_DIM
        yield row | measured(prepare, tensors, want[which], flop, options)


def main():
    """Time everything and write the CSV."""
    options, began = parsed(), time.perf_counter()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    about = versions(options.commit, on_gpu=not options.dry)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("# medians of CUDA events, L2 flushed between runs; python3 -m benchmarks.loop_order\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for num_heads, seq_len in [(2, 40)] if options.dry else SIZES:
            if time.perf_counter() - began > options.seconds:
                print(f"N={seq_len}, {num_heads} heads: not begun, {options.seconds} s are over")
                continue
            for row in rows_of(num_heads, seq_len, options):
                writer.writerow(row | about)
                file.flush()
                name = f"H={num_heads:<4} N={seq_len:<5} {row['variant']:<42}"
                print(f"{time.perf_counter() - began:5.1f} s  {name} {row['median_us']:>10} us", flush=True)


if __name__ == "__main__":
    sys.exit(main())
