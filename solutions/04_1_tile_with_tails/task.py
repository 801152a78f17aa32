"""04.1 A tile with tails: what the judge runs."""

from course_lib.grading.exercise.spec import ALL_SCHEDULES, exercise, late
from course_lib.grading.subjects.limits import by_limit
from course_lib.grading.subjects.matmul import cases as cases
from course_lib.grading.subjects.matmul.diagnostics import diagnose_matmul
from course_lib.grading.subjects.matmul.traffic import reuse, shared_out

TILE = (8, 32)  # rows and columns of out that a block computes
BLOCK_K = 32
LOADS = 2 * 5 * 4  # bytes of a thread in a step: twice its part of the two tiles, which have 5 numbers for each thread
LIMITS = {"size_k": "numbers of k", "size_m": "rows", "size_n": "columns"}


def _as_promised(case, ledger):
    """Diagnosis or None: each number read once by a block that needs it and written once, the work shared out."""
    steps = -(-case.sizes["size_k"] // BLOCK_K)
    why = "of out its own number, of the tiles at most twice an equal share"
    return reuse(case, ledger, TILE) or shared_out(case, ledger, stored=4, loaded=LOADS * steps, why=why)


EXERCISE = exercise(
    __file__,
    cases=(
        cases.case("one number", 1, 1, 1, "whole numbers", schedules=ALL_SCHEDULES),
        cases.case("less than a tile", 5, 7, 3, schedules=ALL_SCHEDULES),
        cases.case("exactly one tile", 8, 32, 32, schedules=("forward", "reverse")),
        late(cases.case("one above a tile", 9, 33, 33, schedules=ALL_SCHEDULES)),
        cases.case("one below a tile", 7, 31, 31, schedules=("random",)),
        cases.case("one infinite number", 3, 5, 37, "one infinite"),
        cases.case("one infinite number in b", 3, 5, 37, "one infinite in b"),
        cases.case("infinities that meet", 3, 5, 37, "infinities that meet"),
        cases.case("long sums", 6, 9, 300, schedules=("reverse",)),
        late(cases.case("positive numbers", 4, 40, 300, "positive")),
        cases.case("whole tiles", 16, 64, 64, schedules=("forward",)),
        cases.case("ragged", 35, 69, 53),
        cases.case("tall", 130, 1, 1),
        cases.case("wide", 1, 300, 2, schedules=("forward",)),
        late(cases.case("longest sum", 1, 2, 4100)),
    ),
    make_inputs=cases.inputs,
    **cases.tiled(TILE, block=(32, 8)),
    oracle=cases.oracle,
    baseline=cases.baseline(),
    probes=cases.probes(11, 37, 69, square=37),
    diagnose=lambda evidence: by_limit(evidence, **LIMITS) or diagnose_matmul(evidence, BLOCK_K),
    ledger_rule=_as_promised,
)
