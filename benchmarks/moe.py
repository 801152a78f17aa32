"""Time the steps of a mixture of experts beside torch, torch.compile and torch._grouped_mm.

    python3 -m benchmarks.moe --out benchmarks/results/h200/moe.csv
    python3 -m benchmarks.moe --dry      tiny sizes on a CPU, to try the script

Two shapes: 8 experts, 2 of them a token, and 128 experts, 8 of them. `route` gives experts and weights, `sort` the
pairs in the order of the experts, `grouped` the first product of the experts from the tokens' rows. `gbps` counts of
`route` the logits, of `sort` two reads and two writes of a number a pair, of `grouped` a read of each token for each
of its experts, of every expert's weights once, and a write of the result. torch._grouped_mm gets rows that are in
order already.
"""

import sys
from functools import partial

import torch

from benchmarks.harness import main
from benchmarks.harness.layers import NAMES, Layer, benchmark_of_layers, relative_error
from course_lib.ops import moe as ops
from course_lib.reference import moe as reference

SHAPES = ((8, 2, 4096, 14336), (128, 8, 2048, 1536))  # experts, of a token, hidden, columns of the product
DRY_SHAPES = ((5, 2, 32, 24),)
TOKENS = (8, 128, 4096)
CHECKED_TOKENS = 4
TOLERANCE = 2e-2


def loads(dry):
    names = ("num_experts", "top_k", "size_k", "size_n")
    shapes = [dict(zip(names, shape, strict=True)) for shape in (DRY_SHAPES if dry else SHAPES)]
    return [
        {"op": op, "num_tokens": num_tokens} | shape | {"dtype": "bfloat16"}
        for op in OPS
        for shape in shapes
        for num_tokens in ((6,) if dry else TOKENS)
    ]


def torch_route(logits, top_k):
    weights, experts = torch.topk(torch.softmax(logits.float(), dim=-1), top_k, dim=-1)
    return experts, weights / weights.sum(-1, keepdim=True)


def torch_sort(experts, num_experts):
    return torch.sort(experts.flatten(), stable=True).indices, torch.bincount(experts.flatten(), minlength=num_experts)


def route(load, options, logits, x):
    """Router: weights are checked, as equal logits may be chosen in another order."""
    top_k = load["top_k"]
    want = reference.route(logits, top_k)[1]
    layer = Layer(options, logits.nbytes, lambda outputs: relative_error(outputs[1:], [want]), TOLERANCE)
    layer.ours("01_route", "cuda", lambda: lambda: ops.route(logits, top_k))
    layer.torch("softmax, topk", lambda: partial(torch_route, logits, top_k))
    layer.compiled(torch_route, logits, top_k)
    return layer


def sort(load, options, logits, x):
    """Pairs in the order of their experts."""
    experts, num_experts = ops.route(logits, load["top_k"])[0], load["num_experts"]
    want = torch.sort(experts.flatten(), stable=True).indices
    layer = Layer(
        options, 4 * experts.nbytes, lambda outputs: relative_error(outputs[:1], [want.double()]), 0.0, graphs=False
    )
    layer.ours("02_sort", "cuda", lambda: lambda: (ops.sort(experts, num_experts).order,))
    layer.torch("sort, bincount", lambda: partial(torch_sort, experts, num_experts))
    return layer


def grouped(load, options, logits, x):
    """The product of every token with its experts' weights."""
    num_experts, top_k, size_n, size_k = (load[name] for name in ("num_experts", "top_k", "size_n", "size_k"))
    w = torch.randn(num_experts, size_n, size_k, device=options.device, dtype=x.dtype) / size_k**0.5
    experts = ops.route(logits, top_k)[0]
    pairs = ops.sort(experts, num_experts)
    places = pairs.places[:CHECKED_TOKENS].flatten().long()
    rows = x[:CHECKED_TOKENS].repeat_interleave(top_k, 0).double()
    chosen = experts[:CHECKED_TOKENS].flatten().tolist()
    want = torch.stack([row @ w[e].double().T for row, e in zip(rows, chosen, strict=True)])
    moved = (experts.numel() * (size_k + size_n) + w.numel()) * x.itemsize
    layer = Layer(options, moved, lambda outputs: relative_error([outputs[0][places]], [want]), TOLERANCE)
    for language in ("cuda", "triton"):
        tiled = ops.sort(experts, num_experts, block_m=ops.tile_rows(experts.numel(), num_experts, language))
        call = partial(ops.grouped, x, w, tiled, gather=True, language=language)
        layer.ours("03_grouped", language, lambda call=call: lambda: (call(),))
    ordered = x[pairs.order.long() // top_k]
    ends = pairs.offsets[1:].contiguous()
    layer.peer("torch._grouped_mm", lambda: lambda: (torch._grouped_mm(ordered, w.transpose(1, 2), offs=ends),))
    return layer


OPS = {"route": route, "sort": sort, "grouped": grouped}


def rows_of(load, options):
    """The rows of one step and size."""
    dtype = getattr(torch, load["dtype"])
    logits = torch.randn(load["num_tokens"], load["num_experts"], device=options.device).to(dtype)
    x = torch.randn(load["num_tokens"], load["size_k"], device=options.device).to(dtype)
    yield from OPS[load["op"]](load, options, logits, x).rows(load)


BENCHMARK = benchmark_of_layers(
    __doc__, __file__, keys=("op", *NAMES, "num_tokens", "num_experts", "top_k", "size_k", "size_n", "dtype"),
    loads=loads, rows=rows_of, quick={"num_tokens": (4096,)}, graphs=False,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
