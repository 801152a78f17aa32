"""03.2 Online softmax in CUDA, one warp a row: what the judge runs."""

from course_lib.grading.exercise import probes
from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.softmax import bounds, cases
from course_lib.grading.subjects.softmax.diagnostics import diagnose_softmax

WARPS = (4, 1, 32, 2, 3)  # of a block, case by case; probes have the first
WIDE = 12_500  # columns: more than the registers of a warp, or 48 KB, hold


def _run(case, tensors):
    warps = case.options.get("warps", WARPS[0])
    return cases.rows_run(case, tensors, rows_per_block=warps, threads=warps * cases.WARP_SIZE)


def judge_way(case, ledger):
    """Refuses right weights with more traffic than the contract allows, in shared memory, or by few lanes."""
    found = bounds.two_sweeps(case, ledger) or bounds.without_shared_memory(case, ledger)
    num_cols = case.sizes["num_cols"]
    if found or num_cols % (4 * cases.WARP_SIZE):  # lanes that take four neighbours at a time do as well
        return found
    lane = 4 * num_cols // cases.WARP_SIZE
    return share(case, ledger, loaded=2 * lane, stored=lane, why="the 32 lanes of a warp share the columns of one row")


EXERCISE = exercise(
    __file__,
    cases=cases.with_options(
        cases.row_cases("stride", cases.WARP_SIZE) + cases.wider_cases(cases.WARP_SIZE, WIDE), "warps", WARPS
    ),
    **cases.SOFTMAX,
    make_run=_run,
    probes=(
        probes.count({"num_rows": 4, "num_cols": 85}),
        probes.step("step between strides", {"num_rows": 4, "num_cols": 64}, 32),
        probes.step("step between lanes", {"num_rows": 4, "num_cols": 32}, 16),
    ),
    diagnose=lambda evidence: diagnose_softmax(evidence, stride=cases.WARP_SIZE),
    ledger_rule=judge_way,
    bound_bytes=bounds.softmax_bound,
    usual_bytes=bounds.two_reads,
    tile=lambda case: (case.options.get("warps", WARPS[0]), cases.WARP_SIZE),
)
