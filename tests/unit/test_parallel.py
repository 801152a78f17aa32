"""A world of threads: what the collectives give, what they count, and what is said when ranks do not fit together."""

import threading

import pytest
import torch

from course_lib.errors import ShapeError, WorldError
from course_lib.parallel import Event, Outcome, run, wire_bytes


def everything(world):
    """Each operation once, with numbers that say where they came from."""
    rank, after = world.rank, (world.rank + 1) % world.num_ranks
    sizes = [1, 0, 2] if rank == 0 else [rank, 1, 0]
    pair = world.exchange([(torch.tensor([rank]), after)], [(torch.zeros(1, dtype=torch.long), (rank - 1) % 3)])
    world.barrier()
    return {
        "sum": world.all_reduce(torch.tensor([rank, 10 * rank])),
        "max": world.all_reduce(torch.tensor([rank, -rank]), "max"),
        "gathered": world.all_gather(torch.tensor([[rank], [10 + rank]]), dim=1),
        "scattered": world.reduce_scatter(torch.arange(6).reshape(2, 3) + rank, dim=1),
        "rows": world.all_to_all(torch.arange(sum(sizes)) + 10 * rank, sizes),
        "ring": world.ring_exchange(torch.tensor([rank]), torch.tensor([-rank])),
        "pair": pair[0],
    }


def test_collectives_give_what_their_names_say():
    results = run(everything, 3).results
    assert all(found["sum"].tolist() == [3, 30] and found["max"].tolist() == [2, 0] for found in results)
    assert all(found["gathered"].tolist() == [[0, 1, 2], [10, 11, 12]] for found in results)
    assert [found["scattered"].tolist() for found in results] == [[[3], [12]], [[6], [15]], [[9], [18]]]
    assert [found["rows"].tolist() for found in results] == [[0, 10, 20, 21], [11, 22], [1, 2]]
    assert [[x.item() for x in found["ring"]] for found in results] == [[2, -2], [0, 0], [1, -1]]
    assert [found["pair"].item() for found in results] == [2, 0, 1]


def test_the_sum_is_added_to_a_residual_in_place():
    def function(world):
        x, residual = (
            torch.randn(3, 5, generator=torch.Generator().manual_seed(world.rank)),
            torch.arange(15.0).view(3, 5),
        )
        expected = torch.arange(15.0).view(3, 5) + world.all_reduce(x.clone())
        assert world.all_reduce_add(x, residual, label="out") is residual
        for wrong in (residual, residual[:2], residual.double(), residual.T):
            with pytest.raises(ShapeError, match="alike|contiguous|one tensor"):
                world.all_reduce_add(wrong, residual)
        return torch.equal(residual, expected)

    outcome = run(function, 3)
    assert outcome.results == [True] * 3 and [event.label for event in outcome.events if event.rank == 0] == ["", "out"]


def test_a_run_is_deterministic():
    first, second = (run(everything, 3) for _ in range(2))
    order = [[(event.kind, event.label, event.sent) for event in o.events if event.rank == 1] for o in (first, second)]
    assert order[0] == order[1] and len(order[0]) == 9  # all_to_all asks for the sizes first


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_bytes_are_those_of_the_ring(num_ranks):
    def function(world):
        world.all_reduce(torch.zeros(8))
        world.all_gather(torch.zeros(4))
        world.reduce_scatter(torch.zeros(16))
        world.all_to_all(torch.zeros(4 * num_ranks, 2))
        world.ring_exchange(torch.zeros(3))

    outcome, n = run(function, num_ranks), num_ranks
    for rank in range(n):
        assert outcome.sent(rank, "all_reduce") == 2 * (n - 1) * 32 / n
        assert outcome.sent(rank, "all_gather") == (n - 1) * 16
        assert outcome.sent(rank, "reduce_scatter") == (n - 1) * 64 / n
        assert outcome.sent(rank, "all_to_all") == (n - 1) * 32
        assert outcome.sent(rank, "exchange") == (0 if n == 1 else 12)
    assert wire_bytes("all_reduce", 10, 3) == 40 / 3


