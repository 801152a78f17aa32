"""08.2 A two-stage pipeline: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import ALL_SCHEDULES, Case, exercise, late
from course_lib.grading.processes.protocol import MapRef, Ref, Run

from .ring import explain
from .tiles import diagnose_sums, judge_way, tiles_of

OUTSIDE = float("inf")  # in rows of x that belong to no segment


def _case(name, lengths, tiles=(2, 8, 64), *, before=0, after=0, schedules=("forward",)):
    stages, tile_rows, cols = tiles
    sizes = {"blocks": len(lengths), "stages": stages, "tile_rows": tile_rows, "cols": cols}
    return Case(name, sizes, "integers", "float32", {"lengths": lengths, "before": before, "after": after}, schedules)


def _inputs(case, gen):
    """{"x": (num_rows, cols) small whole numbers, inf in rows of no segment; "starts": (blocks + 1,) int32}"""
    before, lengths = case.options["before"], torch.tensor(case.options["lengths"])
    rows = before + int(lengths.sum()) + case.options["after"]
    x = torch.randint(-500, 501, (max(rows, 1), case.sizes["cols"]), generator=gen).float()
    x[:before] = OUTSIDE
    x[before + int(lengths.sum()) :] = OUTSIDE
    starts = torch.cat([torch.tensor([before]), before + lengths.cumsum(0)]).to(torch.int32)
    return {"x": x, "starts": starts}


def _run(case, tensors):
    blocks, stages, tile_rows, cols = case.sizes.values()
    return Run(
        case.name,
        tensors,
        {"out": ((blocks, cols), "float32")},
        (MapRef("x", (tile_rows, cols)), Ref("starts"), Ref("out")),
        grid=(blocks, 1, 1),
        block=(32 + cols, 1, 1),
        shared_bytes=stages * tile_rows * cols * 4,
        constants={"NUM_STAGES": stages, "TILE_ROWS": tile_rows, "NUM_COLS": cols},
        timeline=True,
    )


def _oracle(_case, tensors):
    starts = tensors["starts"].tolist()
    sums = [tensors["x"][a:b].double().sum(dim=0) for a, b in zip(starts, starts[1:], strict=False)]
    return {"out": torch.stack(sums)}


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one row", (1,), schedules=ALL_SCHEDULES),
        _case("no row at all", (0,), after=5),
        _case("exactly one tile", (8,), schedules=ALL_SCHEDULES),
        _case("one row more than a tile", (9,), after=3, schedules=ALL_SCHEDULES),
        _case("two tiles", (16,), before=2, schedules=ALL_SCHEDULES),
        _case("three tiles: the ring wraps", (24,), schedules=ALL_SCHEDULES),
        _case("five tiles, the last one short", (39,), before=3, schedules=ALL_SCHEDULES),
        _case("several blocks", (20, 0, 1, 47), before=1, after=2, schedules=ALL_SCHEDULES),
        _case("sixteen tiles", (128,), schedules=("random",)),
        late(_case("three stages", (4, 31, 0, 12), (3, 5, 32), after=9, schedules=ALL_SCHEDULES)),
        late(_case("four stages, wide rows", (130, 17), (4, 16, 128), before=4, schedules=("reverse",))),
        late(_case("one stage, 101 tiles", (403,), (1, 4, 32), schedules=("random",))),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=_oracle,
    baseline=lambda case, tensors: {"out": _oracle(case, tensors)["out"].float()},
    rules={"out": "exact"},
    diagnose=diagnose_sums,
    explain=explain,
    ledger_rule=judge_way,
    bound_bytes=lambda case: (
        4 * case.sizes["cols"] * (sum(case.options["lengths"]) + case.sizes["blocks"]),
        "each row of a segment read once and each sum written once, 4 bytes a number",
    ),
    usual_bytes=lambda case: (
        4 * case.sizes["cols"] * (tiles_of(case) * case.sizes["tile_rows"] + case.sizes["blocks"])
        + 8 * case.sizes["blocks"] * (32 + case.sizes["cols"])
    ),
    question="Which tile is loaded more often than once?",
)
