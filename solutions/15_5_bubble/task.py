"""15.5 The bubble: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Run

from .diagnostics import first_mistake

NAMES = ("num_stages", "num_micro", "forward", "backward")


def _case(name, *sizes):
    return Case(name, dict(zip(NAMES, sizes, strict=True)), "given", "whole numbers")


def _drawn(name, *largest):
    return Case(name, dict(zip(NAMES, largest, strict=True)), "drawn", "whole numbers")


def _inputs(case, gen):
    """{"sizes": (4,) int64}; drawn ones are from 1 to those of the case."""
    sizes = list(case.sizes.values())
    if case.values == "drawn":
        sizes = [int(torch.randint(1, size + 1, (1,), generator=gen)) for size in sizes]
    return {"sizes": torch.tensor(sizes)}


def _run(case, tensors):
    return Run(case.name, {}, {"numbers": ((-1,), "int64")}, tuple(tensors["sizes"].tolist()))


def _accept(case, tensors, outputs):
    return first_mistake(case.name, tensors["sizes"].tolist(), outputs["numbers"].tolist())


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one stage, one micro-batch", 1, 1, 1, 1),
        _case("one stage", 1, 5, 1, 2),
        _case("one micro-batch", 4, 1, 1, 2),
        _case("two stages", 2, 3, 1, 1),
        _case("backward twice as long", 3, 4, 1, 2),
        _case("as many micro-batches as stages", 4, 4, 2, 2),
        _case("fewer micro-batches than stages", 6, 3, 2, 3),
        _case("forward longer than backward", 4, 9, 11, 2),
        _case("many micro-batches, long ones", 3, 300, 70_001, 90_002),
        _case("40 stages", 40, 50, 2, 9),
        _drawn("drawn", 9, 20, 7, 7),
        _drawn("drawn, more stages", 16, 12, 9, 9),
    ),
    make_inputs=_inputs,
    make_run=_run,
    accept=_accept,
)
