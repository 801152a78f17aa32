"""11.1 Balance: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from .diagnostics import first_mistake

# case -> (keys of each request, num_blocks, step)
GIVEN = {
    "one request, one block": ([1], 1, 1),
    "one key, eight blocks": ([1], 8, 1),
    "no request": ([], 3, 16),
    "requests without keys": ([0, 0, 0], 4, 16),
    "the lengths of the prediction": ([10, 70, 0, 40], 3, 8),
    "three equal requests, two blocks": ([64, 64, 64], 2, 16),
    "two requests, 20 blocks": ([999, 37], 20, 5),
    "keys of none, at either end": ([0, 0, 300, 0, 41, 0], 7, 8),
    "fewer than two keys a block": ([140, 59], 100, 1),
    "short requests, few blocks": ([3, 9, 1, 4, 17, 2, 6, 5, 30, 8], 4, 1),
    "equal requests, a block each": ([2048] * 64, 64, 16),
    "one long request, 63 short ones": ([512] * 20 + [32768] + [512] * 43, 264, 16),
    "requests of one key beside a long one": ([1] * 400 + [6400] + [1] * 100, 132, 16),
    "one request, 1,056 blocks": ([100_003], 1056, 64),
    "requests shorter than a page": ([5, 3, 6, 5] * 5, 12, 8),
}


def _case(name, num_requests, num_blocks, step, values):
    sizes = {"num_requests": num_requests, "num_blocks": num_blocks, "step": step}
    return Case(name, sizes, values, "whole numbers")


def _given(name):
    lengths, num_blocks, step = GIVEN[name]
    return _case(name, len(lengths), num_blocks, step, "given")


def _drawn(name, num_blocks, step, num_requests):
    return _case(name, num_requests, num_blocks, step, "drawn")


def _inputs(case, gen):
    """{"seq_lens": (num_requests,) int64}; drawn ones are between 0 and 8000, most of them short."""
    if case.values == "given":
        return {"seq_lens": torch.tensor(GIVEN[case.name][0], dtype=torch.int64)}
    longest = 8000.0 ** torch.rand(case.sizes["num_requests"], generator=gen, dtype=torch.float64)
    return {"seq_lens": longest.long() * (torch.rand(longest.shape, generator=gen) > 0.1)}


def _run(case, tensors):
    sizes = case.sizes["num_blocks"], case.sizes["step"]
    return Run(case.name, tensors, {"numbers": ((-1,), "int64")}, (Ref("seq_lens"), *sizes))


def _accept(case, tensors, outputs):
    lengths, sizes = tensors["seq_lens"].tolist(), (case.sizes["num_blocks"], case.sizes["step"])
    return first_mistake(case.name, lengths, *sizes, outputs["numbers"].tolist())


EXERCISE = exercise(
    __file__,
    cases=(
        *map(_given, GIVEN),
        _drawn("drawn, few requests", 132, 16, 7),
        _drawn("drawn, many requests", 16, 64, 300),
        _drawn("drawn, as many requests as blocks", 40, 1, 40),
    ),
    make_inputs=_inputs,
    make_run=_run,
    accept=_accept,
)
