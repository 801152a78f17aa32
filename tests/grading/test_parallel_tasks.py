"""The formulas of 15.4 against what is sent, each scheme written as plain messages between ranks; and answers of the
chapter in the chapter's own world, which the judge does not know."""

import pytest
import torch

from course_lib import checklist, parallel
from course_lib.grading.answer import loading
from course_lib.grading.exercise import registry
from course_lib.grading.exercise.spec import Case
from course_lib.grading.judge.prepare import prepare
from course_lib.grading.processes import ranks
from course_lib.grading.processes.protocol import Ref

SIZES = {
    "num_tokens": 12, "top_k": 2, "num_experts": 12, "hidden_size": 8, "num_kv_heads": 2, "head_dim": 4,
    "num_layers": 4, "itemsize": 4,
}  # fmt: skip


def ring_all_reduce(world, x):
    """The sum of all ranks' x by messages to the next rank alone; num_ranks divides the rows."""
    parts, n = list(x.clone().chunk(world.num_ranks)), world.num_ranks
    for step in range(n - 1):
        fresh = world.ring_exchange(parts[(world.rank - step) % n])
        parts[(world.rank - step - 1) % n] += fresh
    for step in range(n - 1):
        parts[(world.rank - step) % n] = world.ring_exchange(parts[(world.rank + 1 - step) % n].contiguous())
    return torch.cat(parts)


def tensor(world, experts, s):
    x = torch.ones(s["num_tokens"], s["hidden_size"])
    for _ in range(2 * s["num_layers"]):
        assert torch.equal(ring_all_reduce(world, x), x * world.num_ranks)


def pipeline(world, experts, s):
    x = torch.zeros(s["num_tokens"], s["hidden_size"])
    if world.rank:
        world.recv(x, world.rank - 1)
    if world.rank + 1 < world.num_ranks:
        world.send(x + 1, world.rank + 1)


def expert(world, experts, s):
    n, each = world.num_ranks, s["num_tokens"] // world.num_ranks
    own = experts[world.rank * each : (world.rank + 1) * each]
    target = (own // (s["num_experts"] // n)).flatten()
    rows = torch.arange(each).repeat_interleave(s["top_k"])[target.argsort(stable=True)]
    sizes = torch.bincount(target, minlength=n).tolist()
    received = torch.tensor(sizes)
    received = world.all_to_all(received).tolist()
    there = world.all_to_all(torch.ones(each, s["hidden_size"])[rows], sizes, received)
    assert len(world.all_to_all(there, received, sizes)) == len(rows)


def context(world, experts, s):
    kv = torch.ones(2, s["num_tokens"] // world.num_ranks, s["num_kv_heads"], s["head_dim"])
    for _ in range(s["num_layers"]):
        for _ in range(world.num_ranks - 1):
            kv = world.ring_exchange(kv)


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("scheme", [tensor, pipeline, expert, context])
def test_a_formula_is_what_messages_carry(scheme, num_ranks):
    sizes = SIZES | {"num_ranks": num_ranks}
    experts = torch.rand(12, 12, generator=torch.Generator().manual_seed(num_ranks)).argsort(1)[:, :2]
    _, ledger = ranks.call(scheme, num_ranks, (experts, sizes), {})
    sent = sum(call["bytes"] for calls in ledger["calls"] for call in calls)
    if scheme is expert:
        sent -= 8 * num_ranks * (num_ranks - 1)  # the numbers of rows, which the formula leaves out
    formula = registry.get("15.4").oracle(Case("counted", sizes), {"experts": experts})
    assert sent == int(formula[scheme.__name__])
    assert sent > 0 or num_ranks == 1


@pytest.mark.parametrize("exercise_id", ["15.1", "15.2"])
def test_an_answer_runs_in_the_world_of_the_chapter(exercise_id):
    exercise = registry.get(exercise_id)
    answer = getattr(loading.load(checklist.solution_text(exercise)), exercise.entry)
    for prepared in prepare(exercise, 4)[:4]:
        given = [prepared.inputs[one.name] if isinstance(one, Ref) else one for one in prepared.run.arguments]
        results = parallel.run(answer, prepared.run.world, *given).results
        for rank, outputs in enumerate(results):
            assert torch.allclose(outputs[0].double(), prepared.ref["out"][rank], atol=1e-5)
