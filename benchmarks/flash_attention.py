"""Time every FlashAttention-2 kernel of the course beside SDPA's flash and cuDNN backends, forward and backward.

    python3 -m benchmarks.flash_attention --out benchmarks/results/h200/flash_attention.csv
    python3 -m benchmarks.flash_attention --dry      tiny sizes on a CPU, to try the script

16,384 tokens and num_heads * head_dim = 2048 in every row, as in FlashAttention's own benchmark. All variants of one
size are timed in turns, so that a change of the clock affects all of them; L2 is flushed before each run, and the GPU
is kept busy while the launch is being queued, so that no host time is counted. FLOP: 4 B H N^2 D forward, 2.5 times
that backward, half of it when causal. Every variant is checked against float64 before it is timed.
"""

import sys
from functools import partial

import torch

from benchmarks.harness import Benchmark, Variants, in_languages, largest_error, main
from benchmarks.harness.sdpa import BACKENDS, sdpa
from course_lib.ops import flash_attention_2 as ops

NUM_TOKENS, MODEL_DIM = 16384, 2048
SEQ_LENS = (1024, 2048, 4096, 8192, 16384)
FLOAT32 = "01_loop_order"  # in CUDA it takes float32 alone: loop_order.py times it
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5}  # of outputs
PEER = ("sdpa_flash", "torch")


def loads(dry):
    """Every size: all lengths in bfloat16, one length in float16."""
    if dry:
        sizes = [(64, 70, causal, "float32") for causal in (0, 1)]
    else:
        sizes = [
            (head_dim, seq_len, causal, dtype)
            for dtype in ("bfloat16", "float16")
            for head_dim in (64, 128)
            for causal in (0, 1)
            for seq_len in (SEQ_LENS if dtype == "bfloat16" else (4096,))
        ]
    return [
        {
            "direction": direction, "batch_size": 1 if dry else NUM_TOKENS // seq_len,
            "num_heads": 2 if dry else MODEL_DIM // head_dim, "head_dim": head_dim, "seq_len": seq_len,
            "causal": causal, "dtype": dtype,
        }
        for direction in ("forward", "backward")
        for head_dim, seq_len, causal, dtype in sizes
    ]  # fmt: skip


def ours(dry):
    """[(variant, language)] of the forward kernels that take the dtype of a load; float32 (dry) has Triton alone."""
    names = [name for name in in_languages("flash_attention_2", ops.VARIANTS) if name != (FLOAT32, "cuda")]
    return [(variant, language) for variant, language in names if not dry or language == "triton"]


def forwards(causal, dry):
    """{(variant, language): function(q, k, v) -> out}."""

    def course(q, k, v, variant, language):
        return ops.flash_attention_2(q, k, v, causal=causal, variant=variant, language=language)[0]

    return peers(causal, dry) | {
        (f"flash_attention_2/{variant}", language): partial(course, variant=variant, language=language)
        for variant, language in ours(dry)
    }


def backwards(causal, dry):
    """{(variant, language): function(q, k, v) -> out, to be differentiated}."""
    course = partial(ops.flash_attention, causal=causal, backend="triton")
    return peers(causal, dry) | {(ops.STEM_BACKWARD, "triton"): course}


def peers(causal, dry):
    """{(backend, "torch"): function(q, k, v) -> out}; none in a dry run, since a CPU has no such backends."""
    return {} if dry else {(name, "torch"): sdpa(backend, causal) for name, backend in BACKENDS.items()}


def wanted(tensors, causal, grad_out=None):
    """Attention of the last head of the last batch entry in float64: (out,), or (dq, dk, dv) when grad_out is given."""
    q, k, v = (x[-1, -1].detach().double().requires_grad_(grad_out is not None) for x in tensors)
    scores = (q @ k.T) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    out = scores.softmax(-1) @ v
    return (out,) if grad_out is None else torch.autograd.grad(out, (q, k, v), grad_out[-1, -1].double())


def error_of(got, want):
    """Largest error of the last head, for gradients relative to the largest number; infinity when anything is NaN."""
    pairs = [(mine[-1, -1], right) for mine, right in zip(got, want, strict=True)]
    return largest_error(got, pairs, scale=(lambda right: right.abs().max().item()) if len(want) > 1 else None)


def call_of(function, tensors, grad_out):
    """The function to time: the forward pass, or with grad_out the backward pass alone."""
    if grad_out is None:
        return lambda: (function(*tensors),)
    leaves = [x.detach().requires_grad_() for x in tensors]
    out = function(*leaves)
    return lambda: torch.autograd.grad(out, leaves, grad_out, retain_graph=True)


def rows_of(load, options):
    """The rows of one size and direction."""
    shape = tuple(load[name] for name in ("batch_size", "num_heads", "seq_len", "head_dim"))
    tensors = [torch.randn(shape, device=options.device, dtype=getattr(torch, load["dtype"])) for _ in range(3)]
    backward = load["direction"] == "backward"
    grad_out = torch.randn_like(tensors[0]) if backward else None
    check = partial(error_of, want=wanted(tensors, load["causal"], grad_out))
    limit = TOLERANCE[load["dtype"]] * (2 if backward else 1)
    variants = Variants(options)
    for name, function in (backwards if backward else forwards)(load["causal"], options.dry).items():
        columns = dict(zip(("variant", "language"), name, strict=True))
        variants.add(columns, partial(call_of, function, tensors, grad_out), check, limit, optional=name[1] == "torch")
    yield from variants.timed(load, speed)


def speed(row, median_ms, times, peer=PEER):
    """Columns of a timed row: the rate, and how it compares with a peer, here SDPA's flash backend."""
    flop = 4 * row["batch_size"] * row["num_heads"] * row["seq_len"] ** 2 * row["head_dim"]
    flop *= (0.5 if row["causal"] else 1.0) * (2.5 if row["direction"] == "backward" else 1.0)
    ratio = f"{times[peer].median_ms / median_ms:.3f}" if peer in times else ""
    return {"tflops": f"{flop / median_ms / 1e9:.1f}", f"ratio_to_{peer[0]}": ratio}


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, variants in turns, L2 flushed",
    keys=(
        "variant", "language", "direction", "batch_size", "num_heads", "head_dim", "seq_len", "causal", "dtype",
    ),
    values=("median_us", "low_us", "high_us", "tflops", "ratio_to_sdpa_flash", "max_error", "note"),
    loads=loads,
    rows=rows_of,
    shown=("median_us", "tflops", "ratio_to_sdpa_flash"),
    quick={"seq_len": (1024, 4096, 16384), "dtype": ("bfloat16",)},
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