def test_events_are_on_one_clock():
    def function(world):
        with world.span("work"):
            torch.ones(200, 200) @ torch.ones(200, 200)
        world.barrier()

    outcome = run(function, 2)
    assert all(event.begin <= event.end for event in outcome.events)
    ends = [event.end for event in outcome.events if event.kind == "barrier"]
    works = [event.end for event in outcome.events if event.label == "work"]
    assert min(ends) >= max(works) and outcome.seconds >= max(ends) - outcome.events[0].begin


def test_outcome_adds_what_was_chosen():
    events = [Event(0, "exchange", "a", 1.0, 2.0, 5, 0), Event(1, "exchange", "b", 0.5, 1.5, 7, 5)]
    outcome = Outcome([None, None], events)
    assert (outcome.sent(), outcome.sent(1), outcome.sent(label="a"), outcome.count("exchange")) == (12, 7, 5, 1)
    assert outcome.seconds == 1.5


def all_send_first(world):
    world.send(torch.ones(1), (world.rank + 1) % world.num_ranks)
    world.recv(torch.ones(1), (world.rank - 1) % world.num_ranks)


def one_stays_away(world):
    if world.rank:
        world.all_reduce(torch.ones(1))


def other_shapes(world):
    world.all_reduce(torch.ones(1 + world.rank))


def other_order(world):
    x = torch.ones(2)
    return world.all_gather(x) if world.rank else world.all_reduce(x)


def other_dtype(world):
    sent = torch.ones(1, dtype=torch.float64)
    return world.send(sent, 1) if world.rank == 0 else world.recv(torch.ones(1), 0) if world.rank == 1 else None


def wrong_sizes(world):
    world.all_to_all(torch.zeros(3), [1, 1, 1], [1, 2, 1] if world.rank == 1 else [1, 1, 1])


def never_waits(world):
    world.start_ring(torch.ones(1))


def divides(world):
    world.barrier()
    return 1 // world.rank


def endless(world):
    while world.rank == 1:
        pass


WRONG = {
    all_send_first: "rank 0 waits in send to rank 1; rank 1 waits in send to rank 2; rank 2 waits in send to rank 0",
    one_stays_away: "rank 0 has returned; rank 1 waits in all_reduce sum of .* for rank 0",
    other_shapes: r"collective 1 is all_reduce sum of \(1,\) float32 on rank 0 and all_reduce sum of \(2,\) float32",
    other_order: "collective 1 is all_reduce sum of .* on rank 0 and all_gather of .* on rank 1",
    other_dtype: r"rank 0 sends \(1,\) float64 to rank 1, which receives it into \(1,\) float32",
    wrong_sizes: "rank 1 expects 2 rows of rank 1 in all_to_all, which sends 1",
    never_waits: "rank 0 started 1 exchange.* never waited for",
    divides: "rank 0 raised ZeroDivisionError: integer division or modulo by zero",
    endless: r"after 0.6 s: rank 0 has returned; rank 1 computes; .* at line \d+ of endless in test_parallel.py",
}


@pytest.mark.parametrize("function", WRONG, ids=lambda function: function.__name__)
def test_ranks_that_do_not_fit_end_with_a_sentence(function):
    before = threading.active_count()
    with pytest.raises(WorldError, match=WRONG[function]) as caught:
        run(function, 3, seconds=0.6 if function is endless else 20)
    if function is divides:
        assert isinstance(caught.value.__cause__, ZeroDivisionError) and caught.value.rank == 0
    for thread in threading.enumerate():
        if thread.name.startswith("rank "):
            thread.join(5)
    assert threading.active_count() == before, "a rank goes on after the run"


def test_what_a_rank_asks_is_checked():
    for function, kind in (
        (lambda world: world.all_reduce(torch.ones(2, 3).T), ShapeError),
        (lambda world: world.reduce_scatter(torch.ones(3)), ShapeError),
        (lambda world: world.all_to_all(torch.ones(3), [1, 1]), ShapeError),
        (lambda world: world.all_to_all(torch.tensor(1.0)), ShapeError),
    ):
        with pytest.raises(WorldError) as caught:
            run(function, 2)
        assert isinstance(caught.value.__cause__, kind)
    with pytest.raises(WorldError, match="rank 0 names rank 2; there are 0 to 1"):
        run(lambda world: world.send(torch.ones(1), 2), 2)
