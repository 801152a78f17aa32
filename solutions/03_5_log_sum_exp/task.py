"""03.5 Log-sum-exp in CUDA, half in, float out: what the judge runs."""

from course_lib.grading.exercise import magnitude
from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.softmax import cases
from course_lib.grading.subjects.softmax.lse import diagnose_lse, lse_probes

BLOCK = 64  # threads of a block of the log-sum-exp exercise while it is graded


def lse_bound(case):
    """Fewest bytes: every score read once (2 bytes), one float a row written."""
    num_rows, num_cols = case.sizes["num_rows"], case.sizes["num_cols"]
    count = num_rows * num_cols
    return 2 * count + 4 * num_rows, f"{count:,} scores of 2 bytes read once, {num_rows:,} results of 4 bytes written"


EXERCISE = exercise(
    __file__,
    cases=cases.row_cases("block", BLOCK, dtype="float16"),
    make_inputs=cases.score_rows,
    make_run=lambda case, tensors: cases.rows_run(
        case, tensors, output="lse", threads=BLOCK, constants={"BLOCK": BLOCK}
    ),
    oracle=cases.lse_oracle,
    baseline=cases.lse_baseline,
    rules={"lse": "lse"},
    largest_score=magnitude.of_inputs("x"),
    probes=lse_probes(BLOCK),
    diagnose=lambda evidence: diagnose_lse(evidence, stride=BLOCK),
    bound_bytes=lse_bound,
    usual_bytes=lambda case: lse_bound(case)[0],
    tile=lambda case: (1, 1),
)
