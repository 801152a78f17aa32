"""Time rotary positions of q and k in one launch beside torch, torch.compile and FlashInfer, and a copy of the bytes.

    python3 -m benchmarks.rope --out benchmarks/results/h200/rope.csv
    python3 -m benchmarks.rope --dry      tiny sizes on a CPU, to try the script

32 query heads and 8 key heads of 128 numbers, in place, positions in random order. `gbps` counts what turns of q and
k, once read and once written, and no table. Everything runs from CUDA graphs, in turns, and is checked against float64
before it is timed. torch makes new tensors from the same table, since it has no such function.
"""

import sys
from functools import partial

import torch

from benchmarks.harness import main
from benchmarks.harness.layers import NAMES, Layer, benchmark_of_layers, in_place, installed, relative_error
from course_lib.ops import rope as ops
from course_lib.reference import rope as reference

HEADS, KV_HEADS, HEAD_DIM, MAX_POSITIONS = 32, 8, 128, 32768
NUM_TOKENS, DRY_NUM_TOKENS = (8, 128, 2048, 16384, 32768), (3,)
CHECKED_TOKENS = 64
TOLERANCE = 2e-2


def loads(dry):
    styles = ("half_split", "interleaved")
    return [
        {"style": style, "num_tokens": tokens, "rotary_dim": rotary_dim, "dtype": "bfloat16"}
        for style in styles
        for rotary_dim in (HEAD_DIM, HEAD_DIM // 2)
        for tokens in (DRY_NUM_TOKENS if dry else NUM_TOKENS)
    ]


def torch_rope(q, k, cosines, sines, rotary_dim, interleaved):
    """New tensors (q, k), from cosines and sines (num_tokens, 1, rotary_dim / 2)."""
    return tuple(torch_turn(x, cosines, sines, rotary_dim, interleaved) for x in (q, k))


def torch_turn(x, cosines, sines, rotary_dim, interleaved):
    turned, rest = x[..., :rotary_dim].float(), x[..., rotary_dim:]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack((a * cosines - b * sines, b * cosines + a * sines), dim=-1).flatten(-2)
    else:
        a, b = turned.chunk(2, dim=-1)
        turned = torch.cat((a * cosines - b * sines, b * cosines + a * sines), dim=-1)
    return torch.cat((turned.to(x.dtype), rest), dim=-1)


def add_flashinfer(layer, q, k, positions, table, interleaved):
    """FlashInfer's kernel over a table, in place; it takes heads side by side."""

    def prepare():
        apply = installed("flashinfer", "apply_rope_with_cos_sin_cache_inplace")

        def call(q, k):
            apply(positions, q.view(len(q), -1), k.view(len(k), -1), HEAD_DIM, table, is_neox=not interleaved)

        return in_place(call, q, k)

    layer.peer("flashinfer", prepare)


def rows_of(load, options):
    """The rows of one load."""
    tokens, rotary_dim, dtype = load["num_tokens"], load["rotary_dim"], getattr(torch, load["dtype"])
    interleaved = load["style"] == "interleaved"
    q, k = (torch.randn(tokens, heads, HEAD_DIM, device=options.device).to(dtype) for heads in (HEADS, KV_HEADS))
    positions = torch.randint(0, MAX_POSITIONS, (tokens,), device=options.device)
    table = ops.cos_sin_cache(MAX_POSITIONS, rotary_dim, device=options.device)
    checked = positions[:CHECKED_TOKENS]
    wants = [reference.rope(x[:CHECKED_TOKENS], checked, rotary_dim, interleaved=interleaved) for x in (q, k)]
    num_bytes = 2 * tokens * (HEADS + KV_HEADS) * rotary_dim * q.element_size()
    layer = Layer(options, num_bytes, partial(error_of, wants=wants), TOLERANCE)
    for language in ("cuda", "triton"):
        call = partial(ops.rope, positions=positions, cos_sin=table, interleaved=interleaved, language=language)
        layer.ours("01_rope", language, partial(in_place, call, q, k))
    halves = [half[:, None, :] for half in table[positions].chunk(2, dim=-1)]
    layer.torch("formula", lambda: partial(torch_rope, q, k, *halves, rotary_dim, interleaved))
    layer.compiled(torch_rope, q, k, *halves, rotary_dim, interleaved)
    add_flashinfer(layer, q, k, positions, table, interleaved)
    yield from layer.rows(load)


def error_of(outputs, wants):
    """Error of the checked tokens."""
    return relative_error([output[: len(want)] for output, want in zip(outputs, wants, strict=True)], wants)


BENCHMARK = benchmark_of_layers(
    __doc__, __file__, keys=("style", *NAMES, "num_tokens", "rotary_dim", "dtype"),
    loads=loads, rows=rows_of, quick={"num_tokens": (8, 16384), "rotary_dim": (128,)}, graphs=True,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(BENCHMARK))
