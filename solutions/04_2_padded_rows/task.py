"""04.2 Pad away the bank conflict: what the judge runs."""

from course_lib.grading.exercise.spec import ALL_SCHEDULES, exercise
from course_lib.grading.subjects.matmul import cases as cases
from course_lib.grading.subjects.matmul.diagnostics import diagnose_matmul
from course_lib.grading.subjects.matmul.traffic import conflicts, reuse

TILE = (32, 32)  # rows and columns of out that a block computes
BLOCK_K = 32


def _without_conflicts(case, ledger):
    """Diagnosis or None: judged on whole tiles."""
    whole = case.sizes["size_m"] % TILE[0] == 0 and case.sizes["size_n"] % TILE[1] == 0
    return conflicts(case, ledger) or reuse(case, ledger, TILE) if whole else None


EXERCISE = exercise(
    __file__,
    cases=(
        cases.case("one number, four of k", 1, 1, 4, "whole numbers", schedules=ALL_SCHEDULES),
        cases.case("less than a tile", 5, 7, 12, schedules=("forward", "reverse")),
        cases.case("exactly one tile", 32, 32, 32, schedules=("forward", "random")),
        cases.case("one above a tile", 33, 33, 36, schedules=ALL_SCHEDULES),
        cases.case("wide", 3, 70, 8, schedules=("forward",)),
        cases.case("whole tiles", 64, 64, 64, schedules=("forward",)),
        cases.case("ragged", 67, 101, 52),
    ),
    make_inputs=cases.transposed_inputs,
    make_run=lambda case, tensors: cases.run(case, tensors, tile=TILE, block=(32, 8)),
    oracle=cases.transposed_oracle,
    baseline=cases.baseline(transposed=True),
    rules={"out": "forward"},
    probes=cases.probes(35, 37, 68, square=36),
    diagnose=lambda evidence: diagnose_matmul(evidence, BLOCK_K),
    ledger_rule=_without_conflicts,
    bound_bytes=cases.fewest_bytes,
    usual_bytes=lambda case: cases.tiled_bytes(case, TILE),
    question="Which numbers does a block read twice?",
    tile=lambda case: TILE,
)
