"""Time attention step by step against one fused kernel, over sequence length; rows for chapter 00.

    python3 -m benchmarks.naive_attention --out benchmarks/results/h200/naive_attention.csv
    python3 -m benchmarks.naive_attention --dry --out /tmp/dry.csv      tiny sizes on a CPU, to try the script

naive       four torch kernels: scores, scale, softmax, weights times v; the N x N matrix goes through memory
sdpa_flash  scaled_dot_product_attention with the flash backend, named, so that no other one is taken
sdpa_cudnn  the same with cuDNN's

Every variant is checked against float64 in the same run, at every size, before it is timed. `peak_bytes` is what was
allocated beyond the inputs. The naive variant is left out, with the reason in `note`, where its two matrices would
need more than --limit-gib.
"""

import sys
from functools import partial

import torch

from benchmarks.harness import Benchmark, alone, largest_error, main
from benchmarks.harness.sdpa import BACKENDS, sdpa
from course_lib import measure

NUM_HEADS = 16
SEQ_LENS, DRY_SEQ_LENS = (512, 1024, 2048, 4096, 8192, 16384, 32768), (64, 96, 256)
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
CHECKED_ROWS = 64  # query rows of the first head that are compared with float64


def loads(dry):
    dtypes, head_dims = (("float32",), (64,)) if dry else (("float16", "bfloat16"), (64, 128))
    return [
        {"batch_size": 1, "num_heads": NUM_HEADS, "head_dim": head_dim, "seq_len": seq_len, "dtype": dtype}
        for dtype in dtypes
        for head_dim in head_dims
        for seq_len in (DRY_SEQ_LENS if dry else SEQ_LENS)
    ]


def naive(q, k, v):
    """softmax(q k^T / sqrt(head_dim)) v in four kernels, every intermediate written to memory."""
    scores = q @ k.transpose(-1, -2)
    scores = scores * q.shape[-1] ** -0.5
    probs = torch.softmax(scores, dim=-1)
    return probs @ v


def variants_of(dry):
    """{name: function(q, k, v) -> out}; a CPU has no cuDNN."""
    peers = {name: sdpa(backend) for name, backend in BACKENDS.items() if not dry or name == "sdpa_flash"}
    return {"naive": naive} | peers


def error_of(out, tensors):
    """Largest error of the checked rows against float64; infinity when anything is not finite."""
    q, k, v = tensors
    want = naive(q[:, :1, :CHECKED_ROWS].double(), k[:, :1].double(), v[:, :1].double())
    return largest_error((out,), [(out[:, :1, :CHECKED_ROWS], want)])


def rows_of(load, options):
    """The rows of one size, naive first."""
    element = torch.finfo(getattr(torch, load["dtype"])).bits // 8
    cost = measure.AttentionCost(load["seq_len"], load["head_dim"], NUM_HEADS, element)
    shape = (1, NUM_HEADS, load["seq_len"], load["head_dim"])
    tensors = [torch.randn(shape, device=options.device, dtype=getattr(torch, load["dtype"])) for _ in range(3)]
    needed = 2 * cost.matrix_bytes / 2**30
    for variant, function in variants_of(options.dry).items():
        is_naive = variant == "naive"
        row = load | {"variant": variant, "language": "torch"}
        row["formula_bytes"] = cost.step_by_step_bytes if is_naive else cost.fewest_bytes
        if is_naive and needed > options.limit_gib:
            limit = f"the limit of this run is {options.limit_gib} GiB"
            yield row | {"note": f"two matrices take {needed:.0f} GiB; {limit}"}
            continue
        prepare = partial(partial, function, *tensors)
        check, limit = partial(error_of, tensors=tensors), TOLERANCE[load["dtype"]]
        yield row | alone(prepare, check, limit, options, derived=partial(speed, cost.flop))


def speed(flop, median_ms):
    """Columns of a timed row."""
    return {"tflops": f"{flop / median_ms / 1e9:.2f}"}


def arguments(parser):
    parser.add_argument("--limit-gib", type=int, default=24, help="memory that the naive matrices may take")


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, L2 flushed between runs; peak_bytes: allocated beyond the inputs",
    keys=("variant", "language", "batch_size", "num_heads", "head_dim", "seq_len", "dtype"),
    values=(
        "median_us", "low_us", "high_us", "peak_bytes", "formula_bytes", "tflops", "max_error", "note",
    ),
    loads=loads,
    rows=rows_of,
    shown=("median_us", "tflops", "peak_bytes"),
    quick={"seq_len": (1024, 8192), "dtype": ("bfloat16",)},
    arguments=arguments,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
