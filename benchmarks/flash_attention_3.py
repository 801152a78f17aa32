"""Time every FlashAttention-3 kernel of the course beside SDPA's cuDNN and flash backends, forward.

    python3 -m benchmarks.flash_attention_3 --out benchmarks/results/h200/flash_attention_3.csv
    python3 -m benchmarks.flash_attention_3 --dry      tiny sizes on a CPU, to try the script

Sizes, order, FLOP and checks are those of flash_attention.py: 16,384 tokens, num_heads * head_dim = 2048, variants in
turns. An H200 slows down when it reaches its power limit, so that only numbers of the same turn compare.
"""

import sys
from functools import partial

import torch

from benchmarks import flash_attention as fa2
from benchmarks.harness import Benchmark, Variants, main
from course_lib.ops import flash_attention_2, flash_attention_3

PEER = ("sdpa_cudnn", "torch")
SEQ_LENS = fa2.SEQ_LENS


def loads(dry):
    """Every size: all lengths in bfloat16, one length in float16."""
    forward = [load for load in fa2.loads(dry) if load["direction"] == "forward"]
    return [load | {"head_dim": 64, "dtype": "float16"} for load in forward] if dry else forward


def forwards(causal, dry):
    """{(variant, language): function(q, k, v) -> out}."""

    def course(q, k, v, ops, variant):
        call = flash_attention_3.flash_attention_3 if ops == 3 else flash_attention_2.flash_attention_2
        return call(q, k, v, causal=causal, variant=variant)[0]

    before = flash_attention_2.VARIANTS[-1]
    ladder = {f"flash_attention_2/{before}": partial(course, ops=2, variant=before)} | {
        f"flash_attention_3/{variant}": partial(course, ops=3, variant=variant)
        for variant in flash_attention_3.VARIANTS
    }
    return fa2.peers(causal, dry) | {(name, "cuda"): call for name, call in ladder.items()}


def rows_of(load, options):
    """The rows of one size."""
    shape = tuple(load[name] for name in ("batch_size", "num_heads", "seq_len", "head_dim"))
    tensors = [torch.randn(shape, device=options.device, dtype=getattr(torch, load["dtype"])) for _ in range(3)]
    check = partial(fa2.error_of, want=fa2.wanted(tensors, load["causal"]))
    variants = Variants(options)
    for name, function in forwards(load["causal"], options.dry).items():
        columns = dict(zip(("variant", "language"), name, strict=True))
        call, limit = partial(fa2.call_of, function, tensors, None), fa2.TOLERANCE[load["dtype"]]
        variants.add(columns, call, check, limit, optional=name[1] == "torch")
    yield from variants.timed(load, speed)


def speed(row, median_ms, times):
    """Columns of a timed row: the rate, and how it compares with SDPA's cuDNN backend."""
    flop = 4 * row["batch_size"] * row["num_heads"] * row["seq_len"] ** 2 * row["head_dim"]
    flop *= 0.5 if row["causal"] else 1.0
    ratio = f"{times[PEER].median_ms / median_ms:.3f}" if PEER in times else ""
    return {"tflops": f"{flop / median_ms / 1e9:.1f}", "ratio_to_sdpa_cudnn": ratio}


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, variants in turns, L2 flushed",
    keys=(
        "variant", "language", "direction", "batch_size", "num_heads", "head_dim", "seq_len", "causal", "dtype",
    ),
    values=("median_us", "low_us", "high_us", "tflops", "ratio_to_sdpa_cudnn", "max_error", "note"),
    loads=loads,
    rows=rows_of,
    shown=("median_us", "tflops", "ratio_to_sdpa_cudnn"),
    quick={"seq_len": (1024, 4096, 16384), "dtype": ("bfloat16",)},
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
