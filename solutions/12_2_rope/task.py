"""12.2 RoPE at any positions: what the judge runs."""

import math

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics

SCHEDULES = ("forward", "reverse", "random")


def _case(name, num_tokens, num_heads, head_dim, rotary_dim=None, first=0, schedules=(), **options):
    """`first`: the smallest position; "times": of the smallest tile; "interleaved", "base", "gaps", "order"."""
    sizes = {"num_tokens": num_tokens, "num_heads": num_heads, "head_dim": head_dim}
    more = {"rotary_dim": rotary_dim or head_dim, "first": first, **options}
    return Case(name, sizes, options.get("order", "in order"), "float32", more, schedules)


def _inputs(case, gen):
    """{"before": (1, num_tokens, stride_token) float, "positions": (num_tokens,) int32}."""
    num_tokens, num_heads, head_dim = case.sizes.values()
    gap_head, gap_token = case.options.get("gaps", (0, 0))
    width = num_heads * (head_dim + gap_head) + gap_token
    before = torch.randn(1, num_tokens, width, generator=gen)
    positions = case.options["first"] + torch.arange(num_tokens)
    if case.values == "any order":
        positions = case.options["first"] + torch.randperm(3 * num_tokens, generator=gen)[:num_tokens]
    if case.values == "downwards":
        positions = case.options["first"] - torch.arange(num_tokens)
    if case.values == "all equal":
        positions = torch.full((num_tokens,), case.options["first"])
    return {"before": before, "positions": positions.int()}


def _oracle(case, tensors):
    return {"x": diagnostics.turned(case, tensors)}


def _baseline(case, tensors):
    return {"x": diagnostics.turned(case, tensors, dtype=torch.float32)}


def _run(case, tensors):
    num_tokens, num_heads, head_dim = case.sizes.values()
    before, rotary_dim = tensors["before"][0], case.options["rotary_dim"]
    stride_head = head_dim + case.options.get("gaps", (0, 0))[0]
    log2_base = math.log2(case.options.get("base", 10000.0))
    return Run(
        case.name,
        {"positions": tensors["positions"]},
        {"x": (tuple(before.shape), "float32")},
        (Ref("x"), Ref("positions"), before.shape[1], stride_head, head_dim, rotary_dim, log2_base),
        (num_heads, num_tokens, 1),
        constants={
            "INTERLEAVED": case.options.get("interleaved", False),
            "BLOCK_PAIRS": case.options.get("times", 1) << max(rotary_dim // 2 - 1, 0).bit_length(),
        },
        contents={"x": before},
    )


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one pair at position 1", 1, 1, 2, first=1, schedules=SCHEDULES),
        _case("position 0", 1, 2, 8),
        _case("a prompt from 0 on", 5, 2, 16, schedules=SCHEDULES),
        _case("a prompt from 7 on", 5, 2, 16, first=7),
        _case("any order", 6, 3, 32, order="any order", first=2),
        _case("any order, interleaved", 6, 3, 32, order="any order", first=2, interleaved=True),
        _case("equal positions", 4, 1, 16, order="all equal", first=11),
        _case("partial: 16 of 24", 4, 2, 24, 16, first=3, times=2),
        _case("partial, interleaved: 12 of 20", 4, 2, 20, 12, first=3, interleaved=True, times=2),
        _case("6 numbers, tiles of 16 pairs", 3, 2, 6, first=5, times=4),
        _case("heads and tokens apart", 4, 3, 8, first=9, gaps=(4, 10)),
        _case("base 500,000", 5, 1, 64, first=20, base=500_000.0, order="any order"),
        _case("base 100, interleaved", 5, 1, 10, first=20, base=100.0, interleaved=True),
        _case("from position 4,095 down", 4, 1, 64, first=4095, order="downwards"),
        _case("head_dim 256, 40 tokens", 40, 1, 256, first=1, order="any order"),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=_oracle,
    baseline=_baseline,
    rules={"x": "forward"},
    diagnose=diagnostics.diagnose,
    ledger_rule=diagnostics.one_sweep,
    bound_bytes=diagnostics.bound,
    usual_bytes=lambda case: diagnostics.bound(case)[0],
    tile=lambda case: (1, case.sizes["head_dim"]),
)
