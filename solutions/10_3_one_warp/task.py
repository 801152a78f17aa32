"""10.3 Paged decode, one warp: what the judge runs."""

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.processes.protocol import Run
from course_lib.grading.subjects.paged import cases, diagnostics, extent

ALL_SCHEDULES = ("forward", "reverse", "random", "resident")


def _run(case, tensors):
    page_size, max_pages = case.sizes["page_size"], tensors["block_table"].shape[1]
    arguments = cases.arguments(case, tensors, page_size, max_pages)
    grid = cases.grid(case, tensors)
    return Run(case.name, extent.given(case, tensors), cases.outputs(tensors), arguments, grid=grid, block=(32, 1, 1))


EXERCISE = exercise(
    __file__,
    cases=(
        *cases.usual(ALL_SCHEDULES, many=(150, 75, 0, 33), many_heads=(4, 2)),
        cases.case("keys of tiny weight", (300,), 4, (1, 1), schedules=(), late=True, faint=True),
        cases.case("pages of 5", (12, 3), 5, (2, 1), late=True),
        cases.case("pages of 16", (20, 16), 16, (1, 1), late=True),
        cases.case("12,500 tokens", (12_500,), 4, (1, 1), "step", (), late=True, at=12_498, times=60.0),
    ),
    **cases.DECODE,
    make_run=_run,
    probes=diagnostics.probes(),
    diagnose=diagnostics.diagnose,
    explain=extent.explain,
)
