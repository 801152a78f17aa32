"""02.2 Sum of each row by warp shuffles: what the judge runs."""

import numpy as np
import torch

from course_lib.grading.exercise.spec import Case, Probe, exercise
from course_lib.grading.subjects.softmax import cases

from . import diagnostics


def sum_rows(case, gen):
    """{"x"}: for the probe "lanes" row r holds a single 1, in column r."""
    if case.values == "lanes":
        return {"x": torch.eye(case.sizes["num_rows"], case.sizes["num_cols"])}
    return {"x": case.options.get("times", 1.0) * cases.score_rows(case, gen)["x"]}


def sequential_sum(x):
    """Sums in float32, one number after the other: from the left or from the right, whichever is further off.

    Any order is right, and a single one may happen to round to the very result: it would refuse the others.
    """
    exact = x.double().sum(dim=1)
    left, right = (torch.from_numpy(np.add.accumulate(one.numpy(), axis=1))[:, -1] for one in (x, x.flip(1)))
    return torch.where((left - exact).abs() >= (right - exact).abs(), left, right)


def _case(
    name, num_rows, num_cols, values="normal", schedules=("forward",), warps=diagnostics.WARPS_PER_BLOCK, **options
):
    """A case whose blocks have `warps` warps, each with a row."""
    sizes = {"num_rows": num_rows, "num_cols": num_cols}
    return Case(name, sizes, values, options={"warps": warps, **options}, schedules=schedules)


def _run(case, tensors):
    warps = diagnostics.warps_of(case)
    return cases.rows_run(case, tensors, output="sums", rows_per_block=warps, threads=warps * cases.WARP_SIZE)


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one element", 1, 1, schedules=cases.ALL_SCHEDULES),
        _case("one below a warp", 3, 31, schedules=("forward", "reverse")),
        _case("exactly one warp", 4, 32),
        _case("one above a warp", 5, 33, schedules=cases.ALL_SCHEDULES),
        _case("numbers near -1e35", 7, 45, "minus_100", times=1e33),
        _case("numbers near +100", 7, 45, "plus_100"),
        _case("rising numbers, blocks of one warp", 6, 77, "rising", schedules=("forward", "random"), warps=1),
        _case("whole strides, blocks of three warps", 8, 128, warps=3),
        _case("long rows, blocks of two warps", 5, 16_500, schedules=(), warps=2),
        _case("many rows, blocks of 32 warps", 300, 77, schedules=(), warps=32),
    ),
    make_inputs=sum_rows,
    make_run=_run,
    oracle=lambda _case, tensors: {"sums": tensors["x"].double().sum(dim=1)},
    baseline=lambda _case, tensors: {"sums": sequential_sum(tensors["x"])},
    rules={"sums": "forward"},
    probes=(
        Probe("count", cases.rows_case("count", 4, 85, "ones"), lambda _inputs, outputs: outputs["sums"][0].item()),
        Probe("lanes", cases.rows_case("lanes", 32, 32, "lanes"), lambda _inputs, outputs: outputs["sums"].tolist()),
    ),
    diagnose=diagnostics.diagnose_row_sum,
    ledger_rule=diagnostics.only_shuffles,
    bound_bytes=lambda case: diagnostics.row_sum_bound(case),
    usual_bytes=lambda case: diagnostics.row_sum_bound(case)[0],
    tile=lambda case: (1, 1),
)
