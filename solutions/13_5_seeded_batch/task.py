"""13.5 The same text from the same seed: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import outcomes
from .diagnostics import diagnose

NAMES = ("logits", "temperatures", "seeds", "steps")
LARGEST_SEED = 2**32 - 1


def _case(name, num_rows, num_tokens, values="normal", dtype="float32", **options):
    return Case(name, {"num_rows": num_rows, "num_tokens": num_tokens}, values, dtype, options)


def _numbers(case, gen):
    """(temperatures, seeds, steps) of a case, each of (num_rows,)."""
    rows, options = torch.arange(case.sizes["num_rows"]), case.options
    temperatures = torch.tensor(options.get("temperatures", (1.0,)))
    seeds = torch.randint(options.get("seeds", 50), rows.shape, generator=gen)
    steps = torch.randint(options.get("steps", 20), rows.shape, generator=gen)
    if case.values == "grid":  # all pairs of eight seeds and eight steps
        seeds, steps = rows // 8, rows % 8
    if case.values == "one seed":
        seeds, steps = torch.full_like(rows, int(seeds[0])), torch.randperm(len(rows), generator=gen)
    if case.values == "all seeds":
        seeds, steps = rows + int(seeds[0]), torch.full_like(rows, 3)
    if options.get("seeds") == LARGEST_SEED + 1:
        seeds[-1] = LARGEST_SEED
    return temperatures[rows % len(temperatures)], seeds, steps


def _logits(case, gen, temperatures, seeds, steps):
    shape, options = tuple(case.sizes.values()), case.options
    if case.values == "border":
        return outcomes.at_the_border(seeds, steps, temperatures, level=temperatures == 0.7)
    if case.values in ("grid", "one seed", "all seeds"):
        return torch.tensor([0.5, 0.2, 0.15, 0.1, 0.05]).log().expand(shape).clone()
    logits = 2.0 * torch.randn(shape, generator=gen) * options.get("size", 1.0) + options.get("level", 0.0)
    if case.values == "masked":
        logits[torch.rand(shape, generator=gen) < 0.5] = -float("inf")
        logits[:, 2] = options.get("level", 0.0) + 1.0
    if case.values == "two largest":
        logits[:, 5] = logits[:, 3] = logits.amax(dim=1) + 1.0
    return logits.to(getattr(torch, case.dtype))


def _inputs(case, gen):
    numbers = _numbers(case, gen)
    tensors = (_logits(case, gen, *numbers), *numbers)
    return {**dict(zip(NAMES, tensors, strict=True)), "order": torch.randperm(case.sizes["num_rows"], generator=gen)}


def _run(case, tensors):
    calls = outcomes.calls_of(tensors)
    num_tokens = sum(len(rows) or case.sizes["num_rows"] for rows in calls)
    outputs = {"tokens": ((num_tokens,), "int64"), "changed": ((len(calls),), "bool")}
    given = {name: tensors[name] for name in NAMES}
    return Run(case.name, given, outputs, (*map(Ref, NAMES), calls))


def _right(tensors):
    return {
        "tokens": outcomes.outcome(tensors),
        "changed": torch.zeros(len(outcomes.calls_of(tensors)), dtype=torch.bool),
    }


def _unread(_case, tensors):
    return {"tokens": outcomes.bordering(tensors)}


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one row of one token", 1, 1, temperatures=(0.7,)),
        _case("one seed, 40 steps in no order", 40, 5, "one seed"),
        _case("eight seeds, eight steps", 64, 5, "grid"),
        _case("500 seeds, five tokens", 500, 5, "all seeds"),
        _case("rows of all kinds", 30, 50, temperatures=(0.0, 0.3, 1.0, 1.7)),
        _case("float16", 25, 40, dtype="float16", temperatures=(1.0, 0.0, 0.6)),
        _case("bfloat16", 25, 40, dtype="bfloat16", temperatures=(0.8, 2.0, 0.0)),
        _case("two largest, temperature 0", 12, 30, "two largest", temperatures=(0.0,)),
        _case("two largest, temperature 1e-30", 30, 30, "two largest", temperatures=(1e-30,)),
        _case("temperatures of 1e-30 and 1e30", 24, 9, "masked", temperatures=(1e-30, 1e30)),
        _case("logits and temperatures near 1e-30", 40, 9, size=1e-30, temperatures=(1e-30, 2e-30)),
        _case("logits of thousands, temperature 1e30", 60, 20, size=800.0, temperatures=(1e30,)),
        _case("half of the logits -inf", 24, 40, "masked", temperatures=(1.0, 0.0, 3.0)),
        _case("logits near 10,000", 20, 30, level=1e4, temperatures=(1.0, 0.5)),
        _case("logits near -10,000", 20, 30, "masked", level=-1e4, temperatures=(1.0, 2.0, 1e30)),
        _case("noise at a border", 60, 2, "border", temperatures=(1.0, 0.5, 2.0, 0.7, 1.3, 3.0)),
        _case("seeds up to 4,294,967,295, steps up to 3,000", 30, 20, seeds=LARGEST_SEED + 1, steps=3001),
        _case("30,000 tokens", 4, 30_000, temperatures=(1.0, 0.7)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda _case, tensors: {name: one.double() for name, one in _right(tensors).items()},
    baseline=lambda _case, tensors: _right(tensors),
    rules={"tokens": "exact", "changed": "exact"},
    unread=_unread,
    diagnose=diagnose,
)
