"""Time the backward pass of FlashAttention-3 beside FlashAttention-2's and SDPA's cuDNN and flash backends.

    python3 -m benchmarks.flash_attention_3_backward --out benchmarks/results/h200/flash_attention_3_backward.csv
    python3 -m benchmarks.flash_attention_3_backward --dry      tiny sizes on a CPU, to try the script

Sizes, order, FLOP and checks are those of flash_attention.py: 16,384 tokens, num_heads * head_dim = 2048, variants in
turns, 10 B H N^2 D FLOP, half of it when causal. The time of the course's kernels is that of all launches.
"""

import sys
from functools import partial

import torch

from benchmarks import flash_attention as fa2
from benchmarks import flash_attention_3 as fa3
from benchmarks.harness import Benchmark, Variants, launched, main
from course_lib.ops import flash_attention_2
from course_lib.ops import flash_attention_3 as ops


def backwards(causal, dry):
    """{(variant, language): function(tensors, grad_out) that gives the function to time, which returns dq, dk, dv}."""
    before = partial(flash_attention_2.flash_attention, causal=causal, backend="triton")
    peers = fa2.peers(causal, dry) | ({} if dry else {(flash_attention_2.STEM_BACKWARD, "triton"): before})
    calls = {name: partial(fa2.call_of, function) for name, function in peers.items()}
    return calls | {(ops.STEM_BACKWARD, "cuda"): partial(course, causal)}


def course(causal, tensors, grad_out):
    """The three launches of the backward pass, of what the forward pass returned."""
    out, lse = ops.flash_attention_3(*tensors, causal=causal)
    return launched(ops.plan_backward(*tensors, out, lse, grad_out, causal=causal), poison=3)


def rows_of(load, options):
    """The rows of one size."""
    shape = tuple(load[name] for name in ("batch_size", "num_heads", "seq_len", "head_dim"))
    *tensors, grad_out = (
        torch.randn(shape, device=options.device, dtype=getattr(torch, load["dtype"])) for _ in range(4)
    )
    check = partial(fa2.error_of, want=fa2.wanted(tensors, load["causal"], grad_out))
    variants = Variants(options)
    for name, prepare in backwards(load["causal"], options.dry).items():
        columns = dict(zip(("variant", "language"), name, strict=True))
        call, limit = partial(prepare, tensors, grad_out), 2 * fa2.TOLERANCE[load["dtype"]]
        variants.add(columns, call, check, limit, optional=name[1] == "torch")
    yield from variants.timed(load, partial(fa2.speed, peer=fa3.PEER))


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, variants in turns, L2 flushed",
    keys=fa2.BENCHMARK.keys,
    values=fa3.BENCHMARK.values,
    loads=partial(fa3.loads, direction="backward"),
    rows=rows_of,
    shown=("median_us", "tflops", "ratio_to_sdpa_cudnn"),
    quick=fa2.BENCHMARK.quick,
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
