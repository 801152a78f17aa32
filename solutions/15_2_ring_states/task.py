"""15.2 Merge ring states: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise, late
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics


def _case(name, world, block_len, heads, head_dim, values="normal", order="rising", causal=True, padding=0, scale=None):
    num_heads, num_kv_heads = heads
    sizes = {"world": world, "block_len": block_len, "num_heads": num_heads, "num_kv_heads": num_kv_heads}
    options = {"causal": causal, "padding": padding, "order": order, "scale": scale or head_dim**-0.5}
    return Case(name, sizes | {"head_dim": head_dim}, values, options=options)


def _positions(case, gen):
    """(world, block_len) int64: which token is where; -1 is padding."""
    world, block_len, order = case.sizes["world"], case.sizes["block_len"], case.options["order"]
    positions = torch.arange(world * block_len)
    if order == "zig-zag":
        chunks = positions.chunk(2 * world)
        positions = torch.cat([torch.cat((chunks[r], chunks[2 * world - 1 - r])) for r in range(world)])
    if order == "drawn":
        positions = torch.randperm(world * block_len, generator=gen)
    real = world * block_len - case.options["padding"]
    return torch.where(positions < real, positions, -1).view(world, block_len)


def _inputs(case, gen):
    """{"q", "k", "v", "positions"}, the blocks of all ranks; padding has v of 500."""
    world, block_len, num_heads, num_kv_heads, head_dim = case.sizes.values()
    q = torch.randn(world, num_heads, block_len, head_dim, generator=gen)
    k, v = (torch.randn(world, num_kv_heads, block_len, head_dim, generator=gen) for _ in range(2))
    positions = _positions(case, gen)
    shift = {"minus_100": -100.0, "plus_100": 100.0}.get(case.values)
    if shift is not None:
        q[..., 0], k[..., 0] = 1.0, shift / case.options["scale"]
    if case.values in ("rising", "falling"):  # along the positions, so that the largest score moves from rank to rank
        slope = 60.0 / positions.numel() * (1.0 if case.values == "rising" else -1.0)
        q[..., 0], k[..., 0] = 1.0, (slope * positions / case.options["scale"])[:, None]
    v[(positions < 0)[:, None].expand(v.shape[:3])] = 500.0
    return {"q": q, "k": k, "v": v, "positions": positions}


def _run(case, tensors):
    shape = tuple(tensors["q"].shape)
    outputs = {"out": (shape, "float32"), "lse": (shape[:3], "float32")}
    arguments = (*map(Ref, ("q", "k", "v", "positions")), case.options["causal"], case.options["scale"])
    return Run(case.name, tensors, outputs, arguments, world=case.sizes["world"], gloo=case.late)


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one token, one rank", 1, 1, (1, 1), 1),
        _case("two ranks", 2, 5, (2, 2), 8),
        _case("three ranks, every key", 3, 4, (2, 1), 4, causal=False),
        _case("zig-zag order, four ranks", 4, 6, (4, 2), 8, order="zig-zag", scale=0.5),
        _case("padding at the end", 5, 4, (3, 3), 8, padding=3),
        _case("a rank of padding alone", 3, 4, (2, 2), 8, padding=6, scale=0.21),
        _case("padding, every key", 4, 3, (2, 2), 16, causal=False, padding=4),
        _case("any order, one token each", 5, 1, (1, 1), 8, order="drawn"),
        _case("any order, padding", 3, 7, (6, 2), 4, order="drawn", padding=5),
        _case("scores near -100", 3, 5, (2, 2), 8, "minus_100"),
        _case("scores near 100", 3, 5, (2, 1), 8, "plus_100", order="drawn"),
        _case("scores rise along the keys", 4, 9, (2, 2), 8, "rising"),
        _case("scores fall along the keys", 4, 9, (2, 2), 8, "falling", causal=False),
        _case("eight ranks", 8, 13, (4, 1), 32),
        late(_case("two processes over gloo", 2, 6, (2, 1), 8, order="zig-zag")),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: diagnostics.whole(case, {n: x.double() for n, x in tensors.items()}),
    baseline=lambda case, tensors: diagnostics.whole(case, tensors),
    rules={"out": "weights", "lse": "lse"},
    largest_score=lambda case, tensors: diagnostics.largest_score(case, tensors),
    diagnose=diagnostics.diagnose,
    ledger_rule=diagnostics.once_round,
)
