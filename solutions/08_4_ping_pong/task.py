"""08.4 Ping-pong without deadlock: what the judge runs."""

import torch

from course_lib.grading.exercise.spec import ALL_SCHEDULES, Case, exercise, late
from course_lib.grading.processes.protocol import Ref, Run

from .turns import WORK, diagnose_turns, explain, judge_turns


def _case(name, *num_steps, threads=128, schedules=ALL_SCHEDULES, values="steps"):
    sizes = {"consumers": len(num_steps), "threads": threads}
    return Case(name, sizes, values, "int32", {"num_steps": num_steps}, schedules)


def turns(tensors):
    """[(consumer, step)] in the order that the contract asks for."""
    steps = tensors["num_steps"].tolist()
    return [(consumer, r) for r in range(max(steps)) for consumer, count in enumerate(steps) if r < count]


def _inputs(case, gen):
    """{"num_steps": (consumers,) int32}; the case's own, or at most as many of each"""
    steps = torch.tensor(case.options["num_steps"], dtype=torch.int32)
    if case.values == "at most":
        steps = (torch.rand(len(steps), generator=gen) * (steps + 1)).to(torch.int32)
    return {"num_steps": steps}


def _run(case, tensors):
    consumers, threads, length = case.sizes["consumers"], case.sizes["threads"], max(1, len(turns(tensors)))
    outputs = {
        "log": ((length,), "int32"),
        "state": ((threads,), "int32"),
        "worked": ((consumers * threads,), "int32"),
    }
    return Run(
        case.name,
        tensors,
        outputs,
        (Ref("num_steps"), Ref("log"), Ref("state"), Ref("worked")),
        block=(consumers * threads, 1, 1),
        constants={"NUM_CONSUMERS": consumers, "CONSUMER_THREADS": threads},
        contents={"log": torch.full((length,), -1, dtype=torch.int32)},
        timeline=True,
    )


def _signed(number):
    return (number + 2**31) % 2**32 - 2**31


def _oracle(case, tensors):
    consumers, threads, order = case.sizes["consumers"], case.sizes["threads"], turns(tensors)
    state = torch.arange(threads, dtype=torch.int64)
    worked = torch.arange(consumers * threads, dtype=torch.int64)
    for consumer, step in order:
        own = worked[consumer * threads : (consumer + 1) * threads]
        state = (state * 3 + consumer + 1 + own) % 2**32
        own.copy_(state)
        for _ in range(WORK):
            own.copy_((own * 1664525 + (own >> 16) + step) % 2**32)
    log = [1000 * consumer + step for consumer, step in order] or [-1]
    right = {"log": log, "state": [_signed(n) for n in state.tolist()], "worked": [_signed(n) for n in worked.tolist()]}
    return {name: torch.tensor(numbers, dtype=torch.float64) for name, numbers in right.items()}


EXERCISE = exercise(
    __file__,
    cases=(
        _case("no step at all", 0, 0),
        _case("one step each", 1, 1),
        _case("two steps each", 2, 2),
        _case("three consumers, one step each", 1, 1, 1),
        _case("three consumers, three steps", 3, 3, 3),
        _case("consumer 0 has more steps", 4, 2),
        _case("consumer 0 has fewer steps", 1, 4),
        _case("consumer 0 has none", 0, 3),
        late(_case("the middle one has none", 2, 0, 3, threads=64)),
        _case("one step in all, of the last", 0, 0, 1),
        late(_case("four consumers of one warp", 2, 5, 1, 3, threads=32)),
        _case("consumers of two warps", 5, 3, threads=64),
        late(_case("any steps", 6, 6, 6, threads=32, values="at most")),
        late(_case("any steps of four", 5, 5, 5, 5, threads=64, values="at most", schedules=("random", "resident"))),
        late(_case("seventy steps beside one", 70, 1, 0, threads=32, schedules=("forward",))),
        _case("nine steps each", 9, 9, schedules=("random",)),
        _case("three consumers, eight steps each", 8, 8, 8, schedules=("random",)),
    ),
    make_inputs=_inputs,
    make_run=_run,
    oracle=_oracle,
    baseline=lambda case, tensors: {name: right.to(torch.int32) for name, right in _oracle(case, tensors).items()},
    rules={"log": "exact", "state": "exact", "worked": "exact"},
    diagnose=diagnose_turns,
    explain=explain,
    ledger_rule=judge_turns,
)
