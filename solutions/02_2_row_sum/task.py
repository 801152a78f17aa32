"""02.2 Sum of each row by warp shuffles: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Probe, exercise
from course_lib.grading.subjects.softmax import cases

from . import diagnostics


def sum_rows(case, gen):
    """{"x"}: for the probe "lanes" row r holds a single 1, in column r."""
    if case.values == "lanes":
        return {"x": torch.eye(case.sizes["num_rows"], case.sizes["num_cols"])}
    return cases.score_rows(case, gen)


def sequential_sum(x):
    """Sums in float32, one number after the other: from the left or from the right, whichever is further off.

    Any order is right, and a single one may happen to round to the very result: it would refuse the others.
    """
    exact = x.double().sum(dim=1)
    left, right = torch.zeros(len(x)), torch.zeros(len(x))
    for col in range(x.shape[1]):
        left, right = left + x[:, col], right + x[:, -1 - col]
    return torch.where((left - exact).abs() >= (right - exact).abs(), left, right)


EXERCISE = exercise(
    __file__,
    cases=(
        cases.rows_case("one element", 1, 1, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("one below a warp", 3, 31, schedules=("forward", "reverse")),
        cases.rows_case("exactly one warp", 4, 32, schedules=("forward",)),
        cases.rows_case("one above a warp", 5, 33, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("numbers near -100", 7, 45, "minus_100", schedules=("forward",)),
        cases.rows_case("numbers near +100", 7, 45, "plus_100", schedules=("forward",)),
        cases.rows_case("rising numbers", 6, 77, "rising", schedules=("forward", "random")),
        cases.rows_case("whole strides", 8, 128, schedules=("forward",)),
        cases.rows_case("many rows", 113, 203),
    ),
    make_inputs=sum_rows,
    make_run=lambda case, tensors: cases.rows_run(
        case,
        tensors,
        output="sums",
        rows_per_block=diagnostics.WARPS_PER_BLOCK,
        threads=diagnostics.WARPS_PER_BLOCK * cases.WARP_SIZE,
    ),
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
