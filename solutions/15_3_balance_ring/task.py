"""15.3 Balance causal ring work: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Run

from .diagnostics import first_mistake


def _case(name, num_tokens, num_ranks):
    return Case(name, {"num_tokens": num_tokens, "num_ranks": num_ranks}, "given", "whole numbers")


def _drawn(name, largest, num_ranks):
    return Case(name, {"largest": largest, "num_ranks": num_ranks}, "drawn", "whole numbers")


def _inputs(case, gen):
    """{"num_tokens": (1,) int64}."""
    if case.values == "drawn":
        least = case.sizes["largest"] // 2
        return {"num_tokens": torch.randint(least, 2 * least, (1,), generator=gen)}
    return {"num_tokens": torch.tensor([case.sizes["num_tokens"]])}


def _run(case, tensors):
    arguments = int(tensors["num_tokens"]), case.sizes["num_ranks"]
    return Run(case.name, {}, {"numbers": ((-1,), "int64")}, arguments)


def _accept(case, tensors, outputs):
    return first_mistake(case.name, int(tensors["num_tokens"]), case.sizes["num_ranks"], outputs["numbers"].tolist())


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one token, one rank", 1, 1),
        _case("fewer tokens than ranks", 3, 8),
        _case("as many tokens as ranks", 5, 5),
        _case("eight tokens, two ranks", 8, 2),
        _case("nearly four tokens a rank", 31, 8),
        _case("a multiple of twice the ranks", 96, 4),
        _case("one token more", 97, 4),
        _case("one token less", 95, 4),
        _case("three ranks", 1000, 3),
        _case("one rank", 77, 1),
        _case("3,200 tokens, four ranks", 3200, 4),
        _case("64 ranks", 4000, 64),
        _drawn("drawn, two ranks", 2000, 2),
        _drawn("drawn, eight ranks", 4000, 8),
        _drawn("drawn, 13 ranks", 20_000, 13),
    ),
    make_inputs=_inputs,
    make_run=_run,
    accept=_accept,
)
