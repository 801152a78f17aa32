"""Time every FlashAttention-2 kernel of the course beside SDPA's flash and cuDNN backends, forward and backward.

    python3 -m benchmarks.flash_attention --out benchmarks/results/h200/flash_attention.csv --commit …
    python3 -m benchmarks.flash_attention --dry --out /tmp/dry.csv      tiny sizes on a CPU, to try the script

16,384 tokens and num_heads * head_dim = 2048 in every row, as FlashAttention's own benchmark has it. All variants of
one size are timed in turns, run after run, so that a change of the clock meets all of them; L2 is flushed before each
run, and the GPU is kept busy while the launch is being queued, so that no host time is counted. FLOP: 4 B H N^2 D
forward, 2.5 times that backward, half of it when causal. Every variant is checked against float64 before it is timed.
"""

import argparse
import csv
import os
import sys
from pathlib import Path

import torch

from benchmarks import ROOT
from benchmarks.harness.about import COLUMNS as ABOUT
from benchmarks.harness.about import versions
from benchmarks.harness.sdpa import BACKENDS, sdpa
from benchmarks.harness.turns import timed_in_turns
from course_lib.ops import flash_attention_2 as ops

NUM_TOKENS, MODEL_DIM = 16384, 2048
SEQ_LENS = (1024, 2048, 4096, 8192, 16384)
LADDER = ("02_mma", "03_swizzled", "04_pipelined", "10_heavy_first")
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5}  # of the outputs; gradients: relative to the largest
COLUMNS = [
    "variant", "language", "direction", "batch_size", "num_heads", "head_dim", "seq_len", "causal", "dtype",
    "median_us", "low_us", "high_us", "tflops", "ratio_to_sdpa_flash", "max_error", "note", *ABOUT,
]  # fmt: skip


def forwards(size, dry):
    """{(variant, language): function(q, k, v) -> out}."""
    causal = size["causal"]
    found = {}
    if not dry:
        found |= {(name, "torch"): sdpa(backend, causal) for name, backend in BACKENDS.items()}
        for variant in LADDER:
            found[f"flash_attention_2/{variant}", "cuda"] = lambda q, k, v, variant=variant: ops.flash_attention_2(
                q, k, v, causal=causal, variant=variant
            )[0]
    found["flash_attention_2/01_loop_order", "triton"] = lambda q, k, v: ops.flash_attention_2(
        q, k, v, causal=causal, variant="01_loop_order", language="triton"
    )[0]
    found["flash_attention_2/10_heavy_first", "triton"] = lambda q, k, v: ops.flash_attention_lse(
        q, k, v, causal=causal, backend="triton"
    )[0]
    return found


def backwards(size, dry):
    """{(variant, language): function(q, k, v) -> out, to be differentiated}."""
    causal = size["causal"]
    found = {} if dry else {(name, "torch"): sdpa(backend, causal) for name, backend in BACKENDS.items()}
    found["flash_attention_2_backward/01_two_walks", "triton"] = lambda q, k, v: ops.flash_attention(
        q, k, v, causal=causal, backend="triton"
    )
    return found


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
    worst = 0.0
    for mine, right in zip(got, want, strict=True):
        if not torch.isfinite(mine).all():
            return float("inf")
        scale = right.abs().max().item() if len(want) > 1 else 1.0
        worst = max(worst, (mine[-1, -1].double() - right).abs().max().item() / scale)
    return worst


def calls_of(size, direction, tensors, dry):
    """({name: function without arguments}, {name: error}, {name: why it is missing}), checked against float64."""
    q, k, v = tensors
    grad_out = torch.randn_like(q) if direction == "backward" else None
    want = wanted(tensors, size["causal"], grad_out)
    limit = TOLERANCE[size["dtype"]] * (2 if grad_out is not None else 1)
    calls, errors, missing = {}, {}, {}
    for name, function in (forwards if grad_out is None else backwards)(size, dry).items():
        try:
            if grad_out is None:
                call = lambda function=function: function(q, k, v)  # noqa: E731
                got = (call(),)
            else:
                leaves = [x.detach().requires_grad_() for x in tensors]
                out = function(*leaves)
                call = lambda out=out, leaves=leaves: torch.autograd.grad(out, leaves, grad_out, retain_graph=True)  # noqa: E731
                got = call()
        except RuntimeError as error:  # a backend that does not exist here
            missing[name] = str(error).strip().splitlines()[0]
            continue
        errors[name] = error_of(got, want)
        if not errors[name] <= limit:
            missing[name] = f"wrong by {errors[name]:.1e}: not timed"
            continue
        calls[name] = call
    return calls, errors, missing


