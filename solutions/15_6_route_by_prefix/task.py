"""15.6 Route by prefix: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import Case, exercise
from course_lib.grading.processes.protocol import Ref, Run

from . import diagnostics

NAMES = ("num_requests", "num_workers", "max_extra", "page_size", "pause")
MOST_PAGES, COMMON = 9, 100  # of a prompt; of "long" ones, that all have


def _case(name, *sizes, values="growing"):
    return Case(name, dict(zip(NAMES, sizes, strict=True)), values, "int64")


def _prompts(case, gen):
    """Lists of page contents, small numbers: "growing" prompts go on from an earlier one, "popular" from the first.

    "long" prompts have COMMON pages in common; "again": new pages are hardly ever alike, and at the end the first
    prompts come once more.
    """
    draw = lambda low, high: int(torch.randint(low, high, (1,), generator=gen))  # noqa: E731
    prompts, num_requests, contents = [], case.sizes["num_requests"], 5
    if case.values == "again":
        num_requests, contents = num_requests - num_requests // 5, 1000
    for number in range(num_requests):
        start = []
        if prompts and case.values != "unlike" and draw(0, 4):
            earlier = prompts[0 if case.values == "popular" and draw(0, 8) else draw(0, len(prompts))]
            start = earlier[: draw(1, len(earlier) + 1)]
        new = [draw(0, contents) for _ in range(draw(0 if start else 1, 5))]
        if case.values == "unlike":
            new = [number % 7, *new]
        if case.values == "long":
            prompts.append([1] * COMMON + [draw(0, 5)] * draw(1, 20))  # what follows the common pages decides
        else:
            prompts.append((start + new)[:MOST_PAGES])
    return (prompts + prompts)[: case.sizes["num_requests"]]


def _inputs(case, gen):
    """{"prompts": (num_requests, most pages) int64}, the pages of each prompt, -1 after the last one."""
    prompts = _prompts(case, gen)
    most = max(map(len, prompts))
    rows = [prompt + [-1] * (most - len(prompt)) for prompt in prompts]
    return {"prompts": torch.tensor(rows)}


def _run(case, tensors):
    outputs = {"chosen": ((case.sizes["num_requests"],), "int64")}
    arguments = [case.sizes[name] for name in NAMES[1:]]
    return Run(case.name, tensors, outputs, (Ref("prompts"), *arguments))


EXERCISE = exercise(
    __file__,
    cases=(
        _case("one request, one worker", 1, 1, 0, 16, 16),
        _case("one worker", 12, 1, 64, 16, 8),
        _case("two workers", 24, 2, 32, 16, 15),
        _case("no extra load allowed", 60, 3, 0, 4, 2),
        _case("any load allowed", 60, 4, 10**9, 16, 5),
        _case("a popular prefix", 120, 4, 96, 16, 5, values="popular"),
        _case("a popular prefix, pages of 64", 150, 8, 256, 64, 12, values="popular"),
        _case("prompts with little in common", 90, 5, 50, 8, 4, values="unlike"),
        _case("prompts of more than 100 pages", 60, 4, 200, 4, 60, values="long"),
        _case("nothing waits", 60, 6, 40, 16, 10**6),
        _case("limits met exactly", 150, 3, 4, 2, 1),
        _case("many requests", 300, 7, 128, 16, 4),
        _case("a long trace", 500, 2, 128, 16, 24, values="again"),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=lambda case, tensors: {"chosen": diagnostics.right(case, tensors).double()},
    baseline=lambda case, tensors: {"chosen": diagnostics.right(case, tensors)},
    rules={"chosen": "exact"},
    diagnose=diagnostics.diagnose,
)
