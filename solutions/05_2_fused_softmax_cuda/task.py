"""05.2 Scale, mask and softmax in one kernel, in CUDA: what the judge runs."""

from course_lib.grading.exercise.spec import ALL_SCHEDULES, exercise
from course_lib.grading.subjects.attention.fused_softmax import SHARED, cases, run
from course_lib.grading.subjects.softmax.cases import WARP_SIZE

EXERCISE = exercise(
    __file__,
    cases=cases(ALL_SCHEDULES),
    make_run=lambda case, tensors: run(case, tensors, threads=WARP_SIZE),
    **SHARED,
)
