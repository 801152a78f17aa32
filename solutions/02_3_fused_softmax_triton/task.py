"""02.3 Fused row softmax in Triton: what the judge runs."""

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.softmax import cases, fused
from course_lib.grading.subjects.softmax.bounds import softmax_bound

WIDTH = 32  # columns around which the cases lie


def tile_of(case):
    """The smallest power of two that holds a row, or some times that where the case says so."""
    return case.options.get("times", 1) << (case.sizes["num_cols"] - 1).bit_length()


EXERCISE = exercise(
    __file__,
    cases=fused.fused_cases(
        "power of two", WIDTH, other={"times": 4}, schedules=("forward", "reverse", "random"), rows=3, many=7
    ),
    **fused.FUSED,
    make_run=lambda case, tensors: cases.rows_run(case, tensors, constants={"BLOCK_N": tile_of(case)}),
    forbidden=("triton.language.softmax", "triton.language.standard.softmax"),
    probes=fused.probes(WIDTH),
    diagnose=lambda evidence: fused.diagnose_fused(evidence, width=WIDTH, unit="tile"),
    ledger_rule=lambda case, ledger: fused.one_sweep(case, ledger, case.sizes["num_cols"], "program"),
    bound_bytes=softmax_bound,
    usual_bytes=lambda case: softmax_bound(case)[0],
    tile=lambda case: (1, WIDTH),
)
