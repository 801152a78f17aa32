"""03.5 Log-sum-exp in CUDA, half in, float out: what the judge runs."""

from course_lib.grading.exercise.spec import exercise, late
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.softmax import cases
from course_lib.grading.subjects.softmax.lse import diagnose_lse, lse_probes

BLOCK = 64  # threads of a block, in probes and in the cases whose names speak of a block
OTHERS = (BLOCK, 1024, 32)  # in the other cases, in turn
LATE = ("scores near -100", "masked scores", "rising scores")  # 1,024 threads for a few columns
WIDE = 25_000  # scores: more than 48 KB, or the registers of a block, hold


def _cases():
    found = cases.row_cases("block", BLOCK, dtype="float16") + cases.wider_cases(BLOCK, WIDE, "float16", low=12000)
    named = tuple(case for case in found if "block" in case.name)
    others = tuple(case for case in found if "block" not in case.name)
    others = cases.with_options(others, "block", OTHERS)
    return named + tuple(late(case) if case.name in LATE else case for case in others)


def _run(case, tensors):
    block = case.options.get("block", BLOCK)
    return cases.rows_run(case, tensors, output="lse", threads=block, constants={"BLOCK": block})


def lse_bound(case):
    """Fewest bytes: every score read once (2 bytes), one float a row written."""
    num_rows, num_cols = case.sizes["num_rows"], case.sizes["num_cols"]
    count = num_rows * num_cols
    return 2 * count + 4 * num_rows, f"{count:,} scores of 2 bytes read once, {num_rows:,} results of 4 bytes written"


def judge_way(case, ledger):
    """Refuses right values with more traffic than the contract allows, or with threads that do the work of others."""
    num_rows, num_cols = case.sizes.values()
    why = "each score is read once, and each result written once, as the source says it"
    found = moved(case, ledger, read=2 * num_rows * num_cols, written=4 * num_rows, why=why)
    if found or num_cols % (2 * BLOCK) or "block" in case.options:  # threads that take pairs of scores do as well
        return found
    return share(case, ledger, loaded=2 * num_cols // BLOCK, why="the threads of a block share one row")


EXERCISE = exercise(
    __file__,
    cases=_cases(),
    **cases.LSE,
    make_run=_run,
    probes=lse_probes(BLOCK),
    diagnose=lambda evidence: diagnose_lse(evidence, stride=BLOCK),
    ledger_rule=judge_way,
    bound_bytes=lse_bound,
    usual_bytes=lambda case: lse_bound(case)[0],
    tile=lambda case: (1, 1),
)
