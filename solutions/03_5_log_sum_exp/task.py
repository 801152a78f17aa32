"""03.5 Log-sum-exp in CUDA, half in, float out: what the judge runs."""

from course_lib.grading.exercise.spec import exercise, late
from course_lib.grading.subjects.ledger.moved import moved
from course_lib.grading.subjects.ledger.share import share
from course_lib.grading.subjects.softmax import bounds, cases
from course_lib.grading.subjects.softmax.lse import diagnose_lse, lse_probes
from course_lib.grading.subjects.softmax.one_size import by_size, size_probes

BLOCK = 64  # threads of a block, in probes and in the cases whose names speak of a block
OTHERS = (32, BLOCK)  # in the other cases, in turn
LATE = {"scores near -100": 1024, "masked scores": 256, "rising scores": 512, "scores near +13000": 128}
BLOCKS = (32, 64, 128, 256, 512, 1024)
WIDE = 25_000  # scores: more than 48 KB, or the registers of a block, hold


def _cases():
    found = cases.row_cases("block", BLOCK, dtype="float16") + cases.wider_cases(BLOCK, WIDE, "float16", limit=13000)
    named = tuple(case for case in found if "block" in case.name)
    others = tuple(case for case in found if "block" not in case.name)
    early = cases.with_options((case for case in others if case.name not in LATE), "block", OTHERS)
    last = tuple(case for case in others if case.name in LATE)
    blocks = tuple(LATE[case.name] for case in last)
    return named + early + tuple(late(case) for case in cases.with_options(last, "block", blocks))


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
    most = bounds.most_scores(num_cols, case.options.get("block", BLOCK))
    return found or share(case, ledger, loaded=2 * most, why="num_cols / BLOCK scores, rounded up, and 8 more")


EXERCISE = exercise(
    __file__,
    cases=_cases(),
    **cases.LSE,
    make_run=_run,
    probes=(*lse_probes(BLOCK), *size_probes("block", BLOCKS, "lse", "float16")),
    diagnose=lambda evidence: by_size(evidence, "BLOCK") or diagnose_lse(evidence, stride=BLOCK),
    ledger_rule=judge_way,
    bound_bytes=lse_bound,
    usual_bytes=lambda case: lse_bound(case)[0],
    tile=lambda case: (1, 1),
)
