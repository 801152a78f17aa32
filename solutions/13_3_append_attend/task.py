"""13.3 Append, then attend: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics

NAMES = ("q", "k", "v", "k_cache", "v_cache", "lengths")
INFINITY = float("inf")


def _case(name, lengths, num_new, heads, head_dim, room=3, values="normal", **options):
    """`heads`: (num_heads, num_kv_heads); `room`: unused places after the longest row, beyond the new ones."""
    sizes = {"batch_size": len(lengths), "num_heads": heads[0], "num_kv_heads": heads[1], "num_new": num_new}
    sizes |= {"head_dim": head_dim, "capacity": max(lengths) + num_new + room}
    return Case(name, sizes, values, "float32", {"lengths": lengths, **options})


def _inputs(case, gen):
    """{"q", "k", "v", "k_cache", "v_cache", "lengths"}; unused places of the caches hold infinity or `unused`."""
    batch_size, num_heads, num_kv_heads, num_new, head_dim, capacity = case.sizes.values()
    lengths = torch.tensor(case.options["lengths"])

    def normal(heads, rows, scale=1.0):
        return scale * torch.randn(batch_size, heads, rows, head_dim, generator=gen)

    size = case.options.get("size", 1.0)
    q, k, v = normal(num_heads, num_new, size), normal(num_kv_heads, num_new, size), normal(num_kv_heads, num_new)
    old = normal(num_kv_heads, capacity, size)
    if "low" in case.options:  # the first number is the same in all rows: it lowers all scores alike
        low = (case.options["low"] * head_dim**0.5) ** 0.5
        q[..., 0], k[..., 0], old[..., 0] = low, -low, -low
    used = (torch.arange(capacity) < lengths[:, None])[:, None, :, None]
    unused = case.options.get("unused", INFINITY)
    k_cache, v_cache = (torch.where(used, rows, unused) for rows in (old, normal(num_kv_heads, capacity)))
    return dict(zip(NAMES, (q, k, v, k_cache, v_cache, lengths), strict=True))


def _run(case, tensors):
    """The caches are outputs that hold something before, so that an answer may write into them."""
    caches = {name: tensors[name] for name in diagnostics.CACHES}
    if case.options.get("nan"):
        caches = {name: torch.where(cache.isinf(), torch.nan, cache) for name, cache in caches.items()}
    shapes = {"out": tensors["q"].shape} | {name: cache.shape for name, cache in caches.items()}
    outputs = {name: (tuple(shape), "float32") for name, shape in shapes.items()}
    inputs = {name: tensors[name] for name in ("q", "k", "v", "lengths")}
    return Run(case.name, inputs, outputs, tuple(map(Ref, NAMES)), contents=caches)


def _unread(case, tensors):
    """Unused places that hold NaN, which equals nothing; the other cases compare them."""
    outputs = diagnostics.step(tensors)
    return {name: outputs[name].isinf() for name in diagnostics.CACHES} if case.options.get("nan") else {}


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one number, empty cache, no room", [0], 1, (1, 1), 1, room=0),
        _case("one new token fills the cache", [5], 1, (2, 2), 8, room=0),
        _case("one new token, rows of 0 to 12 keys", [7, 0, 12, 1], 1, (4, 2), 16),
        _case("four new tokens, rows of 0 to 9 keys", [9, 0, 4], 4, (6, 3), 8),
        _case("eight query heads for one", [3, 6], 3, (8, 1), 5),
        _case("four query heads for each of three", [2, 11], 2, (12, 3), 20),
        _case("prefill of an empty cache", [0, 0], 13, (4, 4), 8, room=0),
        _case("as many new tokens as keys", [6, 6], 6, (4, 2), 32, room=0),
        _case("unused places hold 500", [4, 8, 1], 3, (4, 2), 8, unused=500.0),
        _case("one new token, unused places hold NaN", [9, 2], 1, (4, 2), 12, nan=True),
        _case("unused places hold NaN", [4, 8, 1], 3, (4, 2), 8, nan=True),
        _case("large scores", [10, 3], 5, (2, 1), 64, size=4.0),
        _case("scores near -16,384", [7, 2], 3, (2, 1), 16, low=2.0**14),
        _case("long rows beside short ones", [300, 2, 129], 7, (2, 1), 24, room=20),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda _case, tensors: diagnostics.oracle(tensors),
    baseline=lambda _case, tensors: diagnostics.step(tensors, dtype=torch.float32),
    rules={"out": "forward", "k_cache": "exact", "v_cache": "exact"},
    unread=_unread,
    diagnose=diagnostics.diagnose,
)
