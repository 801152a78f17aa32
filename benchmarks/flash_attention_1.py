"""Time attention in float32, forward and backward: step by step, with a fused middle, and FlashAttention-1; chapter 06.

    python3 -m benchmarks.flash_attention_1 --out benchmarks/results/h200/flash_attention_1.csv --commit …
    python3 -m benchmarks.flash_attention_1 --dry --out /tmp/dry.csv     tiny sizes on a CPU, to try the script

torch                            scores, scale, softmax and weights times v as torch's own kernels, and their autograd
01_naive, 02_fused_softmax       the course's kernels of chapter 05, forward only
06_flash_attention_1             forward; 08_flash_attention_1_backward: its backward, given out and lse

Full attention, head_dim 64, TF32 off. Every variant is checked against float64 on its first head in the same run, at
every size, before it is timed. `peak_bytes` is what the allocator held at most beyond q, k, v and d_out: in a
row of the backward pass for both passes together. `tflops` counts the products that the variant does: 2 forward, 4
backward for torch, which kept the weights, 5 for FlashAttention-1, which makes them again. What would take too long or
too much memory is left out, with the reason in `note`.
"""

import argparse
import csv
import os
import sys
import time
from pathlib import Path

import torch

from benchmarks import ROOT
from benchmarks.harness.about import COLUMNS as ABOUT
from benchmarks.harness.about import versions
from course_lib import measure
from course_lib.ops import attention as unfused
from course_lib.ops import flash_attention_1 as forward_ops
from course_lib.ops import flash_attention_1_backward as backward_ops

HEAD_DIM = 64
HEADS = (16, 264)  # of all batch entries together; an H100 or H200 has 132 processors
SEQ_LENS = (512, 1024, 2048, 4096)
BLOCKS_N, SWEEP_AT = (16, 64), 2048  # further tiles of the forward kernel, at this length
DRY = {"heads": (2,), "seq_lens": (32, 64)}
LONGEST_MS = 800.0  # what would take longer is left out
TOLERANCE = 2e-5  # of the largest |reference|, at least 1
LANGS = ("cuda", "triton")
PRODUCTS = {"torch": (2, 4)}  # variant -> products forward, backward; all others (2, 5)
COLUMNS = [
    "variant", "language", "pass", "num_heads", "head_dim", "seq_len", "block_n", "dtype", "median_us", "low_us",
    "high_us", "peak_bytes", "tflops", "max_error", "note", *ABOUT,
]  # fmt: skip


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
    """[(variant, language, pass, block_n or None, prepare)]: prepare(q, k, v, d_out) gives what is timed."""
    usual, flash = forward_ops.BLOCK_N, "06_flash_attention_1"
    rows = [("torch", "torch", "forward", None, torch_forward), ("torch", "torch", "backward", None, torch_backward)]
    for lang in LANGS:
        for variant in ("01_naive", "02_fused_softmax"):
            rows.append((variant, lang, "forward", None, course(unfused.plan, variant=variant, language=lang)))
        rows.append((flash, lang, "forward", usual, course(forward_ops.plan, language=lang)))
        rows.append(("08_flash_attention_1_backward", lang, "backward", usual, course_backward(lang)))
    if seq_len == SWEEP_AT and num_heads == HEADS[-1]:  # where the card is full
        rows += [(flash, "cuda", "forward", n, course(forward_ops.plan, block_n=n)) for n in BLOCKS_N]
    return rows


def wanted(q, k, v, d_out):
    """{"forward": (out,), "backward": (dq, dk, dv)} of the first head, float64."""
    inputs = [tensor[:, :1].double().requires_grad_() for tensor in (q, k, v)]
    out = by_steps(*inputs)
    return {"forward": (out.detach(),), "backward": torch.autograd.grad(out, inputs, d_out[:, :1].double())}


def error_of(given, want):
    """Largest error on the first head as a share of the largest |reference|, at least 1; inf where not finite."""
    if not all(bool(torch.isfinite(tensor).all()) for tensor in given):
        return float("inf")
    pairs = zip(given, want, strict=True)
    return max(((a[:, :1].double() - b).abs().max() / b.abs().max().clamp(min=1)).item() for a, b in pairs)


def seconds_of(run, on_gpu):
    """One call by the host's clock: only to decide how often to repeat it."""
    began = time.perf_counter()
    run()
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - began


