"""90.1 Double a vector: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, Probe, exercise
from course_lib.grading.processes.protocol import Ref, Run

from .diagnostics import diagnose


def case(name, num_elements, values="normal"):
    return Case(name, {"num_elements": num_elements}, values)


def inputs(case, gen):
    """{"x": (num_elements,)}; for the probe all ones."""
    count = case.sizes["num_elements"]
    return {"x": torch.ones(count) if case.values == "ones" else torch.randn(count, generator=gen)}


EXERCISE = exercise(
    __file__,
    cases=(case("one element", 1), case("ragged", 37), case("many", 1000)),
    make_inputs=inputs,
    make_run=lambda case, tensors: Run(
        case.name, tensors, {"out": (tuple(tensors["x"].shape), "float32")}, (Ref("x"),)
    ),
    oracle=lambda case, tensors: {"out": 2 * tensors["x"].double()},
    baseline=lambda case, tensors: {"out": 2 * tensors["x"]},
    rules={"out": "exact"},
    probes=(Probe("ones", case("ones", 3, "ones"), lambda inputs, outputs: outputs["out"][0].item()),),
    diagnose=diagnose,
)
