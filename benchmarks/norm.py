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

from benchmarks.harness import main
from benchmarks.harness.layers import NAMES, Layer, benchmark_of_layers, in_place, installed, poisoned, relative_error
from course_lib.ops import norm as ops
from course_lib.ops import norm_backward
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


def rms_norm_backward(layer, x, d_out, weight):
    """The gradients of RMSNorm; those of torch by autograd, which keeps what it needs."""
    for language in ("cuda", "triton"):
        launch = norm_backward.plan_rms_norm_backward(d_out, x, weight, eps=EPS, language=language)
        layer.ours("04_rms_norm_backward", language, partial(poisoned, launch))
    add_autograd(layer, torch_rms_norm, d_out, x, weight)
    if layer.options.dry:
        return
    layer.peer("liger", lambda: gradients(liger_rms_norm(), d_out, x, weight))


def layer_norm_backward(layer, x, d_out, weight):
    """The gradients of LayerNorm; the weight's values are the bias as well."""
    for language in ("cuda", "triton"):
        launch = norm_backward.plan_layer_norm_backward(d_out, x, weight, eps=EPS, language=language)
        layer.ours("05_layer_norm_backward", language, partial(poisoned, launch))
    add_autograd(layer, torch_layer_norm, d_out, x, weight, weight.clone())


def liger_rms_norm():
    """Liger's RMSNorm with its gradient, not in place."""
    apply = installed("liger_kernel.ops.rms_norm", "LigerRMSNormFunction.apply")
    return lambda x, weight: (apply(x, weight, EPS, 0.0, "llama", False),)


def add_autograd(layer, function, d_out, *leaves):
    """torch's gradients of a function, eager and compiled."""
    layer.torch("autograd", lambda: gradients(function, d_out, *leaves))
    layer.peer("torch.compile", lambda: gradients(torch.compile(function, dynamic=False), d_out, *leaves))


def gradients(function, d_out, *leaves):
    """The function that gives the gradients of all leaves from a graph that is kept: the backward pass alone."""
    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    (out,) = function(*leaves)
    return lambda: torch.autograd.grad(out, leaves, d_out, retain_graph=True)


OPS = {
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "add_rms_norm": add_rms_norm,
    "rms_norm_backward": rms_norm_backward,
    "layer_norm_backward": layer_norm_backward,
}
PASSES = {"add_rms_norm": 4, "rms_norm_backward": 3, "layer_norm_backward": 3}  # over all numbers; else 2


def wanted(op, x, residual, weight):
    """The outputs of the first rows in float64."""
    x, residual = x[:CHECKED_ROWS], residual[:CHECKED_ROWS]
    if op == "rms_norm":
        return (reference.rms_norm(x, weight, EPS),)
    if op == "layer_norm":
        return (reference.layer_norm(x, weight, weight, EPS),)
    if op == "add_rms_norm":
        out, total = reference.add_rms_norm(x, residual, weight, EPS)
        return out, total.double()
    backward = reference.rms_norm_backward if op == "rms_norm_backward" else reference.layer_norm_backward
    return (backward(residual, x, weight, EPS)[0],)


def rows_of(load, options):
    """The rows of one size."""
    shape, dtype = (load["num_rows"], load["num_cols"]), getattr(torch, load["dtype"])
    x, residual = (torch.randn(shape, device=options.device).to(dtype) for _ in range(2))
    weight = torch.randn(load["num_cols"], device=options.device).to(dtype)
    wants = wanted(load["op"], x, residual, weight)
    check = partial(error_of, wants=wants)
    num_bytes = PASSES.get(load["op"], 2) * x.numel() * x.element_size()
    layer = Layer(options, num_bytes, check, TOLERANCE[load["dtype"]], graphs=not load["op"].endswith("backward"))
    OPS[load["op"]](layer, x, residual, weight)
    yield from layer.rows(load)


def error_of(outputs, wants):
    """Error of the checked rows; gradients of weight and bias, sums over all rows, are tested elsewhere."""
    return relative_error([output[: len(want)] for output, want in zip(outputs, wants, strict=False)], wants)


BENCHMARK = benchmark_of_layers(
    __doc__, __file__, keys=("op", *NAMES, "num_rows", "num_cols", "dtype"),
    loads=loads, rows=rows_of, quick={"num_rows": (8, 16384)}, graphs=True,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