def measured(prepare, tensors, want, flop, options):
    """The numbers of one row: checked, then peak memory, then the median time."""
    on_gpu = tensors[0].is_cuda
    run = prepare(*tensors)
    error = error_of(run(), want)
    if not error <= TOLERANCE:
        sys.exit(f"wrong by {error}: nothing wrong is timed")
    num_runs = max(3, min(options.runs, int(0.3 / seconds_of(run, on_gpu))))
    timing = measure.median_time(run, num_runs=num_runs, num_warmup=0, on_gpu=on_gpu)
    del run
    peak = measure.peak_bytes(lambda: prepare(*tensors)(), on_gpu=on_gpu)
    return {
        "median_us": f"{timing.median_ms * 1e3:.1f}",
        "low_us": f"{timing.low_ms * 1e3:.1f}",
        "high_us": f"{timing.high_ms * 1e3:.1f}",
        "peak_bytes": peak,
        "tflops": f"{flop / timing.median_ms / 1e9:.3f}",
        "max_error": f"{error:.1e}",
    }


def rows_of(num_heads, seq_len, options, slow):
    """Rows of one size; `slow` remembers milliseconds of the length before."""
    tensors = [torch.randn(1, num_heads, seq_len, HEAD_DIM, device=options.device) for _ in range(4)]
    want = wanted(*tensors)
    for variant, language, which, block_n, prepare in candidates(seq_len, num_heads):
        row = {
            "variant": variant, "language": language, "pass": which, "num_heads": num_heads, "head_dim": HEAD_DIM,
            "seq_len": seq_len, "block_n": block_n, "dtype": "float32",
        }  # fmt: skip
        flop = 2 * PRODUCTS.get(variant, (2, 5))[which == "backward"] * num_heads * seq_len**2 * HEAD_DIM
        key = (variant, language, which, block_n)
        expected = 4 * slow.get(key, 0.0)
        if expected > LONGEST_MS:
            row["note"] = f"left out: about {expected / 1e3:.0f} s a run, four times the length before"
            slow[key] = expected
        else:
            try:
                row |= measured(prepare, tensors, want[which], flop, options)
                slow[key] = float(row["median_us"]) / 1e3
            except torch.cuda.OutOfMemoryError:
                row["note"] = "left out: more memory than this card has"
            except RuntimeError as error:
                row["note"] = str(error).strip().splitlines()[0]
        if options.device == "cuda":
            torch.cuda.empty_cache()
        yield row


def told(row):
    """A row as a line for the terminal."""
    name = f"{row['variant']} {row['language']} {row['pass']} {row['block_n'] or ''}"
    said = row.get("note") or f"{row['median_us']:>10} us {row['tflops']:>7} TFLOP/s"
    return f"H={row['num_heads']:<4} N={row['seq_len']:<5} {name:<46} {said}"


def parsed():
    """The command line; a dry run may not write where the course keeps its numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=600.0, help="no new size is begun after this time")
    parser.add_argument("--dry", action="store_true", help="tiny sizes on the CPU; the rows are worth nothing")
    options = parser.parse_args()
    if options.dry and (ROOT / "benchmarks") in options.out.resolve().parents:
        parser.error("a dry run measures nothing: give --out a place outside benchmarks/")
    options.device = "cpu" if options.dry else "cuda"
    if not options.dry and not torch.cuda.is_available():
        parser.error("no NVIDIA GPU is visible; --dry tries the script on a CPU")
    return options


def main():
    """Time everything and write the CSV."""
    options, began = parsed(), time.perf_counter()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    heads, seq_lens = (DRY["heads"], DRY["seq_lens"]) if options.dry else (HEADS, SEQ_LENS)
    about = versions(options.commit, on_gpu=not options.dry)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    slow = {num_heads: {} for num_heads in heads}
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("# medians of CUDA events, L2 flushed between runs; peak_bytes: beyond q, k, v and d_out, of both ")
        file.write("passes in a row of the backward pass; python3 -m benchmarks.flash_attention_1\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for seq_len in seq_lens:
            for num_heads in heads:
                if time.perf_counter() - began > options.seconds:
                    print(f"N={seq_len}, {num_heads} heads: not begun, {options.seconds} s are over")
                    continue
                for row in rows_of(num_heads, seq_len, options, slow[num_heads]):
                    writer.writerow(row | about)
                    file.flush()
                    print(f"{time.perf_counter() - began:5.1f} s  {told(row)}", flush=True)


if __name__ == "__main__":
    main()
