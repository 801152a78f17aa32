"""05.3 Scale, mask and softmax in one kernel, in Triton: what the judge runs."""

from course_lib.grading.exercise.spec import exercise
from course_lib.grading.subjects.attention.fused_softmax import SHARED, cases, run

BLOCK_N = 32

EXERCISE = exercise(
    __file__,
    cases=cases(("forward", "reverse", "random")),
    make_run=lambda case, tensors: run(case, tensors, constants={"BLOCK_N": BLOCK_N}),
    **SHARED,
)
