"""10.6 Copy-on-write: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import traces
from .diagnostics import first_mistake


def _case(name, num_pages=6, page_size=4, num_steps=None):
    sizes = {"num_pages": num_pages, "page_size": page_size}
    return Case(name, sizes, "a trace", "whole numbers", {"num_steps": num_steps})


def _inputs(case, gen):
    """{"trace": (num_steps, 3) int64}."""
    num_steps = case.options["num_steps"]
    steps = traces.random_trace(*case.sizes.values(), num_steps, gen) if num_steps else traces.FIXED[case.name]
    return {"trace": torch.tensor(steps, dtype=torch.int64)}


def _run(case, tensors):
    return Run(case.name, tensors, {"log": ((-1,), "int64")}, (Ref("trace"), *case.sizes.values()))


def _accept(case, tensors, outputs):
    return first_mistake(case.name, case.sizes, tensors["trace"].tolist(), outputs["log"].tolist())


EXERCISE = exercise(
    __file__,
    cases=(
        *(_case(name, page_size=traces.FIXED_PAGE_SIZES.get(name, 4)) for name in traces.FIXED),
        *(_case(name, *sizes) for name, sizes in traces.RANDOM.items()),
    ),
    make_inputs=_inputs,
    make_run=_run,
    accept=_accept,
)
