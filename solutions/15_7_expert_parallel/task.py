"""15.7 Expert parallel: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise, late
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics

NAMES = ("world", "num_tokens", "hidden_size", "top_k", "experts_each")


def _case(name, *sizes, values="normal"):
    return Case(name, dict(zip(NAMES, sizes, strict=True)), values)


def _inputs(case, gen):
    """{"x", "experts", "gates", "weights"} of all ranks; "one rank": all pairs go to rank 1, "own": none leaves."""
    world, num_tokens, hidden, top_k, each = case.sizes.values()
    scores = torch.rand(world, num_tokens, world * each, generator=gen)
    if case.values == "one rank":
        scores[..., each : 2 * each] += 2.0
    if case.values == "own":
        for rank in range(world):
            scores[rank, :, rank * each : (rank + 1) * each] += 2.0
    if case.values == "empty":
        scores[..., ::2] -= 2.0
    gates = torch.rand(world, num_tokens, top_k, generator=gen) + 0.1
    return {
        "x": torch.randn(world, num_tokens, hidden, generator=gen),
        "experts": scores.argsort(-1, descending=True)[..., :top_k].contiguous(),
        "gates": gates,
        "weights": torch.randn(world, each, hidden, hidden, generator=gen) / hidden**0.5,
    }


def _run(case, tensors):
    shape = tuple(tensors["x"].shape)
    arguments = tuple(map(Ref, ("x", "experts", "gates", "weights")))
    return Run(case.name, tensors, {"out": (shape, "float32")}, arguments, world=shape[0], gloo=case.late)


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one rank, one token, one expert", 1, 1, 4, 1, 1),
        _case("one rank, four experts", 1, 6, 8, 2, 4),
        _case("two ranks, one expert each", 2, 5, 8, 1, 1),
        _case("three ranks", 3, 7, 16, 2, 2),
        _case("all pairs to one rank", 4, 6, 8, 2, 3, values="one rank"),
        _case("800 pairs to two experts", 4, 100, 8, 2, 2, values="one rank"),
        _case("no pair leaves its rank", 3, 5, 8, 2, 4, values="own"),
        _case("400 experts, most without tokens", 4, 6, 12, 1, 100, values="empty"),
        _case("one token a rank", 5, 1, 8, 3, 2),
        _case("eight ranks, rows of 64", 8, 20, 64, 4, 4),
        late(_case("two processes over gloo", 2, 9, 8, 2, 3)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, t: {"out": diagnostics.outcome(_double(t))},
    baseline=lambda case, t: {"out": diagnostics.outcome(t)},
    rules={"out": "forward"},
    diagnose=diagnostics.diagnose,
    ledger_rule=diagnostics.rows_there_and_back,
)


def _double(tensors):
    return {name: x.double() if x.is_floating_point() else x for name, x in tensors.items()}
