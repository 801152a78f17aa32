"""Time attention in float32, forward and backward: step by step, with a fused middle, and FlashAttention-1; chapter 06.

    python3 -m benchmarks.flash_attention_1 --out benchmarks/results/h200/flash_attention_1.csv
    python3 -m benchmarks.flash_attention_1 --dry     tiny sizes on a CPU, to try the script

torch                            scores, scale, softmax and weights times v as torch's own kernels, and their autograd
01_naive, 02_fused_softmax       the course's kernels of chapter 05, forward only
06_flash_attention_1             forward; 08_flash_attention_1_backward: its backward, given out and lse

Full attention, head_dim 64, TF32 off. Every variant is checked against float64 on its first head in the same run, at
every size, before it is timed. `peak_bytes` is the peak of the allocator beyond q, k, v and d_out: in a row of the
backward pass for both passes together. `tflops` counts the products that the variant does: 2 forward, 4 backward for
torch, which keeps the weights, 5 for FlashAttention-1, which recomputes them. Variants that would take too long or too
much memory are left out, with the reason in `note`.
"""

import sys
from functools import partial

import torch

from benchmarks.harness import Benchmark, alone, largest_error, main
from course_lib.ops import attention as unfused
from course_lib.ops import flash_attention_1 as forward_ops
from course_lib.ops import flash_attention_1_backward as backward_ops

HEAD_DIM = 64
HEADS, DRY_HEADS = (16, 264), (2,)  # of all batch entries together; an H100 or H200 has 132 processors
SEQ_LENS, DRY_SEQ_LENS = (512, 1024, 2048, 4096), (32, 64)
BLOCKS_N, SWEEP_AT = (16, 64), 2048  # further tiles of the forward kernel, at this length
LONGEST_MS = 800.0  # variants that would take longer are left out
TOLERANCE = 2e-5  # of the largest |reference|, at least 1
SECONDS = 0.3  # of timing for each variant, at least 3 runs
LANGUAGES = ("cuda", "triton")
PRODUCTS = {"torch": (2, 4)}  # variant -> products forward, backward; all others (2, 5)


def loads(dry):
    """Every size, short sequences first: `expected_ms` extrapolates from the length before."""
    return [
        {"num_heads": num_heads, "head_dim": HEAD_DIM, "seq_len": seq_len, "dtype": "float32"}
        for seq_len in (DRY_SEQ_LENS if dry else SEQ_LENS)
        for num_heads in (DRY_HEADS if dry else HEADS)
    ]


def by_steps(q, k, v):
    """softmax(q k^T / sqrt(head_dim)) v in four kernels of torch."""
    return torch.softmax((q @ k.mT) * q.shape[-1] ** -0.5, dim=-1) @ v


def torch_forward(q, k, v, d_out):
    return lambda: (by_steps(q, k, v),)


def torch_backward(q, k, v, d_out):
    inputs = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
    out = by_steps(*inputs)
    return lambda: torch.autograd.grad(out, inputs, d_out, retain_graph=True)


def course(plan, **options):
    """A forward pass of the course: planned once, launched at every call."""

    def prepare(q, k, v, d_out):
        launch = plan(q, k, v, **options)
        return lambda: (launch.run(), launch.outputs[:1])[1]

    return prepare


def course_backward(language):
    """FlashAttention-1 backward; the forward pass that it needs is run once, by the same language."""

    def prepare(q, k, v, d_out):
        forward = forward_ops.plan(q, k, v, language=language)
        forward.run()
        launches = backward_ops.plan(q, k, v, forward.outputs[0], forward.outputs[3], d_out, language=language)
        return lambda: (launches.run(), launches.outputs)[1]

    return prepare


def candidates(seq_len, num_heads):
    """[(variant, language, pass, block_n or None, prepare)]: prepare(q, k, v, d_out) gives the function to time."""
    usual, flash = forward_ops.BLOCK_N, "06_flash_attention_1"
    rows = [("torch", "torch", "forward", None, torch_forward), ("torch", "torch", "backward", None, torch_backward)]
    for lang in LANGUAGES:
        for variant in ("01_naive", "02_fused_softmax"):
            rows.append((variant, lang, "forward", None, course(unfused.plan, variant=variant, language=lang)))
        rows.append((flash, lang, "forward", usual, course(forward_ops.plan, language=lang)))
        rows.append(("08_flash_attention_1_backward", lang, "backward", usual, course_backward(lang)))
    if seq_len == SWEEP_AT and num_heads == HEADS[-1]:  # enough blocks for every processor
        rows += [(flash, "cuda", "forward", n, course(forward_ops.plan, block_n=n)) for n in BLOCKS_N]
    return rows


def inputs_of(load, options):
    """[q, k, v, d_out]"""
    shape = (1, load["num_heads"], load["seq_len"], HEAD_DIM)
    return [torch.randn(shape, device=options.device) for _ in range(4)]


def wanted(q, k, v, d_out):
    """{"forward": (out,), "backward": (dq, dk, dv)} of the first head, float64."""
    inputs = [tensor[:, :1].double().requires_grad_() for tensor in (q, k, v)]
    out = by_steps(*inputs)
    return {"forward": (out.detach(),), "backward": torch.autograd.grad(out, inputs, d_out[:, :1].double())}


def error_of(outputs, want):
    """Largest error on the first head as a share of the largest |reference|, at least 1; inf where not finite."""
    pairs = [(mine[:, :1], right) for mine, right in zip(outputs, want, strict=True)]
    return largest_error(outputs, pairs, scale=lambda right: max(1.0, right.abs().max().item()))


def measured(prepare, tensors, want, flop, options):
    """The measured columns of one row; `prepare` takes the tensors."""
    return alone(
        lambda: prepare(*tensors),
        partial(error_of, want=want),
        TOLERANCE,
        options,
        derived=lambda median_ms: {"tflops": f"{flop / median_ms / 1e9:.3f}"},
        seconds=SECONDS,
    )


def expected_ms(earlier, key):
    """Milliseconds of a variant, four times those of the length before; 0 where that was not measured."""
    return 4 * earlier.get(key, 0.0)


def rows_of(load, options):
    """The rows of one size."""
    num_heads, seq_len = load["num_heads"], load["seq_len"]
    tensors = inputs_of(load, options)
    want = wanted(*tensors)
    for variant, language, which, block_n, prepare in candidates(seq_len, num_heads):
        row = load | {"variant": variant, "language": language, "pass": which, "block_n": block_n}
        flop = 2 * PRODUCTS.get(variant, (2, 5))[which == "backward"] * num_heads * seq_len**2 * HEAD_DIM
        key = (num_heads, variant, language, which, block_n)
        expected = expected_ms(options.earlier, key)
        if expected > LONGEST_MS:
            row["note"] = f"left out: about {expected / 1e3:.0f} s a run, four times the length before"
        else:
            row |= measured(prepare, tensors, want[which], flop, options)
        options.earlier[key] = float(row["median_us"]) / 1e3 if row.get("median_us") else expected
        yield row


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, L2 flushed between runs; peak_bytes: beyond q, k, v and d_out, of both passes in a row of "
    "the backward pass",
    keys=("variant", "language", "pass", "num_heads", "head_dim", "seq_len", "block_n", "dtype"),
    values=("median_us", "low_us", "high_us", "peak_bytes", "tflops", "max_error", "note"),
    loads=loads,
    rows=rows_of,
    shown=("median_us", "tflops", "peak_bytes"),
    quick={"seq_len": (1024,)},
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
