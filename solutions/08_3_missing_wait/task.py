"""08.3 Find the missing wait: what the judge runs."""

import torch

from course_lib.grading.exercise.dtypes import in_both_dtypes
from course_lib.grading.exercise.spec import ALL_SCHEDULES, Case, exercise
from course_lib.grading.processes.protocol import MapRef, Ref, Run

from .waits import explain, judge_overlap

TILE, TILE_BYTES = 64, 8192


def _case(part, num_tiles, scale=0.125, schedules=ALL_SCHEDULES, *, factor=1):
    """`factor`: of q and of k."""
    name = f"loop {part}, {num_tiles} tile{'s' if num_tiles > 1 else ''}{', large scores' if factor > 1 else ''}"
    options = {"scale": scale, "factor": factor}
    values = "normal" if factor == 1 else "scores up to about 5e5 before the scale"
    return Case(name, {"part": part, "num_tiles": num_tiles}, values, "float32", options, schedules)


def _inputs(case, gen):
    rows = {"q": TILE, "k": TILE * case.sizes["num_tiles"], "v": TILE * case.sizes["num_tiles"]}
    drawn = {name: torch.randn(count, TILE, generator=gen) for name, count in rows.items()}
    return {name: (x if name == "v" else x * case.options["factor"]).half() for name, x in drawn.items()}


def _run(case, tensors):
    maps = (MapRef(name, (TILE, TILE), "128B") for name in "qkv")
    return Run(
        case.name,
        tensors,
        {"out": ((TILE, TILE), "float32")},
        (*maps, Ref("out"), *case.sizes.values(), case.options["scale"]),
        block=(160, 1, 1),
        shared_bytes=5 * TILE_BYTES,
        timeline=True,
    )


def _sums(case, tensors, dtype):
    """The sum over the tiles; `dtype` float32 rounds the weights as the kernel does."""
    q, k, v = (tensors[name].to(dtype) for name in "qkv")
    weights = case.options["scale"] * (q @ k.T)
    return {"out": (weights if dtype == torch.float64 else weights.half().float()) @ v}


EXERCISE = exercise(
    __file__,
    cases=(
        *(_case(part, 1) for part in range(3)),
        *(_case(part, 2, 0.25) for part in range(3)),
        *(_case(part, 3, -1.0) for part in range(3)),
        *(_case(part, 5, 2.0**-18, schedules=("reverse", "random"), factor=128) for part in range(3)),
        *(_case(part, 18, 0.5, schedules=("forward",)) for part in range(3)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    **in_both_dtypes(_sums),
    rules={"out": "forward"},
    explain=explain,
    ledger_rule=judge_overlap,
)
