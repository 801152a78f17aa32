"""01.1 Count the sectors of a warp load: what the judge runs."""

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Run

from .diagnostics import PATTERNS, accept_count

EXERCISE = exercise(
    __file__,
    cases=tuple(Case(pattern.load, {}, name, "whole number") for name, pattern in PATTERNS.items()),
    make_inputs=lambda case, gen: {},
    make_run=lambda case, tensors: Run(case.name, tensors, {name: ((), "float32") for name in PATTERNS}, ()),
    accept=accept_count,
)
