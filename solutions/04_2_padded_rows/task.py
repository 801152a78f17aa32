"""04.2 Pad away the bank conflict: what the judge runs."""

from course_lib.grading.exercise.spec import ALL_SCHEDULES, exercise
from course_lib.grading.subjects.limits import by_limit
from course_lib.grading.subjects.matmul import cases as cases
from course_lib.grading.subjects.matmul.diagnostics import diagnose_matmul
from course_lib.grading.subjects.matmul.traffic import conflicts, reuse, shared_out, wavefronts

TILE = (32, 32)  # rows and columns of out that a block computes
BLOCK_K = 32
LIMITS = {"size_k": "numbers of k", "size_m": "rows", "size_n": "columns"}
STEP_WAVEFRONTS = 768  # of a block in a step of k: 8 warps, 8 float4 of k, 4 for b and twice 4 for the broadcasts of a


def _as_promised(case, ledger):
    """Diagnosis or None: no conflict and no way round one, each number read once by a block, the work shared out."""
    size_m, size_n, size_k = case.sizes.values()
    steps = -(-size_k // BLOCK_K)
    blocks = -(-size_m // TILE[0]) * -(-size_n // TILE[1])
    most, twice = 2 * STEP_WAVEFRONTS * steps * blocks, "twice what the padded tile takes"
    why = "of out four numbers, of the tiles at most twice an equal share"
    shared = shared_out(case, ledger, stored=16, loaded=2 * 32 * steps, why=why)
    return conflicts(case, ledger) or reuse(case, ledger, TILE) or wavefronts(case, ledger, most, twice) or shared


EXERCISE = exercise(
    __file__,
    cases=(
        cases.case("one number, four of k", 1, 1, 4, "whole numbers", schedules=ALL_SCHEDULES),
        cases.case("less than a tile", 5, 7, 12, schedules=("forward", "reverse")),
        cases.case("exactly one tile", 32, 32, 32, schedules=("forward", "random")),
        cases.case("one above a tile", 33, 33, 36, schedules=ALL_SCHEDULES),
        cases.case("wide", 3, 300, 8, schedules=("forward",)),
        cases.case("tall", 200, 2, 4),
        cases.case("whole tiles", 64, 64, 64, schedules=("forward",)),
        cases.case("ragged", 67, 40, 52),
        cases.case("longest sum", 1, 2, 2100),
    ),
    make_inputs=cases.transposed_inputs,
    **cases.tiled(TILE, block=(32, 8)),
    oracle=cases.transposed_oracle,
    baseline=cases.baseline(transposed=True),
    probes=cases.probes(35, 37, 68, square=36),
    diagnose=lambda evidence: by_limit(evidence, **LIMITS) or diagnose_matmul(evidence, BLOCK_K),
    ledger_rule=_as_promised,
)
