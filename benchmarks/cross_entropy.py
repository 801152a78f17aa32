"""Time cross-entropy over a vocabulary, forward and with its gradient, beside torch, torch.compile and Liger.

    python3 -m benchmarks.cross_entropy --out benchmarks/results/h200/cross_entropy.csv
    python3 -m benchmarks.cross_entropy --dry      tiny sizes on a CPU, to try the script

`gbps` counts the logits: read once forward; with the gradient read twice and written once, in place of the logits. Peak
memory is what a variant allocates beside its inputs. Everything runs in turns and is checked against float64 before it
is timed; the loss is the sum over the rows.
"""

import sys
from functools import partial

import torch
import torch.nn.functional as F

from benchmarks.harness import main
from benchmarks.harness.layers import NAMES, Layer, benchmark_of_layers, error_of_rows, in_place, installed
from course_lib.ops import cross_entropy as ops
from course_lib.reference import cross_entropy as reference

SIZES = ((8, 128256), (16384, 32000), (8192, 50304), (8192, 128256))
DRY_SIZES = ((3, 320),)
CHECKED_ROWS = 16
TOLERANCE = 2e-2


def loads(dry):
    sizes = [dict(zip(("num_rows", "num_cols"), size, strict=True)) for size in (DRY_SIZES if dry else SIZES)]
    return [{"op": op} | size | {"dtype": "bfloat16"} for op in OPS for size in sizes]


def torch_loss(logits, targets):
    """Loss of every row, in float32 as in a training loop that keeps its accuracy."""
    return F.cross_entropy(logits.float(), targets, reduction="none")


def forward(layer, logits, targets):
    """The loss of every row."""
    for language in ("cuda", "triton"):
        call = partial(ops.cross_entropy, logits, targets, language=language)
        layer.ours("01_online", language, lambda call=call: lambda: call()[:1])
    layer.torch("F.cross_entropy", lambda: lambda: (torch_loss(logits, targets),))
    layer.compiled(lambda logits, targets: (torch_loss(logits, targets),), logits, targets)


def with_gradient(layer, logits, targets):
    """The gradient of the sum of the losses."""
    one = torch.ones(1, device=logits.device)

    def ours(logits, language):
        _, lse = ops.cross_entropy(logits, targets, language=language)
        ops.cross_entropy_backward(one, logits, targets, lse, language=language)

    for language in ("cuda", "triton"):
        layer.ours("02_backward", language, partial(in_place, partial(ours, language=language), logits))
    layer.torch("F.cross_entropy", lambda: gradient_of(torch_loss, logits, targets))
    layer.peer("torch.compile", lambda: gradient_of(torch.compile(torch_loss, dynamic=False), logits, targets))

    def liger():
        both = installed("liger_kernel.ops.cross_entropy", "cross_entropy_forward")
        x = logits.detach().requires_grad_()  # then its forward writes the gradient over the logits
        return in_place(lambda x: both(x, targets, None, -100, 0.0, 0.0, "sum", None, False), x)

    layer.peer("liger", liger)


def gradient_of(loss, logits, targets):
    """The function that gives (gradient of the sum,) by torch's autograd."""
    x = logits.detach().clone().requires_grad_()
    return lambda: torch.autograd.grad(loss(x, targets).sum(), x)


OPS = {"forward": forward, "with_gradient": with_gradient}
PASSES = {"forward": 1, "with_gradient": 3}


def rows_of(load, options):
    """The rows of one size."""
    shape, dtype = (load["num_rows"], load["num_cols"]), getattr(torch, load["dtype"])
    logits = (3.0 * torch.randn(shape, device=options.device)).to(dtype)
    targets = torch.randint(0, shape[1], shape[:1], device=options.device)
    first = logits[:CHECKED_ROWS], targets[:CHECKED_ROWS]
    if load["op"] == "forward":
        want = reference.cross_entropy(*first)[0]
    else:
        want = reference.cross_entropy_backward(torch.ones(1, device=options.device), *first)
    num_bytes = PASSES[load["op"]] * logits.numel() * logits.element_size()
    layer = Layer(options, num_bytes, partial(error_of_rows, want=want), TOLERANCE, graphs=False, weigh=True)
    OPS[load["op"]](layer, logits, targets)
    yield from layer.rows(load)


BENCHMARK = benchmark_of_layers(
    __doc__, __file__, keys=("op", *NAMES, "num_rows", "num_cols", "dtype"),
    loads=loads, rows=rows_of, quick={"num_rows": (8192,), "num_cols": (128256,)}, graphs=False, weigh=True,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
