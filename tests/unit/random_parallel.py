"""Random calls of course_lib.parallel: timetables, routers, and what needs a world, by their definitions.

No group is started: what needs a world gets one of a single rank, in which every collective is its own answer.
"""

import functools
from collections import defaultdict, deque

import torch
import torch.nn.functional as F

from course_lib.parallel import context, expert, pipeline, router, run
from course_lib.parallel import tensor as tp
from course_lib.parallel.threads import Threads, Turns
from course_lib.reference import moe as reference_moe
from tests.unit import random_ranks
from tests.unit.random_case import SIZES, Case
from tests.unit.random_ranks import RANKS, require_counts, wide


def alone(function):
    """The function in a world of one rank, without a thread of its own."""

    @functools.wraps(function)
    def called(**arguments):
        return function(Threads(0, 1, Turns(1), {"meetings": {}, "channels": defaultdict(deque)}), **arguments)

    del called.__wrapped__  # its own signature has no world
    return called


def _orders(r):
    num_stages, order = r.choice(RANKS), r.choice((pipeline.order_1f1b, pipeline.order_gpipe))
    arguments = {"stage": r.randrange(num_stages), "num_stages": num_stages, "num_micro": r.choice((1, 3, 8))}

    def described(**arguments):
        made = order(**arguments)
        return [made.index(("F", m)) < made.index(("B", m)) for m in range(len(made) // 2)], pipeline.most_held(made)

    def expected(a):
        require_counts(a["num_stages"], a["num_micro"])
        assert 0 <= a["stage"] < a["num_stages"] and a["stage"] == int(a["stage"]), "a stage outside was taken"
        most = a["num_micro"] if order is pipeline.order_gpipe else min(a["num_micro"], a["num_stages"] - a["stage"])
        return [True] * a["num_micro"], most

    return Case(described, arguments, expected)


def _bubble(r):
    order = r.choice((pipeline.order_1f1b, pipeline.order_gpipe))
    arguments = {
        "num_stages": r.choice(RANKS),
        "num_micro": r.choice((1, 4)),
        "forward": r.choice((1, 0.5)),
        "backward": 2,
    }

    def bubbles(num_stages, num_micro, **times):
        formula = pipeline.bubble_formula(num_stages, num_micro)
        orders = [order(stage, num_stages, num_micro) for stage in range(num_stages)]
        return pipeline.bubble(pipeline.timetable(orders, **times)), formula

    def expected(a):
        require_counts(a["num_stages"], a["num_micro"])
        assert all(0 < a[name] < 1e13 and not isinstance(a[name], bool) for name in ("forward", "backward")), "taken"
        return 2 * ((a["num_stages"] - 1) / (a["num_micro"] + a["num_stages"] - 1),)

    return Case(bubbles, arguments, expected)


def _timetable(r):
    """Orders that may wait for each other, or that are none."""
    stages = [[("F", 0), ("B", 0)], [("F", 0), ("B", 0)]]
    if r.random() < 0.5:
        stages[r.randrange(2)][r.randrange(2)] = r.choice((("X", 0), ("F", 1), ("B", -1), "F0", ("F", 0, 0), None, 3))

    def last(orders):
        return max(entry.end for entry in pipeline.timetable(orders))

    def expected(a):
        """The latest end that every entry's needs allow: it begins where the last of them ends."""
        ends, orders = {}, list(map(list, a["orders"]))
        for _ in range(sum(map(len, orders))):  # each round knows one more entry
            for stage, order in enumerate(orders):
                for place, (kind, micro) in enumerate(order):
                    needs = [(stage, *order[place - 1])] if place else []
                    needs += [(stage, "F", micro)] if kind == "B" else []
                    other = stage + (1 if kind == "B" else -1)
                    needs += [(other, kind, micro)] if 0 <= other < len(orders) else []
                    if all(need in ends for need in needs):
                        ends[stage, kind, micro] = max([0, *(ends[n] for n in needs)]) + (1 if kind == "F" else 2)
        assert len(ends) == sum(map(len, orders)) > 0, "an order that cannot be was taken"
        return max(ends.values())

    return Case(last, {"orders": stages}, expected)


def _started(r):
    """A run that is refused before a thread starts; a right one is that of one rank."""
    arguments = {"function": lambda world: world.num_ranks, "num_ranks": 1, "backend": r.choice(("threads", "mpi"))}

    def started(**arguments):
        return run(**arguments).results

    def expected(a):
        assert a["num_ranks"] in (1, 3) and type(a["num_ranks"]) is int and a["seconds"] > 0, "taken"
        return [a["num_ranks"]] * a["num_ranks"]

    return Case(started, arguments | {"seconds": r.choice((1.0, 20))}, expected)


def _routers(r):
    num_replicas = r.choice((1, 2, 3))
    arguments = {"num_replicas": num_replicas, "max_extra": r.choice((0, 10)), "page_size": r.choice((1, 4))}
    arguments |= {"capacity": r.choice((None, 2)), "prompt": [r.randrange(9) for _ in range(r.choice((1, 5, 9)))]}
    arguments["loads"] = [r.randrange(20) for _ in range(num_replicas if r.random() < 0.9 else 2)]

    def expected(a):
        require_counts(a["num_replicas"], a["page_size"])
        least = min(a["loads"])
        assert len(a["loads"]) == a["num_replicas"] and least >= 0 and a["max_extra"] >= 0, "taken"
        assert a["capacity"] is None or a["capacity"] >= 0 and a["capacity"] == int(a["capacity"]), "taken"
        first = list(a["loads"]).index(least)
        pages = len(a["prompt"]) // a["page_size"]
        kept = pages if a["capacity"] is None else min(pages, a["capacity"])
        return 0, first, first, kept

    return Case(_routed, arguments, expected)


def _routed(num_replicas, max_extra, page_size, capacity, prompt, loads):
    affine = router.PrefixAffinity(num_replicas, max_extra, page_size=page_size, capacity=capacity)
    turn, least, chosen = (
        one.route(prompt, loads) for one in (router.RoundRobin(num_replicas), router.LeastLoaded(), affine)
    )
    return turn, least, chosen, affine.matched(router.page_keys(prompt, page_size), chosen)


def _replicas(r):
    arguments = {"prompts": [[r.randrange(3) for _ in range(r.choice((0, 1, 4, 9)))] for _ in range(3)]}
    arguments |= {"pause": r.choice((0, 2.5)), "capacity": None, "page_size": 4}

    def routed(prompts, pause, **options):
        replica = router.Replica(**options)
        chosen, waits = router.route_all(router.RoundRobin(1), prompts, [replica], pause)
        return chosen, waits[:1], replica.computed + replica.cached

    def expected(a):
        assert all(len(prompt) for prompt in a["prompts"]) and a["pause"] >= 0 and a["page_size"] >= 1, "taken"
        assert a["capacity"] is None or a["capacity"] >= 0, "a negative capacity was taken"
        return [0] * len(a["prompts"]), [0.0] * bool(a["prompts"]), sum(map(len, a["prompts"]))

    return Case(routed, arguments, expected)


def _row_parallel(r):
    tokens, inner, out = r.choice(SIZES), r.choice((2, 5)), r.choice((1, 4))
    arguments = {"x": wide(tokens, inner), "weight": wide(out, inner), "bias": r.choice((None, wide(out)))}

    def expected(a):
        y = a["x"].double() @ a["weight"].double().T
        return y if a["bias"] is None else y + a["bias"]

    return Case(r.choice((alone(tp.row_parallel), tp.column_parallel)), arguments, expected)


def _mlp(r):
    arguments = {"x": wide(r.choice(SIZES), 4), "up": wide(6, 4), "down": wide(4, 6), "activation": F.gelu}

    def expected(a):
        return a["activation"](a["x"] @ a["up"].T) @ a["down"].T

    return Case(alone(tp.mlp), arguments, expected)


def _vocabulary_layers(r):
    arguments = {"ids": torch.randint(-1 if r.random() < 0.2 else 0, 7, (r.choice(SIZES),)), "part": wide(7, 4)}
    arguments["vocab_size"] = 7

    def layers(world, ids, part, vocab_size):
        x = tp.embedding(world, ids, part, vocab_size)
        scores = tp.logits(world, x, part, vocab_size)
        loss, gradient = tp.cross_entropy(world, scores, ids, vocab_size)
        return scores, gradient, loss

    def expected(a):
        ids = a["ids"].long()
        assert ids.min() >= 0 and a["vocab_size"] == len(a["part"]), "what is no token was taken"
        scores = (a["part"][ids] @ a["part"].T).double()
        right = F.one_hot(ids, a["vocab_size"])
        return scores, (scores.softmax(-1) - right) / len(ids), F.cross_entropy(scores, ids)

    return Case(alone(layers), arguments, expected)


def _collectives(r):
    arguments = {"x": wide(r.choice(SIZES), 3), "dim": r.choice((0, 1, -1, 5)), "op": r.choice(("sum", "max", "mean"))}
    arguments["sizes"] = r.choice((None, [len(arguments["x"])], [1]))

    def expected(a):
        assert a["op"] in ("sum", "max") and type(a["dim"]) is int and -a["x"].ndim <= a["dim"] < a["x"].ndim, "taken"
        assert a["sizes"] is None or [int(size) for size in a["sizes"]] == [len(a["x"])], (
            "sizes that are none were taken"
        )
        return [a["x"]] * 4

    return Case(alone(_collected), arguments, expected)


def _collected(world, x, dim, op, sizes):
    gathered, scattered = world.all_gather(x, dim), world.reduce_scatter(x, dim)
    return [gathered, scattered, world.all_to_all(x, sizes), world.all_reduce(x.contiguous(), op)]


def _moe(r):
    tokens, num_experts, hidden, width = r.choice((1, 5)), r.choice((1, 6)), r.choice((3, 8)), r.choice((2, 5))
    arguments = {"x": wide(tokens, hidden), "router_logits": wide(tokens, num_experts)}
    arguments |= {"w_up": wide(num_experts, 2 * width, hidden), "w_down": wide(num_experts, hidden, width)}
    arguments |= {"top_k": r.choice((1, 2)), "renormalise": r.random() < 0.5}

    def expected(a):
        tensors = (a[name] for name in ("x", "router_logits", "w_up", "w_down"))
        return reference_moe.moe(*tensors, top_k=a["top_k"], renormalise=a["renormalise"]).to(a["x"].dtype)

    return Case(alone(expert.moe), arguments, expected)


def _attention(r):
    heads, keys = r.choice((1, 2)), r.choice((2, 6))
    arguments = {"q": wide(1, 2, keys, 4), "k": wide(1, heads, keys, 4), "v": wide(1, heads, keys, 4)}
    arguments |= {"causal": r.random() < 0.5, "softmax_scale": r.choice((None, 0.3))}
    ring = r.random() < 0.5

    def attended(world, **arguments):
        done = (context.ring_attention if ring else context.ulysses_attention)(world, **arguments, attend=_attend)
        return done[0] if ring else done

    return Case(alone(attended), arguments, lambda a: _attend(**a)[0].to(a["q"].dtype))


def _attend(q, k, v, causal, softmax_scale):
    k, v = (x.double().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    scores = q.double() @ k.transpose(-1, -2) * scale
    later = torch.ones(scores.shape[-2:]).triu(1).bool() & bool(causal)
    scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


MAKERS = (
    *random_ranks.MAKERS,
    _orders, _bubble, _timetable, _started, _routers, _replicas, _row_parallel, _mlp, _vocabulary_layers,
    _collectives, _moe, _attention,
)  # fmt: skip
