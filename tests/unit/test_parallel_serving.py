"""Routers over replicas, and data parallel serving on ranks against one."""

import random

import pytest

from course_lib.errors import WorldError
from course_lib.parallel import data_parallel as dp
from course_lib.parallel import router as rt
from course_lib.parallel import run


def conversations(num_prompts=60, num_systems=6, seed=0):
    """Prompts of some shared beginnings of 64 tokens, each with an end of its own."""
    chance = random.Random(seed)
    systems = [[chance.randrange(1000) for _ in range(64)] for _ in range(num_systems)]
    ends = ([chance.randrange(1000) for _ in range(chance.randint(1, 20))] for _ in range(num_prompts))
    return [chance.choice(systems) + end for end in ends]


def test_keys_are_equal_where_the_whole_beginning_is():
    a, b = [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 9, 9]
    assert rt.page_keys(a, 2)[:2] == rt.page_keys(b, 2)[:2] and rt.page_keys(a, 2)[2] != rt.page_keys(b, 2)[2]
    assert rt.page_keys([7, 7, 3, 4], 2)[1] != rt.page_keys([8, 8, 3, 4], 2)[1], "the same page after another beginning"
    assert len(rt.page_keys(a, 4)) == 1 and rt.page_keys([], 4) == []


def test_affinity_computes_a_beginning_once():
    prompts = conversations()
    computed = {}
    routers = {"turn": rt.RoundRobin(4), "load": rt.LeastLoaded(), "prefix": rt.PrefixAffinity(4, max_extra=10**6)}
    for name, router in routers.items():
        replicas = [rt.Replica() for _ in range(4)]
        chosen, _ = rt.route_all(router, prompts, replicas)
        assert len(chosen) == len(prompts)
        assert sum(r.computed + r.cached for r in replicas) == sum(map(len, prompts))
        computed[name] = sum(r.computed for r in replicas)
    ends = sum(len(prompt) - 64 for prompt in prompts)
    assert computed["prefix"] == 6 * 64 + ends
    assert min(computed["turn"], computed["load"]) > 3 * 6 * 64 + ends


def test_affinity_gives_way_when_too_much_waits():
    prompt = list(range(32))
    router = rt.PrefixAffinity(2, max_extra=100)
    assert [router.route(prompt, loads) for loads in ((0, 5), (100, 0), (101, 0), (0, 0))] == [0, 0, 1, 0]
    assert router.route([9] * 32, (7, 3)) == 1 and router.route([8] * 32, (3, 3)) == 0


def test_a_router_forgets_what_a_replica_evicts():
    router = rt.PrefixAffinity(1, 0, page_size=2, capacity=2)
    first, second = [1, 2, 3, 4], [5, 6]
    router.route(first, (0,))
    router.route(second, (0,))
    assert router.matched(rt.page_keys(first, 2), 0) == 1, "the page at the end goes first"
    assert router.matched(rt.page_keys(second, 2), 0) == 1


def test_the_last_token_is_always_computed():
    replica = rt.Replica(page_size=4)
    assert [replica.submit([1, 2, 3, 4]) for _ in range(2)] == [4, 1]


@pytest.mark.parametrize("num_ranks", [1, 3])
def test_data_parallel_serving_equals_one_replica(num_ranks):
    prompts = conversations(12)
    router = rt.PrefixAffinity(num_ranks, max_extra=200)
    seen = []

    def answer(batch):
        return [[len(prompt), sum(prompt)] for prompt in batch]

    def function(world):
        def counted(batch):
            seen.append((world.rank, len(batch)))
            return answer(batch)

        return dp.serve(world, counted, prompts if world.rank == 0 else None, router if world.rank == 0 else None)

    outcome = run(function, num_ranks)
    assert outcome.results[0] == answer(prompts) and outcome.results[1:] == [None] * (num_ranks - 1)
    chosen = []
    again, loads = rt.PrefixAffinity(num_ranks, max_extra=200), [0] * num_ranks
    for prompt in prompts:
        chosen.append(again.route(prompt, loads))
        loads[chosen[-1]] += len(prompt)
    assert outcome.sent() == dp.serve_bytes(prompts, answer(prompts), chosen, num_ranks)
    assert sum(count for _, count in seen) == len(prompts) and len(set(chosen)) == num_ranks


def test_a_router_that_names_no_replica_is_a_sentence():
    class Wrong:
        def route(self, prompt, loads):
            return 7

    with pytest.raises(WorldError, match="the router chose replica 7; there are 0 to 1"):
        rt.route_all(Wrong(), [[1]], [rt.Replica(), rt.Replica()])
    with pytest.raises(WorldError, match="the router chose replica 7; there are 0 to 1"):
        run(lambda world: dp.serve(world, list, [[1]], Wrong()), 2)
