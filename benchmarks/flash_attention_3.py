"""Time every FlashAttention-3 kernel of the course beside SDPA's cuDNN and flash backends, forward.

    python3 -m benchmarks.flash_attention_3 --out benchmarks/results/h200/flash_attention_3.csv
    python3 -m benchmarks.flash_attention_3 --dry      tiny sizes on a CPU, to try the script

Sizes, order, FLOP and checks are those of flash_attention.py: 16,384 tokens, num_heads * head_dim = 2048, variants in
turns. An H200 slows down when it reaches its power limit, so that only numbers of the same turn compare.
flash_attention_3/08_fp8 is the kernel alone, on tensors in e4m3; flash_attention_3_quantise the same with the launches
that quantise q, k and v. Their error is that of e4m3, which has 4 significant bits.
"""

import sys
from functools import partial

import torch

from benchmarks import flash_attention as fa2
from benchmarks.harness import Benchmark, Variants, launched, main
from course_lib.ops import flash_attention_2, flash_attention_3

PEER = ("sdpa_cudnn", "torch")
BEFORE, LANGUAGES = flash_attention_2.VARIANTS[-1], ("cuda", "triton")  # the last step of the chapter before
FP8_TOLERANCE = 0.3  # of outputs up to about 4, whose halves of a unit in the last place are up to 0.125
SEQ_LENS = fa2.SEQ_LENS


def loads(dry, direction="forward"):
    """Every size of a direction: all lengths in bfloat16, one length in float16."""
    chosen = [load for load in fa2.loads(dry) if load["direction"] == direction]
    return [load | {"head_dim": 64, "dtype": "float16"} for load in chosen] if dry else chosen


def forwards(causal, dry):
    """{(variant, language): function(q, k, v) -> out}."""

    def before(q, k, v, language):
        return flash_attention_2.flash_attention_2(q, k, v, causal=causal, variant=BEFORE, language=language)[0]

    def course(q, k, v, variant):
        return flash_attention_3.flash_attention_3(q, k, v, causal=causal, variant=variant)[0]

    last = {(f"flash_attention_2/{BEFORE}", language): partial(before, language=language) for language in LANGUAGES}
    ladder = {
        (f"flash_attention_3/{variant}", "cuda"): partial(course, variant=variant)
        for variant in flash_attention_3.VARIANTS
    }
    return fa2.peers(causal, dry) | last | ladder


def prepared_fp8(tensors, causal):
    """The function that runs 08_fp8 on tensors that are quantised now."""
    quantising = flash_attention_3.plan_quantise(*tensors)
    quantising.run()
    run = launched(plan_fp8(quantising, tensors, causal))
    return lambda: run()[:1]


def prepared_fp8_whole(tensors, causal):
    """The function that quantises and then runs 08_fp8."""
    quantising = flash_attention_3.plan_quantise(*tensors)
    run = launched(plan_fp8(quantising, tensors, causal))

    def whole():
        quantising.run()
        return run()[:1]

    return whole


def plan_fp8(quantising, tensors, causal):
    return flash_attention_3.plan_fp8(quantising.outputs, tensors[1].shape[2], tensors[0].dtype, causal=causal)


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
    fp8 = {flash_attention_3.STEM_FP8: prepared_fp8, flash_attention_3.FAMILY_QUANTISE: prepared_fp8_whole}
    for name, prepare in fp8.items():
        columns = {"variant": name, "language": "cuda"}
        variants.add(columns, partial(prepare, tensors, bool(load["causal"])), check, FP8_TOLERANCE)
    yield from variants.timed(load, partial(fa2.speed, peer=PEER))


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, variants in turns, L2 flushed",
    keys=fa2.BENCHMARK.keys,
    values=("median_us", "low_us", "high_us", "tflops", "ratio_to_sdpa_cudnn", "max_error", "note"),
    loads=loads,
    rows=rows_of,
    shown=("median_us", "tflops", "ratio_to_sdpa_cudnn"),
    quick=fa2.BENCHMARK.quick,
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
