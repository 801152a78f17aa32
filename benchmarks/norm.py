"""Time RMSNorm, LayerNorm and add + RMSNorm beside torch, torch.compile, FlashInfer and Liger, and a copy of the bytes.

    python3 -m benchmarks.norm --out benchmarks/results/h200/norm.csv
    python3 -m benchmarks.norm --dry      tiny sizes on a CPU, to try the script

`gbps` counts the fewest bytes: one read and one write of every row, two of each where a residual is added. Everything
runs from CUDA graphs, in turns, and is checked against float64 on its first rows before it is timed. A peer that is not
installed gets a note in place of a time.
"""

import sys
from functools import partial

import torch
import torch.nn.functional as F

from benchmarks.harness import Benchmark, main
from benchmarks.harness.layers import NAMES, VALUES, Layer, in_place, installed, poisoned, relative_error
from course_lib.ops import norm as ops
from course_lib.reference import norm as reference

SIZES = ((8, 4096), (128, 4096), (65536, 1024), (16384, 4096), (8192, 8192), (4096, 16384))
DRY_SIZES = ((3, 256),)
CHECKED_ROWS = 64
EPS = 1e-6
TOLERANCE = {"bfloat16": 2e-2, "float16": 2e-3, "float32": 1e-5}


def loads(dry):
    sizes = [dict(zip(("num_rows", "num_cols"), size, strict=True)) for size in (DRY_SIZES if dry else SIZES)]
    return [{"op": op} | size | {"dtype": "bfloat16"} for op in OPS for size in sizes]


def torch_rms_norm(x, weight):
    return (F.rms_norm(x, x.shape[-1:], weight, EPS),)


def torch_layer_norm(x, weight, bias):
    return (F.layer_norm(x, x.shape[-1:], weight, bias, EPS),)


def torch_add_rms_norm(x, residual, weight):
    """What torch does with two functions; x and residual stay as they are."""
    total = x + residual
    return F.rms_norm(total, x.shape[-1:], weight, EPS), total


def rms_norm(layer, x, residual, weight):
    """RMSNorm of x."""
    for language in ("cuda", "triton"):
        launch = ops.plan_rms_norm(x, weight, eps=EPS, language=language)
        layer.ours("01_rms_norm", language, partial(poisoned, launch))
    layer.torch("F.rms_norm", lambda: partial(torch_rms_norm, x, weight))
    layer.compiled(torch_rms_norm, x, weight)
    layer.installed("flashinfer", "flashinfer", "rmsnorm", x, weight, EPS)
    layer.installed("liger", "liger_kernel.ops.rms_norm", "LigerRMSNormFunction.apply", x, weight, EPS)


def layer_norm(layer, x, residual, weight):
    """LayerNorm of x; the weight is the bias as well."""
    for language in ("cuda", "triton"):
        launch = ops.plan_layer_norm(x, weight, weight, eps=EPS, language=language)
        layer.ours("02_layer_norm", language, partial(poisoned, launch))
    layer.torch("F.layer_norm", lambda: partial(torch_layer_norm, x, weight, weight))
    layer.compiled(torch_layer_norm, x, weight, weight)
    layer.installed("liger", "liger_kernel.ops.layer_norm", "LigerLayerNormFunction.apply", x, weight, weight, EPS)


def add_rms_norm(layer, x, residual, weight):
    """residual += x, and its RMSNorm; what works in place gets tensors of its own."""
    for language in ("cuda", "triton"):
        call = partial(ops.add_rms_norm, weight=weight, eps=EPS, language=language)
        layer.ours("03_add_rms_norm", language, partial(in_place, call, x, residual))
    layer.torch("add, F.rms_norm", lambda: partial(torch_add_rms_norm, x, residual, weight))
    layer.compiled(torch_add_rms_norm, x, residual, weight)

    def flashinfer():
        fused = installed("flashinfer", "fused_add_rmsnorm")
        return in_place(lambda x, residual: fused(x, residual, weight, EPS), x, residual)

    layer.peer("flashinfer", flashinfer)


OPS = {"rms_norm": rms_norm, "layer_norm": layer_norm, "add_rms_norm": add_rms_norm}


def wanted(op, x, residual, weight):
    """The outputs of the first rows in float64."""
    x, residual = x[:CHECKED_ROWS], residual[:CHECKED_ROWS]
    if op == "rms_norm":
        return (reference.rms_norm(x, weight, EPS),)
    if op == "layer_norm":
        return (reference.layer_norm(x, weight, weight, EPS),)
    out, total = reference.add_rms_norm(x, residual, weight, EPS)
    return out, total.double()


def rows_of(load, options):
    """The rows of one size."""
    shape, dtype = (load["num_rows"], load["num_cols"]), getattr(torch, load["dtype"])
    x, residual = (torch.randn(shape, device=options.device).to(dtype) for _ in range(2))
    weight = torch.randn(load["num_cols"], device=options.device).to(dtype)
    wants = wanted(load["op"], x, residual, weight)
    copies = 4 if load["op"] == "add_rms_norm" else 2
    check = partial(error_of, wants=wants)
    layer = Layer(options, copies * x.numel() * x.element_size(), check, TOLERANCE[load["dtype"]])
    OPS[load["op"]](layer, x, residual, weight)
    yield from layer.rows(load)


def error_of(outputs, wants):
    """Error of the checked rows."""
    return relative_error([output[: len(want)] for output, want in zip(outputs, wants, strict=True)], wants)


BENCHMARK = Benchmark(
    __doc__,
    __file__,
    "medians of CUDA events, graphs, in turns, L2 flushed, middle half in low_us to high_us",
    keys=("op", *NAMES, "num_rows", "num_cols", "dtype"),
    values=VALUES,
    loads=loads,
    rows=rows_of,
    shown=("median_us", "gbps", "copy_percent"),
    quick={"num_rows": (8, 16384)},
    runs=25,
)

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
