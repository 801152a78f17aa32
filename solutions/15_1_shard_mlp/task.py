"""15.1 Shard an MLP: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise, late
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics

NAMES = ("x", "up", "up_bias", "down", "down_bias")


def _case(name, num_tokens, hidden_size, inside_size, world, values="normal"):
    sizes = {"num_tokens": num_tokens, "hidden_size": hidden_size, "inside_size": inside_size, "world": world}
    return Case(name, sizes, values)


def _inputs(case, gen):
    """{"x", "up", "up_bias", "down", "down_bias"}; the columns of `up` differ in size, from 0.2 to 2."""
    num_tokens, hidden, inside, _ = case.sizes.values()
    normal = lambda *shape: torch.randn(*shape, generator=gen)  # noqa: E731
    up = normal(hidden, inside) * torch.linspace(0.2, 2.0, inside) / hidden**0.5
    down, down_bias = normal(inside, hidden) / inside**0.5, normal(hidden)
    if case.values == "large bias":
        down_bias = 50.0 * down_bias
    return dict(zip(NAMES, (normal(num_tokens, hidden), up, normal(inside), down, down_bias), strict=True))


def _run(case, tensors):
    num_tokens, hidden, inside, world = case.sizes.values()
    shapes = {"out": (num_tokens, hidden), "up_part": (hidden, inside // world)}
    shapes |= {"up_bias_part": (inside // world,), "down_part": (inside // world, hidden)}
    outputs = {name: ((world, *shape), "float32") for name, shape in shapes.items()}
    return Run(case.name, tensors, outputs, tuple(map(Ref, NAMES)), world=world, gloo=case.late)


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one token, one column, one rank", 1, 1, 1, 1),
        _case("one token, a column for each rank", 1, 3, 4, 4),
        _case("two ranks", 5, 8, 12, 2),
        _case("three ranks", 7, 6, 9, 3),
        _case("square matrices, four ranks", 3, 16, 16, 4),
        _case("down_bias of 50", 9, 10, 20, 5, "large bias"),
        _case("eight ranks", 33, 24, 64, 8),
        late(_case("two processes over gloo", 6, 8, 10, 2)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: diagnostics.right(case, {name: x.double() for name, x in tensors.items()}),
    baseline=lambda case, tensors: diagnostics.right(case, tensors),
    rules={"out": "forward", "up_part": "exact", "up_bias_part": "exact", "down_part": "exact"},
    diagnose=diagnostics.diagnose,
    ledger_rule=diagnostics.one_all_reduce,
)
