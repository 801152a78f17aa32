"""02.4 Fused row softmax in CUDA: what the judge runs."""

from dataclasses import replace

from course_lib.grading.exercise import magnitude
from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.softmax import cases, fused
from course_lib.grading.subjects.softmax.bounds import softmax_bound

BLOCK = 64  # threads of a block


def fused_run(case, tensors):
    """A block a row, the row in dynamic shared memory."""
    run = cases.rows_run(case, tensors, threads=BLOCK, constants={"BLOCK": BLOCK})
    return replace(run, shared_bytes=4 * case.sizes["num_cols"])


EXERCISE = exercise(
    __file__,
    cases=fused.fused_cases("block", BLOCK),
    make_inputs=cases.score_rows,
    make_run=fused_run,
    oracle=cases.softmax_oracle,
    baseline=cases.softmax_baseline,
    rules={"out": "weights"},
    largest_score=magnitude.of_inputs("x"),
    probes=fused.probes(BLOCK),
    diagnose=lambda evidence: fused.diagnose_fused(evidence, width=BLOCK, unit="block"),
    ledger_rule=fused.one_sweep,
    bound_bytes=softmax_bound,
    usual_bytes=lambda case: softmax_bound(case)[0],
    tile=lambda case: (1, BLOCK),
)
