"""Time the embedding of tokens and positions, and the gradient of its table, beside torch and torch.compile.

    python3 -m benchmarks.embedding --out benchmarks/results/h200/embedding.csv
    python3 -m benchmarks.embedding --dry      tiny sizes on a CPU, to try the script

A table of 50,304 rows; ids as words have them, few of them often. `gbps` counts forward one read and one write of a row
for each token, backward one read of a row for each token and one write of the whole table. Forward positions are added:
their table stays in L2. The sort of the ids is part of the gradient's time. Everything runs in turns and is checked
against float64 before.
"""

import sys
from functools import partial

import torch
import torch.nn.functional as F

from benchmarks.harness import main
from benchmarks.harness.layers import NAMES, Layer, benchmark_of_layers, relative_error
from course_lib.ops import embedding as ops
from course_lib.reference import embedding as reference

NUM_IDS, NUM_POSITIONS = 50304, 1024
SIZES, DRY_SIZES = ((8, 4096), (16384, 768), (16384, 4096), (65536, 4096)), ((5, 64),)
TOLERANCE = 2e-2


def loads(dry):
    sizes = [dict(zip(("num_tokens", "num_cols"), size, strict=True)) for size in (DRY_SIZES if dry else SIZES)]
    return [{"op": op} | size | {"dtype": "bfloat16"} for op in ("forward", "backward") for size in sizes]


def torch_forward(ids, table, positions, position_table):
    return (F.embedding(ids, table) + F.embedding(positions, position_table),)


def torch_backward(d_out, ids):
    return (torch.ops.aten.embedding_dense_backward(d_out, ids, NUM_IDS, -1, False),)


def add_forward(layer, ids, table, positions, position_table):
    for language in ("cuda", "triton"):
        both = {"positions": positions, "position_table": position_table, "language": language}
        layer.ours("01_lookup", language, lambda both=both: lambda: (ops.embedding(ids, table, **both),))
    layer.torch("F.embedding", lambda: partial(torch_forward, ids, table, positions, position_table))
    layer.compiled(torch_forward, ids, table, positions, position_table)


def add_backward(layer, ids, d_out):
    for language in ("cuda", "triton"):
        call = partial(ops.embedding_backward, d_out, ids, NUM_IDS, language=language)
        layer.ours("02_sorted_backward", language, lambda call=call: lambda: (call(),))
    layer.torch("embedding_dense_backward", lambda: partial(torch_backward, d_out, ids))
    layer.compiled(torch_backward, d_out, ids)


def rows_of(load, options):
    """The rows of one size."""
    tokens, num_cols, dtype = load["num_tokens"], load["num_cols"], getattr(torch, load["dtype"])
    ids = (NUM_IDS * torch.rand(tokens, device=options.device) ** 4).long()
    positions = torch.arange(tokens, device=options.device) % NUM_POSITIONS
    row_bytes = num_cols * dtype.itemsize
    if load["op"] == "forward":
        tables = [torch.randn(n, num_cols, device=options.device).to(dtype) for n in (NUM_IDS, NUM_POSITIONS)]
        check = partial(error_of, want=reference.lookup(ids[:64], tables[0], positions[:64], tables[1]))
        layer = Layer(options, 2 * tokens * row_bytes, check, TOLERANCE, graphs=False)
        add_forward(layer, ids, tables[0], positions, tables[1])
    else:
        d_out = torch.randn(tokens, num_cols, device=options.device).to(dtype)
        check = partial(error_of, want=reference.lookup_backward(d_out[:, :64], ids, NUM_IDS))
        layer = Layer(options, (tokens + NUM_IDS) * row_bytes, check, TOLERANCE, graphs=False)
        add_backward(layer, ids, d_out)
    yield from layer.rows(load)


def error_of(outputs, want):
    """Error of the checked tokens, or of the checked columns of the gradient."""
    return relative_error([outputs[0][: len(want), : want.shape[1]]], [want])


BENCHMARK = benchmark_of_layers(
    __doc__, __file__, keys=("op", *NAMES, "num_tokens", "num_cols", "dtype"),
    loads=loads, rows=rows_of, quick={"num_tokens": (16384,), "num_cols": (4096,)}, graphs=False,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
