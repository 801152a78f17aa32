"""03.4 Online softmax in Triton, any width: what the judge runs."""

from course_lib.grading.exercise import magnitude, probes
from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.softmax import cases
from course_lib.grading.subjects.softmax.bounds import softmax_bound, two_reads
from course_lib.grading.subjects.softmax.diagnostics import diagnose_softmax

BLOCK_N = 32  # columns of a tile


EXERCISE = exercise(
    __file__,
    cases=cases.row_cases("tile", BLOCK_N, schedules=("forward", "reverse", "random"), rows=3, many=7),
    make_inputs=cases.score_rows,
    make_run=lambda case, tensors: cases.rows_run(case, tensors, constants={"BLOCK_N": BLOCK_N}),
    oracle=cases.softmax_oracle,
    baseline=cases.softmax_baseline,
    rules={"out": "weights"},
    largest_score=magnitude.of_inputs("x"),
    probes=(
        probes.count({"num_rows": 4, "num_cols": 85}),
        probes.step("step between tiles", {"num_rows": 4, "num_cols": 64}, 32),
        probes.step("step within a tile", {"num_rows": 4, "num_cols": 32}, 16),
    ),
    diagnose=lambda evidence: diagnose_softmax(evidence, stride=BLOCK_N, unit="tile"),
    bound_bytes=softmax_bound,
    usual_bytes=two_reads,
    tile=lambda case: (1, BLOCK_N),
)
