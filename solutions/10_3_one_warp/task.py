"""10.3 Paged decode, one warp: what the judge runs."""

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.processes.protocol import Run
from course_lib.grading.subjects.paged import cases, diagnostics

ALL_SCHEDULES = ("forward", "reverse", "random", "resident")


def _run(case, tensors):
    page_size, max_pages = case.sizes["page_size"], tensors["block_table"].shape[1]
    arguments = cases.arguments(case, tensors, page_size, max_pages)
    grid = cases.grid(case, tensors)
    return Run(case.name, tensors, cases.outputs(tensors), arguments, grid=grid, block=(32, 1, 1))


EXERCISE = exercise(
    __file__,
    cases=cases.usual(ALL_SCHEDULES, many=(150, 75, 0, 33), many_heads=(4, 2)),
    make_inputs=cases.inputs,
    make_run=_run,
    oracle=cases.oracle,
    baseline=cases.baseline,
    rules={"out": "weights", "lse": "lse"},
    largest_score=cases.largest_score,
    probes=diagnostics.probes(),
    diagnose=diagnostics.diagnose,
    bound_bytes=cases.bound,
    tile=lambda case: (1, cases.HEAD_DIM),
)
