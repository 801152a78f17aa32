"""02.5 Find the missing barrier: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Probe, exercise
from course_lib.grading.processes.protocol import Run
from course_lib.grading.subjects.softmax import cases

from .diagnostics import diagnose_centre

THREADS = 64  # of a block

BLOCKS_IN_TURN = 2  # fewer than rows, so that a block takes one row after the other


def centre_rows(case, gen):
    """{"x"}: for the probe "constant rows" row r holds nothing but r + 1."""
    if case.values == "constant_rows":
        rows = torch.arange(1.0, case.sizes["num_rows"] + 1.0)
        return {"x": rows[:, None].repeat(1, case.sizes["num_cols"])}
    return cases.score_rows(case, gen)


def centre_run(case, tensors):
    run = cases.rows_run(case, tensors, threads=THREADS, constants={"BLOCK": THREADS})
    return Run(
        run.name, run.inputs, run.outputs, run.arguments, (BLOCKS_IN_TURN, 1, 1), run.block, constants=run.constants
    )


def centred(x):
    return {"out": x - x.mean(dim=1, keepdim=True)}


def rows_of_out(_inputs, outputs):
    """The rows of out, as lists."""
    return outputs["out"].tolist()


EXERCISE = exercise(
    __file__,
    cases=(
        cases.rows_case("one element", 1, 1, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("one row a block", 2, 65, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("two rows a block", 4, 64, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("rows shorter than the block", 5, 37, schedules=cases.ALL_SCHEDULES),
        cases.rows_case("numbers near +100", 7, 129, "plus_100", schedules=("forward", "reverse")),
        cases.rows_case("numbers near -100", 6, 100, "minus_100", schedules=("random",)),
        cases.rows_case("rising numbers", 3, 203, "rising", schedules=("forward",)),
        cases.rows_case("many rows", 61, 300),
    ),
    make_inputs=centre_rows,
    make_run=centre_run,
    oracle=lambda _case, tensors: centred(tensors["x"].double()),
    baseline=lambda _case, tensors: centred(tensors["x"]),
    rules={"out": "forward"},
    probes=(
        Probe(
            "constant rows",
            cases.rows_case("constant rows", 5, 37, "constant_rows"),
            lambda _inputs, outputs: outputs["out"].tolist(),
        ),
    ),
    diagnose=diagnose_centre,
    bound_bytes=lambda case: (
        8 * case.sizes["num_rows"] * case.sizes["num_cols"],
        "every number read once and written once, 4 bytes each",
    ),
    usual_bytes=lambda case: 12 * case.sizes["num_rows"] * case.sizes["num_cols"],
    tile=lambda case: (1, THREADS),
)
