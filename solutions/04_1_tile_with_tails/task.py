"""04.1 A tile with tails: what the judge runs."""

from course_lib.grading.exercise.spec import ALL_SCHEDULES, exercise
from course_lib.grading.subjects.matmul import cases as cases
from course_lib.grading.subjects.matmul.diagnostics import diagnose_matmul
from course_lib.grading.subjects.matmul.traffic import reuse

TILE = (8, 32)  # rows and columns of out that a block computes
BLOCK_K = 32

EXERCISE = exercise(
    __file__,
    cases=(
        cases.case("one number", 1, 1, 1, "whole numbers", schedules=ALL_SCHEDULES),
        cases.case("less than a tile", 5, 7, 3, schedules=ALL_SCHEDULES),
        cases.case("exactly one tile", 8, 32, 32, schedules=("forward", "reverse")),
        cases.case("one above a tile", 9, 33, 33, schedules=ALL_SCHEDULES),
        cases.case("one below a tile", 7, 31, 31, schedules=("random",)),
        cases.case("tall", 45, 3, 20, schedules=("forward",)),
        cases.case("wide", 3, 70, 5, schedules=("forward",)),
        cases.case("long sums", 6, 9, 203, schedules=("reverse",)),
        cases.case("positive numbers", 4, 40, 300, "positive"),
        cases.case("whole tiles", 16, 64, 64, schedules=("forward",)),
        cases.case("ragged", 67, 101, 53),
    ),
    make_inputs=cases.inputs,
    make_run=lambda case, tensors: cases.run(case, tensors, tile=TILE, block=(32, 8)),
    oracle=cases.oracle,
    baseline=cases.baseline(),
    rules={"out": "forward"},
    probes=cases.probes(11, 37, 69, square=37),
    diagnose=lambda evidence: diagnose_matmul(evidence, BLOCK_K),
    ledger_rule=lambda case, ledger: reuse(case, ledger, TILE),
    bound_bytes=cases.fewest_bytes,
    usual_bytes=lambda case: cases.tiled_bytes(case, TILE),
    question="Which numbers does a block read twice?",
    tile=lambda case: TILE,
)
