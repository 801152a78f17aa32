"""03.2 Online softmax in CUDA, one warp a row: what the judge runs."""

from course_lib.grading.exercise import magnitude, probes
from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.softmax import cases
from course_lib.grading.subjects.softmax.bounds import softmax_bound, two_reads
from course_lib.grading.subjects.softmax.diagnostics import diagnose_softmax

WARPS_PER_BLOCK = 4


EXERCISE = exercise(
    __file__,
    cases=cases.row_cases("stride", cases.WARP_SIZE),
    make_inputs=cases.score_rows,
    make_run=lambda case, tensors: cases.rows_run(
        case, tensors, rows_per_block=WARPS_PER_BLOCK, threads=WARPS_PER_BLOCK * cases.WARP_SIZE
    ),
    oracle=cases.softmax_oracle,
    baseline=cases.softmax_baseline,
    rules={"out": "weights"},
    largest_score=magnitude.of_inputs("x"),
    probes=(
        probes.count({"num_rows": 4, "num_cols": 85}),
        probes.step("step between strides", {"num_rows": 4, "num_cols": 64}, 32),
        probes.step("step between lanes", {"num_rows": 4, "num_cols": 32}, 16),
    ),
    diagnose=lambda evidence: diagnose_softmax(evidence, stride=cases.WARP_SIZE),
    bound_bytes=softmax_bound,
    usual_bytes=two_reads,
    tile=lambda case: (WARPS_PER_BLOCK, cases.WARP_SIZE),
)
