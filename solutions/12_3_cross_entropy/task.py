"""12.3 Cross-entropy without probabilities: what the judge runs."""

import torch

from course_lib.grading.exercise import inputs, magnitude
from course_lib.grading.exercise.spec import Case, exercise, late
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics
from .diagnostics import BEYOND, ignored, rows_of

BLOCK_N = 32  # logits of a tile, where a case does not say otherwise
SCHEDULES = ("forward", "reverse", "random")


def _case(name, num_rows, num_cols, values="normal", schedules=(), **options):
    """Options: "block_n", "ignore_index", "ignore" (rows), "gap", "scale", "target" (column of every row)."""
    return Case(name, {"num_rows": num_rows, "num_cols": num_cols}, values, "float32", options, schedules)


def _inputs(case, gen):
    """{"before": (1, num_rows, num_cols + gap), "targets": (num_rows,) int64}; ignored rows hold NaN, infinities."""
    num_rows, num_cols = case.sizes.values()
    ignore_index = case.options.get("ignore_index", -100)
    logits = inputs.scores("normal" if case.values == "pm_10000" else case.values, (num_rows, num_cols), "float32", gen)
    if case.values == "pm_10000":
        logits = logits.clamp(-5.0, 5.0) + torch.tensor([1e4, -10_015.0, 0.0])[torch.arange(num_rows) % 3][:, None]
    targets = torch.randint(num_cols, (num_rows,), generator=gen)
    if case.options.get("target") is not None:
        targets[:] = case.options["target"]
    if 0 <= ignore_index < num_cols:
        targets = torch.where(targets == ignore_index, (ignore_index + 1) % num_cols, targets)
    for row in case.options.get("ignore", ()):
        targets[row] = ignore_index
        logits[row] = torch.tensor([float("nan"), float("inf"), -float("inf")])[torch.arange(num_cols) % 3]
    gap = torch.full((num_rows, case.options.get("gap", 0)), BEYOND)
    return {"before": torch.cat((logits, gap), dim=1)[None], "targets": targets}


def _largest(case, tensors):
    used = ~ignored(case, tensors)
    return magnitude.largest(rows_of(case, tensors)[used])


def _run(case, tensors):
    before = tensors["before"][0]
    options = case.options
    numbers = case.sizes["num_cols"], before.shape[1], options.get("ignore_index", -100), options.get("scale", 1.0)
    return Run(
        case.name,
        {"targets": tensors["targets"]},
        {"d_logits": (tuple(before.shape), "float32"), "loss": ((len(before),), "float32")},
        (Ref("d_logits"), Ref("targets"), Ref("loss"), *numbers),
        (len(before), 1, 1),
        constants={"BLOCK_N": options.get("block_n", BLOCK_N)},
        contents={"d_logits": before},
    )


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one logit", 1, 1, schedules=SCHEDULES),
        _case("exactly one tile", 2, 32, schedules=SCHEDULES),
        _case("one below a tile", 3, 31),
        _case("one above a tile, rows apart", 3, 33, gap=5, scale=0.25),
        _case("rising logits", 2, 100, "rising", scale=3.0),
        _case("falling logits, tiles of 16", 2, 75, "falling", block_n=16),
        _case("logits near -100", 2, 45, "minus_100"),
        _case("logits near 10,000, -10,000 and 0", 3, 70, "pm_10000"),
        _case("rows that start with -inf", 2, 99, "leading_masked", target=98),
        _case("a target at -inf", 2, 99, "leading_masked", target=5),
        _case("one logit of 120", 3, 60, "spikes", scale=0.125),
        _case("ignored rows", 5, 50, ignore=(0, 3), gap=2),
        _case("ignore_index 0", 4, 40, ignore=(1,), ignore_index=0),
        _case("all rows ignored", 2, 37, ignore=(0, 1), ignore_index=-1),
        _case("the last target", 2, 67, target=66),
        _case("1,000 logits, tiles of 256", 2, 1000, block_n=256, scale=0.5),
        _case("5,000 logits, tiles of 128", 1, 5000, block_n=128),
        late(_case("70,000 logits, tiles of 8,192", 1, 70_000, block_n=8192, target=69_999)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=diagnostics.right,
    baseline=lambda case, tensors: diagnostics.right(case, tensors, torch.float32),
    rules={"d_logits": "weights", "loss": "lse"},
    largest_score=_largest,
    forbidden=("triton.language.softmax", "triton.language.standard.softmax"),
    diagnose=diagnostics.diagnose,
    ledger_rule=diagnostics.two_sweeps,
    bound_bytes=diagnostics.bound,
    usual_bytes=lambda case: diagnostics.bound(case)[0],
    tile=lambda case: (1, BLOCK_N),
)
