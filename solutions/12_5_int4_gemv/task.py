"""12.5 Four bits a weight: what the judge runs."""

import numpy as np
import torch

from course_lib.grading.exercise.spec import ALL_SCHEDULES, Case, Probe, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics


def _case(name, num_rows, num_cols, group, values="normal", schedules=("forward",)):
    return Case(name, {"num_rows": num_rows, "num_cols": num_cols, "group": group}, values, schedules=schedules)


def _inputs(case, gen):
    """{"x" float, "packed" int32 (the bits of unsigned words), "scales" float, "zeros" uint8}.

    "place": x is 1 in column 8 and 0 elsewhere, number j of word 1 is j + 1, so that out says which number was taken.
    """
    num_rows, num_cols, group = case.sizes.values()
    num_groups = -(-num_cols // group)
    numbers = torch.randint(16, (num_rows, num_cols), generator=gen)
    zeros = torch.randint(16, (num_rows, num_groups), generator=gen)
    scales = torch.exp(torch.randn(num_rows, num_groups, generator=gen))
    x = torch.randn(num_cols, generator=gen)
    if case.values == "far_apart":
        scales = scales * torch.tensor([1e-4, 1.0, 1e4])[torch.arange(num_rows) % 3][:, None]
    if case.values == "negative":
        x, scales = -x.abs() - 0.1, torch.where(torch.arange(num_groups) % 2 == 0, scales, -scales)
    if case.values == "all_15":
        numbers[:], zeros[:] = 15, 0
    if case.values == "at_zero":
        numbers = zeros.repeat_interleave(group, dim=1)[:, :num_cols]
        numbers[:, 0] = 15 - numbers[:, 0]
    return {"x": x, "packed": diagnostics.packed(numbers), "scales": scales, "zeros": zeros.to(torch.uint8)}


def _places(case, gen):
    num_rows, num_cols, _ = case.sizes.values()
    numbers = (torch.arange(num_cols) % 8 + 1).expand(num_rows, num_cols)
    x = torch.zeros(num_cols)
    x[8] = 1.0
    scales, zeros = torch.ones(num_rows, 1), torch.zeros(num_rows, 1, dtype=torch.uint8)
    return {"x": x, "packed": diagnostics.packed(numbers), "scales": scales, "zeros": zeros}


def _baseline(case, tensors):
    """Of three sums in float32 the one that is furthest off: from the left, from the right, the zeros' part last."""
    x, exact = tensors["x"].double(), diagnostics.product(case, tensors)["out"]
    terms = (diagnostics.weights(case, tensors) * x).float()
    parts = [(diagnostics.weights(case, tensors, apply=one) * x).float() for one in (_of_numbers, _of_zeros)]
    orders = (terms, terms.flip(1), torch.cat(parts, dim=1))
    sums = torch.stack([torch.from_numpy(np.add.accumulate(one.numpy(), axis=1))[:, -1] for one in orders])
    return {"out": sums.gather(0, (sums - exact).abs().argmax(0, keepdim=True))[0]}


def _of_numbers(number, _zero, scale):
    return scale * number


def _of_zeros(_number, zero, scale):
    return -scale * zero


def _run(case, tensors):
    num_rows, num_cols, group = case.sizes.values()
    arguments = (*(Ref(name) for name in ("x", "packed", "scales", "zeros", "out")), num_cols, group)
    return Run(case.name, tensors, {"out": ((num_rows,), "float32")}, arguments, (num_rows, 1, 1), (32, 1, 1))


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one word", 1, 8, 8, schedules=ALL_SCHEDULES),
        _case("one group a word", 3, 24, 8, schedules=("forward", "random")),
        _case("one below a warp of words", 4, 248, 32),
        _case("exactly a warp of words", 4, 256, 64, schedules=ALL_SCHEDULES),
        _case("one above a warp of words", 3, 264, 128),
        _case("a last group that is not full", 5, 104, 48),
        _case("one group for all", 4, 160, 1024),
        _case("numbers of 15", 2, 320, 32, "all_15"),
        _case("numbers at their zero", 3, 96, 16, "at_zero"),
        _case("x below 0, some scales too", 3, 144, 16, "negative"),
        _case("rows 10,000 times as large", 6, 200, 40, "far_apart"),
        _case("16,008 columns", 2, 16_008, 128),
        _case("65 rows", 65, 64, 64),
    ),
    make_inputs=lambda case, gen: (_places if case.values == "place" else _inputs)(case, gen),
    make_run=_run,
    oracle=diagnostics.product,
    baseline=_baseline,
    rules={"out": "forward"},
    probes=(Probe("place", _case("place", 1, 24, 24, "place"), lambda _inputs, outputs: outputs["out"][0].item()),),
    diagnose=diagnostics.diagnose,
    ledger_rule=diagnostics.once,
    bound_bytes=diagnostics.bound,
    usual_bytes=lambda case: diagnostics.limit(case),
    question="Is a word read once for its eight weights?",
    tile=lambda case: (1, 1),
)
