"""04.4 A matrix product in Triton: what the judge runs."""

from dataclasses import replace

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.matmul import cases as cases
from course_lib.grading.subjects.matmul.diagnostics import diagnose_matmul

TILE = (16, 32)
BLOCK_K = 16
CONSTANTS = {"BLOCK_M": TILE[0], "BLOCK_N": TILE[1], "BLOCK_K": BLOCK_K, "GROUP_M": 2}
BOTH = ("forward", "reverse")


def _case(name, size_m, size_n, size_k, values="normal", schedules=("forward",)):
    return cases.case(name, size_m, size_n, size_k, values, schedules, dtype="float16")


def _run(case, tensors):
    """One program for each tile, in a grid of one dimension."""
    run = cases.run(case, tensors, tile=TILE, block=(1,), out_dtype="float16", constants=CONSTANTS)
    return replace(run, grid=(run.grid[0] * run.grid[1], 1, 1))


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one number", 1, 1, 1, "whole numbers", schedules=BOTH),
        _case("less than a tile", 5, 7, 3, schedules=BOTH),
        _case("exactly one tile", 16, 32, 16),
        _case("one above a tile", 17, 33, 17, schedules=BOTH),
        _case("tall, three rows of tiles", 40, 9, 20),
        _case("wide", 3, 100, 8),
        _case("long sums", 20, 20, 203),
        _case("long sums of positive numbers", 4, 8, 600, "positive"),
        _case("whole tiles", 32, 64, 32),
        _case("ragged, five rows of tiles", 70, 90, 45),
    ),
    make_inputs=cases.inputs,
    make_run=_run,
    oracle=cases.oracle,
    baseline=cases.baseline("float16"),
    rules={"out": "forward"},
    probes=cases.probes(19, 37, 37, dtype="float16"),
    diagnose=lambda evidence: diagnose_matmul(evidence, BLOCK_K),
    bound_bytes=lambda case: cases.fewest_bytes(case, 2, 2),
    usual_bytes=lambda case: cases.tiled_bytes(case, TILE, 2, 2),
    question="Which numbers does a program read that no tile of it needs?",
    tile=lambda case: TILE,
)