def rows_of(size, direction, options):
    """The rows of one size and direction."""
    num_heads = MODEL_DIM // size["head_dim"] if not options.dry else 2
    batch_size = max(1, NUM_TOKENS // size["seq_len"]) if not options.dry else 1
    shape = (batch_size, num_heads, size["seq_len"], size["head_dim"])
    tensors = [torch.randn(shape, device=options.device, dtype=getattr(torch, size["dtype"])) for _ in range(3)]
    calls, errors, missing = calls_of(size, direction, tensors, options.dry)
    times = {} if options.dry else timed_in_turns(calls, options.runs)
    flop = 4 * batch_size * num_heads * size["seq_len"] ** 2 * size["head_dim"] * (0.5 if size["causal"] else 1.0)
    flop *= 2.5 if direction == "backward" else 1.0
    peer = times.get(("sdpa_flash", "torch"))
    for name in [*calls, *missing]:
        row = {"variant": name[0], "language": name[1], "direction": direction, "batch_size": batch_size}
        row |= {"num_heads": num_heads} | size | {"causal": int(size["causal"]), "note": missing.get(name, "")}
        if name in errors:
            row["max_error"] = f"{errors[name]:.1e}"
        if name in times:
            median, low, high = times[name]
            row |= {"median_us": f"{median * 1e3:.1f}", "low_us": f"{low * 1e3:.1f}", "high_us": f"{high * 1e3:.1f}"}
            row["tflops"] = f"{flop / median / 1e9:.1f}"
            row["ratio_to_sdpa_flash"] = f"{peer[0] / median:.3f}" if peer else ""
        yield row


def sizes(options):
    """Every size: all lengths in bf16, one length in fp16."""
    if options.dry:
        return [{"head_dim": 64, "seq_len": 70, "causal": causal, "dtype": "float32"} for causal in (False, True)]
    return [
        {"head_dim": head_dim, "seq_len": seq_len, "causal": causal, "dtype": dtype}
        for dtype in ("bfloat16", "float16")
        for head_dim in (64, 128)
        for causal in (False, True)
        for seq_len in (SEQ_LENS if dtype == "bfloat16" else (4096,))
    ]


def parsed():
    """The command line; a dry run may not write where the course keeps its numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=os.environ.get("COMMIT", "unknown"))
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--dry", action="store_true", help="tiny sizes on the CPU; the rows are worth nothing")
    options = parser.parse_args()
    if options.dry and (ROOT / "benchmarks") in options.out.resolve().parents:
        parser.error("a dry run measures nothing: give --out a place outside benchmarks/")
    if not options.dry and not torch.cuda.is_available():
        parser.error("no NVIDIA GPU is visible; --dry tries the script on a CPU")
    options.device = "cpu" if options.dry else "cuda"
    return options


def main():
    """Check and time everything, write the CSV; exit code 1 when a kernel of the course was wrong."""
    options = parsed()
    torch.manual_seed(0)
    about = versions(options.commit, on_gpu=not options.dry)
    wrong = 0
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", newline="", encoding="utf-8") as file:
        file.write("# medians of CUDA events, variants in turns, L2 flushed; python3 -m benchmarks.flash_attention\n")
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for direction in ("forward", "backward"):
            for size in sizes(options):
                for row in rows_of(size, direction, options):
                    writer.writerow(row | about)
                    wrong += "wrong" in row["note"]
                    speed = f"{row.get('tflops', ''):>6} TFLOP/s  {row.get('ratio_to_sdpa_flash', ''):>6}"
                    where = f"{direction:<8} {size['dtype']:<8} d={size['head_dim']:<3} causal={row['causal']}"
                    name = f"{row['language']:<6} {row['variant']:<33}"
                    print(f"{where} N={size['seq_len']:<5} {name} {row['note'] or speed}", flush=True)
                file.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
