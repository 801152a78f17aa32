"""10.4 Paged decode in Triton: a page a tile, the last one partial: what the judge runs."""

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.processes.protocol import Run
from course_lib.grading.subjects.paged import cases, diagnostics, extent


def _run(case, tensors):
    arguments = cases.arguments(case, tensors, tensors["block_table"].shape[1])
    constants = {"HEAD_DIM": cases.head_dim(case), "PAGE_SIZE": case.sizes["page_size"]}
    grid = cases.grid(case, tensors)
    return Run(
        case.name, extent.given(case, tensors), cases.outputs(tensors), arguments, grid=grid, constants=constants
    )


EXERCISE = exercise(
    __file__,
    cases=(
        *cases.usual(),
        cases.case("keys of tiny weight", (128,), 64, (1, 1), late=True, faint=True),
        cases.case("pages of 1", (5, 2), 1, (2, 1), late=True),
        cases.case("pages of 16, head_dim 64", (20, 16), 16, (1, 1), head_dim=64),
        cases.case("pages of 64, head_dim 16", (70,), 64, (2, 1), head_dim=16),
        cases.case("260 pages of 16", (4155,), 16, (1, 1), "step", late=True, at=4153, times=60.0),
    ),
    **cases.DECODE,
    make_run=_run,
    probes=diagnostics.probes(),
    diagnose=diagnostics.diagnose,
    explain=extent.explain,
)
