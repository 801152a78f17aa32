"""Time tanh-GELU and the gated product of SwiGLU, forward and backward, beside torch, torch.compile, FlashInfer, Liger.

    python3 -m benchmarks.activation --out benchmarks/results/h200/activation.csv
    python3 -m benchmarks.activation --dry      tiny sizes on a CPU, to try the script

`gbps` counts each number once: SwiGLU reads gate and up, the halves of one tensor, and writes half as much. Everything
runs from CUDA graphs, in turns, and is checked against float64 before it is timed.
"""

import sys
from functools import partial

import torch
import torch.nn.functional as F

from benchmarks.harness import main
from benchmarks.harness.layers import NAMES, Layer, benchmark_of_layers, error_of_rows, installed, poisoned
from course_lib.ops import activation as ops
from course_lib.reference import activation as reference

SIZES = ((8, 14336), (128, 14336), (65536, 1024), (8192, 11008), (8192, 14336))
DRY_SIZES = ((3, 256),)
CHECKED_ROWS = 64
TOLERANCE = {"bfloat16": 2e-2}


def loads(dry):
    sizes = [dict(zip(("num_rows", "num_cols"), size, strict=True)) for size in (DRY_SIZES if dry else SIZES)]
    return [{"op": op} | size | {"dtype": "bfloat16"} for op in OPS for size in sizes]


def torch_gelu(gate):
    return (F.gelu(gate, approximate="tanh"),)


def torch_swiglu(both):
    gate, up = both.chunk(2, dim=-1)
    return (F.silu(gate) * up,)


def torch_swiglu_backward(d_out, both):
    """The formula, written with tensors."""
    gate, up = both.chunk(2, dim=-1)
    s = torch.sigmoid(gate)
    return (torch.cat((d_out * up * (s * (1 + gate * (1 - s))), d_out * gate * s), dim=-1),)


def gelu_tanh(layer, both, d_out):
    """Tanh-GELU of the gate, contiguous."""
    x = both.chunk(2, dim=-1)[0].contiguous()
    for language in ("cuda", "triton"):
        layer.ours("01_gelu_tanh", language, partial(poisoned, ops.plan_gelu_tanh(x, language=language)))
    layer.torch("F.gelu", lambda: partial(torch_gelu, x))
    layer.compiled(torch_gelu, x)


def swiglu(layer, both, d_out):
    """silu(gate) * up of the halves of one tensor."""
    for language in ("cuda", "triton"):
        layer.ours("02_swiglu", language, partial(poisoned, ops.plan_swiglu(both, language=language)))
    layer.torch("F.silu, mul", lambda: partial(torch_swiglu, both))
    layer.compiled(torch_swiglu, both)
    layer.installed("flashinfer", "flashinfer", "silu_and_mul", both)

    def liger():
        forward = installed("liger_kernel.ops.swiglu", "swiglu_forward")
        gate, up = (half.contiguous() for half in both.chunk(2, dim=-1))  # it takes contiguous tensors
        return lambda: (forward(gate, up)[-1],)

    layer.peer("liger", liger)


def swiglu_backward(layer, both, d_out):
    """The gradients of both halves, in one tensor."""
    for language in ("cuda", "triton"):
        launch = ops.plan_swiglu_backward(d_out, both, language=language)
        layer.ours("04_swiglu_backward", language, partial(poisoned, launch))
    layer.torch("formula", lambda: partial(torch_swiglu_backward, d_out, both))
    layer.compiled(torch_swiglu_backward, d_out, both)


OPS = {"gelu_tanh": gelu_tanh, "swiglu": swiglu, "swiglu_backward": swiglu_backward}
PASSES = {"gelu_tanh": 2, "swiglu": 3, "swiglu_backward": 5}  # how often num_rows * num_cols numbers are moved


def wanted(op, both, d_out):
    """The output of the first rows in float64."""
    gate, up = both[:CHECKED_ROWS].chunk(2, dim=-1)
    if op == "gelu_tanh":
        return reference.gelu_tanh(gate)
    if op == "swiglu":
        return reference.swiglu(gate, up)
    return torch.cat(reference.swiglu_backward(d_out[:CHECKED_ROWS], gate, up), dim=-1)


def rows_of(load, options):
    """The rows of one size."""
    num_rows, num_cols, dtype = load["num_rows"], load["num_cols"], getattr(torch, load["dtype"])
    both = torch.randn(num_rows, 2 * num_cols, device=options.device).to(dtype)
    d_out = torch.randn(num_rows, num_cols, device=options.device).to(dtype)
    num_bytes = PASSES[load["op"]] * d_out.numel() * d_out.element_size()
    check = partial(error_of_rows, want=wanted(load["op"], both, d_out))
    layer = Layer(options, num_bytes, check, TOLERANCE[load["dtype"]])
    OPS[load["op"]](layer, both, d_out)
    yield from layer.rows(load)


BENCHMARK = benchmark_of_layers(
    __doc__, __file__, keys=("op", *NAMES, "num_rows", "num_cols", "dtype"),
    loads=loads, rows=rows_of, quick={"num_rows": (8, 8192), "num_cols": (14336,)}, graphs=True,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
