"""Time products of one to 2,048 tokens with weights of four bits beside torch's int4 path and 16-bit weights.

    python3 -m benchmarks.w4a16 --out benchmarks/results/h200/w4a16.csv
    python3 -m benchmarks.w4a16 --dry      tiny sizes on a CPU, to try the script

The layers of a model of 8 billion parameters, in bfloat16 with groups of 128. `gbps` counts size_n * size_k / 2 bytes
of weights, 3 bytes a group and row, and x and out. `F.linear` reads four times as many. Graphs, in turns, checked
against the exact weights in float64 before. Up to eight tokens it is 01_gemv, from there on 02_gemm and, on Hopper,
03_wgmma; the more tokens, the less a rate of bytes says: compare times.
"""

import sys
from functools import partial

import torch
import torch.nn.functional as F

from benchmarks.harness import main
from benchmarks.harness.layers import NAMES, Layer, benchmark_of_layers, poisoned, relative_error
from course_lib.ops import w4a16 as ops
from course_lib.reference import w4a16 as reference

SIZES = ((4096, 14336), (14336, 4096), (4096, 4096), (28672, 8192))  # size_n, size_k
TOKENS, GROUP = (1, 4, 8, 16, 32, 64, 256, 2048), 128
TOLERANCE = 2e-2


def loads(dry):
    sizes, tokens = (((32, 256),), (3, 9)) if dry else (SIZES, TOKENS)
    return [
        {"num_tokens": num_tokens, "size_n": size_n, "size_k": size_k, "group": GROUP, "dtype": "bfloat16"}
        for size_n, size_k in sizes
        for num_tokens in tokens
    ]


def torch_int4(x, q, scales, zeros):
    """torch's own product: packed by its own function, its zero is added after the scale and is that of q - 8."""
    packed = torch.ops.aten._convert_weight_to_int4pack(q[:, ::2] << 4 | q[:, 1::2], 8)
    both = torch.stack((scales, (8 - zeros.to(scales.dtype)) * scales), dim=-1)
    return lambda: (torch.ops.aten._weight_int4pack_mm(x, packed, GROUP, both),)


def rows_of(load, options):
    """The rows of one layer and number of tokens."""
    size_n, size_k, dtype = load["size_n"], load["size_k"], getattr(torch, load["dtype"])
    x = torch.randn(load["num_tokens"], size_k, device=options.device).to(dtype)
    weight = torch.randn(size_n, size_k, device=options.device).to(dtype) / size_k**0.5
    q, scales, zeros = reference.quantise(weight, GROUP)
    packed = ops.pack(q)
    num_bytes = packed.nbytes + scales.nbytes + zeros.nbytes + x.nbytes + load["num_tokens"] * size_n * dtype.itemsize
    check = partial(error_of, want=reference.product(x, packed, scales, zeros))
    layer = Layer(options, num_bytes, check, TOLERANCE)
    few = load["num_tokens"] <= ops.MAX_TOKENS
    variants = {"01_gemv": ops.plan} if few else {"02_gemm": ops.plan_gemm, "03_wgmma": ops.plan_wgmma}
    for variant, plan in variants.items():
        layer.ours(variant, "cuda", lambda plan=plan: poisoned(plan(x, packed, scales, zeros)))
    dense = reference.dequantised(packed, scales, zeros, size_k).to(dtype)
    layer.torch("F.linear, 16 bits", lambda: lambda: (F.linear(x, dense),))
    layer.peer("_weight_int4pack_mm", lambda: torch_int4(x, q, scales, zeros))
    yield from layer.rows(load)


def error_of(outputs, want):
    return relative_error(outputs, [want])


BENCHMARK = benchmark_of_layers(
    __doc__, __file__, keys=(*NAMES, "num_tokens", "size_n", "size_k", "group", "dtype"),
    loads=loads, rows=rows_of, quick={"num_tokens": (1, 8, 16, 64, 2048), "size_n": (4096,)}, graphs=True,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
